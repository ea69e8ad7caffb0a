#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// The errors of a family's cost model on one card for one class of problems, learned from the trials of earlier problems. It only
// orders candidates and decides nothing. It is never exported, because it would be wrong on another card.
struct CostCorrection {
    std::string device_key{}, family{}, template_identity{}, nvrtc{}, class_key{};
    int problems = 0, trials = 0;  // number of problems and trials it was learned from
    double deviation = 0;          // the standard deviation of the logarithm of measured over predicted time, after correction
    // How much a parameter's value adds to the logarithm of the predicted time, and from how many trials this is known. An empty
    // name is the family as a whole.
    struct Effect {
        std::string parameter{};
        std::int64_t value = 0;
        double effect = 0, weight = 0;
        bool operator==(const Effect&) const = default;
    };
    std::vector<Effect> effects{};
    std::string date{};  // ISO 8601, UTC
};

namespace records {

inline constexpr std::size_t kMaxEffects = 2'000;
inline constexpr double kMaxEffect = 3;  // a factor of twenty

// The first thing wrong with it; nullopt if all is in range.
std::optional<std::string> why_invalid(const CostCorrection& correction);
// The stored form of effects: "=0:-0.02:31 block_m=128:0.013:12".
std::string effects_to_text(const std::vector<CostCorrection::Effect>& effects);
// The effects of a stored text, or nullopt unless it has that form.
std::optional<std::vector<CostCorrection::Effect>> effects_from_text(std::string_view text);

}  // namespace records
}  // namespace autotune
