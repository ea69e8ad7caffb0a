#pragma once

#include <optional>
#include <string>

#include "src/core/log.h"
#include "tuner/worker/protocol/protocol.h"
#include "tuner/worker/protocol/worker_channel.h"

namespace autotune::tuner {

// A worker's log. A worker may not write files, and its standard error goes nowhere, so entries are sent to the coordinator
// between replies.
class WorkerLog final : public LogSink {
  public:
    // `level`: of kLogLevels, or empty if there is no log.
    WorkerLog(WorkerChannel& channel, const std::string& level) : channel_(channel), level_(parse_log_level(level)) {}
    // The sink to pass on: nullptr if there is no log.
    LogSink* sink() { return level_ ? this : nullptr; }

    LogLevel level() const override { return *level_; }
    void write(LogLevel level, std::string_view source, std::string_view text) noexcept override;

  private:
    WorkerChannel& channel_;
    std::optional<LogLevel> level_;
};

// The coordinator's side: whether a message is an entry of a worker's log, which is then written to `sink`. `source`: which
// worker.
bool take_log(const Message& message, LogSink* sink, const std::string& source);
// Adds the flag that gives a worker its level; nothing if there is no log.
void add_log_level(std::vector<std::string>& arguments, const LogSink* sink);

}  // namespace autotune::tuner
