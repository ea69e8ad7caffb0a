#pragma once

#include <optional>
#include <string>

#include "src/core/log.h"
#include "tuner/worker/protocol/protocol.h"
#include "tuner/worker/protocol/worker_channel.h"

namespace autotune::tuner {

// A worker's log: it may write no file, and standard error is nobody's, so entries travel to the coordinator between its answers.
class WorkerLog final : public LogSink {
  public:
    // `level`: of kLogLevels, or empty where nobody listens.
    WorkerLog(WorkerChannel& channel, const std::string& level) : channel_(channel), level_(parse_log_level(level)) {}
    // What to hand on: nullptr where nobody listens.
    LogSink* sink() { return level_ ? this : nullptr; }

    LogLevel level() const override { return *level_; }
    void write(LogLevel level, std::string_view source, std::string_view text) noexcept override;

  private:
    WorkerChannel& channel_;
    std::optional<LogLevel> level_;
};

// The coordinator's end: whether a message is an entry of a worker's log, which then is written to `sink`. `source` says whose.
bool take_log(const Message& message, LogSink* sink, const std::string& source);
// The flag that gives a worker its level; nothing where nobody listens.
void add_log_level(std::vector<std::string>& arguments, const LogSink* sink);

}  // namespace autotune::tuner
