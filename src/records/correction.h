#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// A cost model's errors as the trials of earlier problems show them, for one family and class of problems on one card. It orders
// candidates and decides nothing, so it is never exported: on another card it would be wrong.
struct CostCorrection {
    std::string device_key{}, family{}, template_identity{}, nvrtc{}, class_key{};
    int problems = 0, trials = 0;  // that it rests on
    double deviation = 0;          // of the logarithms of times over predicted ones, once they are corrected
    // By how much a parameter's value lengthens the logarithm of the predicted time, and how many trials say so. An empty name
    // is the family as a whole.
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

// First thing wrong with it; nullopt if all is in range.
std::optional<std::string> why_invalid(const CostCorrection& correction);
// "=0:-0.02:31 block_m=128:0.013:12": effects as they are stored.
std::string effects_to_text(const std::vector<CostCorrection::Effect>& effects);
// nullopt unless it is such a text.
std::optional<std::vector<CostCorrection::Effect>> effects_from_text(std::string_view text);

}  // namespace records
}  // namespace autotune
