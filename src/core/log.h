#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace autotune {

enum class LogLevel { trace, debug, info, warn, error };
inline constexpr std::array<std::string_view, 5> kLogLevels = {"trace", "debug", "info", "warn", "error"};

constexpr std::string_view to_string(LogLevel level) {
    return kLogLevels[static_cast<std::size_t>(level)];
}
constexpr std::optional<LogLevel> parse_log_level(std::string_view word) {
    for (std::size_t i = 0; i < kLogLevels.size(); ++i) {
        if (kLogLevels[i] == word) return static_cast<LogLevel>(i);
    }
    return std::nullopt;
}

// Receives log entries. A component that logs gets one, or nullptr if nobody reads the log.
class LogSink {
  public:
    virtual ~LogSink() = default;
    // Entries of a lower level are not to be written.
    virtual LogLevel level() const = 0;
    // Writes one entry. `text` may come from outside and contain anything: the sink makes it printable. May be called from
    // several threads at once. Never throws.
    virtual void write(LogLevel level, std::string_view source, std::string_view text) noexcept = 0;
};

inline bool wants(const LogSink* sink, LogLevel level) {
    return sink != nullptr && level >= sink->level();
}

// Writes the result of `text()`, which is called only if the sink wants entries of this level.
template <class Text>
void log_to(LogSink* sink, LogLevel level, std::string_view source, const Text& text) {
    if (wants(sink, level)) sink->write(level, source, text());
}

}  // namespace autotune
