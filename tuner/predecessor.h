#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace autotune::tuner {

// The kernel that stands on the stream before each launch that is timed.
enum class Predecessor : std::uint8_t {
    filler,   // a small kernel after which nothing starts early: gives the stream time, by which winners are chosen
    itself,   // the timed kernel: launches may overlap with themselves
    trigger,  // a small kernel that waits for its own predecessor and lets its successor start early
};

constexpr std::array<std::string_view, 3> kPredecessorWords = {"filler", "itself", "trigger"};

constexpr std::string_view to_string(Predecessor which) {
    return kPredecessorWords.at(static_cast<std::size_t>(which));
}

constexpr std::optional<Predecessor> parse_predecessor(std::string_view word) {
    for (std::size_t i = 0; i < kPredecessorWords.size(); ++i) {
        if (kPredecessorWords.at(i) == word) return static_cast<Predecessor>(i);
    }
    return std::nullopt;
}

}  // namespace autotune::tuner
