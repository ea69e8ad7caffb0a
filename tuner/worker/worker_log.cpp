#include "tuner/worker/worker_log.h"

#include <exception>

namespace autotune::tuner {
namespace {

constexpr std::size_t kMostBytes = 4096;  // the limit of an entry, because people read logs

}  // namespace

void WorkerLog::write(LogLevel level, std::string_view source, std::string_view text) noexcept {
    try {
        const std::string entry = std::string(source) + (source.empty() ? "" : ": ") + std::string(text.substr(0, kMostBytes));
        channel_.send({{{"event", "log"}, {"level", to_string(level)}, {"text", entry}}, {}});
    } catch (const std::exception&) {  // The entry is lost, but the program goes on.
    }
}

bool take_log(const Message& message, LogSink* sink, const std::string& source) {
    if (message.body.value("event", "") != "log") return false;
    const LogLevel level = parse_log_level(message.body.value("level", "")).value_or(LogLevel::info);
    log_to(sink, level, source, [&] { return message.body.value("text", ""); });
    return true;
}

void add_log_level(std::vector<std::string>& arguments, const LogSink* sink) {
    if (sink != nullptr) arguments.insert(arguments.end(), {"--log-level", std::string(to_string(sink->level()))});
}

}  // namespace autotune::tuner
