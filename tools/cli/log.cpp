#include "tools/cli/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/ostream_sink.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>

#include "src/core/error.h"
#include "src/core/system/file_descriptor.h"
#include "tools/cli/output/terminal/messages.h"

namespace autotune::cli {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
    switch (level) {
        case LogLevel::trace:
            return spdlog::level::trace;
        case LogLevel::debug:
            return spdlog::level::debug;
        case LogLevel::warn:
            return spdlog::level::warn;
        case LogLevel::error:
            return spdlog::level::err;
        case LogLevel::info:
            break;
    }
    return spdlog::level::info;
}

class SpdLog final : public Log {
  public:
    // Keeps a reference to `err`.
    SpdLog(LogLevel level, spdlog::sink_ptr sink, std::ostream& err, bool on_standard_error)
        : level_(level), on_standard_error_(on_standard_error), err_(err), logger_("autotune", std::move(sink)) {
        logger_.set_level(level_of(level));
        logger_.set_formatter(
            std::make_unique<spdlog::pattern_formatter>("%Y-%m-%dT%H:%M:%S.%eZ %-7l %v", spdlog::pattern_time_type::utc));
        // Every line is flushed, so that the log shows what happened before a crash. A line takes a write of some 2 us, while a
        // trial takes milliseconds.
        logger_.flush_on(spdlog::level::trace);
        // A full disk ends the log but not the tune. This is reported once.
        logger_.set_error_handler([this](const std::string& why) {
            if (!has_failed_.exchange(true)) say(err_, Message::warning, "the log is not complete: " + why);
        });
    }

    LogLevel level() const override { return level_; }
    bool is_on_standard_error() const override { return on_standard_error_; }
    void write(LogLevel level, std::string_view source, std::string_view text) noexcept override {
        try {
            logger_.log(level_of(level), "{}: {}", printable(source), printable(text));
        } catch (const std::exception&) {  // There is no memory for an entry.
        }
    }

  private:
    LogLevel level_;
    bool on_standard_error_;
    std::ostream& err_;
    std::atomic<bool> has_failed_{false};
    spdlog::logger logger_;
};

}  // namespace

std::unique_ptr<Log> open_log(const Arguments& arguments, std::ostream& err) {
    if (!arguments.has("log-level") && !arguments.has("log-file")) return nullptr;
    const std::vector<std::string> levels(kLogLevels.begin(), kLogLevels.end());
    const LogLevel level = *parse_log_level(arguments.word("log-level", "info", levels));
    if (!arguments.has("log-file")) {
        return std::make_unique<SpdLog>(level, std::make_shared<spdlog::sinks::ostream_sink_mt>(err), err, true);
    }
    const std::string file = arguments.text("log-file");
    if (file.empty()) throw Error(ErrorCode::usage, "--log-file is empty; give the path of a file");
    // For a mistyped path spdlog would create folders, and for a pipe it would wait for a reader.
    const FileDescriptor probe(::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666));
    if (!probe.open()) throw Error(ErrorCode::usage, "--log-file " + file + " cannot be written: " + std::strerror(errno));
    try {
        return std::make_unique<SpdLog>(level, std::make_shared<spdlog::sinks::basic_file_sink_mt>(file), err, false);
    } catch (const spdlog::spdlog_ex& error) {
        throw Error(ErrorCode::usage, "--log-file: " + std::string(error.what()));
    }
}

}  // namespace autotune::cli
