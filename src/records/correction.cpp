#include "src/records/correction.h"

#include <charconv>
#include <cmath>
#include <sstream>

#include "src/records/validate.h"

namespace autotune::records {
namespace {

constexpr double kMostWeight = 1e9;
constexpr int kMostCounted = 1'000'000'000;

template <class Number>
bool read(std::string_view text, Number& number) {
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc() && end == text.data() + text.size();
}

std::optional<CostCorrection::Effect> effect_from_text(std::string_view word) {
    const std::size_t equals = word.find('='), first = word.find(':'), second = word.find(':', first + 1);
    if (equals == word.npos || first == word.npos || second == word.npos || equals > first) return std::nullopt;
    CostCorrection::Effect effect{.parameter = std::string(word.substr(0, equals))};
    const bool reads = read(word.substr(equals + 1, first - equals - 1), effect.value) &&
                       read(word.substr(first + 1, second - first - 1), effect.effect) &&
                       read(word.substr(second + 1), effect.weight);
    return reads ? std::optional(std::move(effect)) : std::nullopt;
}

}  // namespace

std::optional<std::string> why_invalid(const CostCorrection& correction) {
    if (!is_family_name(correction.family)) return "the family's name is not one of [a-z0-9_/]";
    if (!is_class_key(correction.class_key)) return "the class of problems is not one";
    for (const std::string* text : {&correction.device_key, &correction.template_identity, &correction.nvrtc}) {
        if (text->empty() || !is_text(*text))
            return "the device, the template's identity or NVRTC's version is missing or too long";
    }
    if (!is_text(correction.date)) return "the date is not a short line of text";
    for (const int count : {correction.problems, correction.trials})
        if (count < 0 || count > kMostCounted) return "a count is outside 0 to 1e9";
    if (!(correction.deviation >= 0 && correction.deviation <= kMaxEffect)) return "the deviation is outside 0 to 3";
    if (correction.effects.size() > kMaxEffects) return "there are more than " + std::to_string(kMaxEffects) + " effects";
    for (const CostCorrection::Effect& one : correction.effects) {
        if (!one.parameter.empty() && !is_parameter_name(one.parameter)) return "a parameter's name is not one of [A-Za-z0-9_]";
        if (!(std::abs(one.effect) <= kMaxEffect)) return "an effect is outside -3 to 3";
        if (!(one.weight >= 0 && one.weight <= kMostWeight)) return "a weight is outside 0 to 1e9";
    }
    return std::nullopt;
}

std::string effects_to_text(const std::vector<CostCorrection::Effect>& effects) {
    std::ostringstream text;
    text.precision(5);
    for (const CostCorrection::Effect& one : effects) {
        if (text.tellp() > 0) text << ' ';
        text << one.parameter << '=' << one.value << ':' << one.effect << ':' << one.weight;
    }
    return text.str();
}

std::optional<std::vector<CostCorrection::Effect>> effects_from_text(std::string_view text) {
    std::vector<CostCorrection::Effect> effects;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        const auto effect = effect_from_text(text.substr(0, end));
        if (!effect || effects.size() == kMaxEffects) return std::nullopt;
        effects.push_back(*effect);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return effects;
}

}  // namespace autotune::records
