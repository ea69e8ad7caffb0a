// Checks that each name in an expression is known at its place.
#include <algorithm>
#include <set>

#include "src/core/spelling.h"
#include "src/core/text.h"
#include "src/kernel_files/loader.h"

namespace autotune::kernel_files {

std::string Loader::known_names(Level level) const {
    std::string text;
    const auto list = [&](const char* what, const std::vector<std::string>& names) {
        if (names.empty()) return;
        constexpr std::size_t kMostTold = 12;
        const std::vector<std::string> told(names.begin(),
                                            names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostTold)));
        text += std::string(text.empty() ? "" : "; ") + what + " " + join(told) + (names.size() > kMostTold ? ", ..." : "");
    };
    const auto names_of = [](const auto& all) {
        std::vector<std::string> names;
        for (const auto& each : all) names.push_back(each.name);
        return names;
    };
    if (level == Level::config) list("parameters", names_of(reading_.file().family.parameters));
    list("extents", op_.extents);
    list("attributes", names_of(op_.attributes));
    list("[let]", names_of(op_.lets));
    if (level != Level::problem) list("device", device_names());
    return text;
}

void Loader::check_names() {
    const FamilyDefinition& family = reading_.file().family;
    std::vector<std::string> problem(op_.extents), device(device_names()), config, words(type_words());
    for (const auto& attribute : op_.attributes) {
        problem.push_back(attribute.name);
        if (!attribute.is_word) continue;
        words.insert(words.end(), attribute.values.begin(), attribute.values.end());
        for (const std::string& word : attribute.values) problem.push_back(attribute.name + "." + word);
    }
    for (const auto& tensor : op_.tensors)
        for (const std::string& property : tensor_properties()) {
            const char last = property.back();
            const bool is_dimension = last >= '0' && last <= '4';
            if (!is_dimension || static_cast<std::size_t>(last - '0') < tensor.shape.size())
                problem.push_back(tensor.name + "." + property);
        }
    for (const Parameter& parameter : family.parameters) config.push_back(parameter.name);
    for (const auto& [parameter, spelled] : family.words) words.insert(words.end(), spelled.begin(), spelled.end());
    const auto has = [](const std::vector<std::string>& all, const std::string& name) {
        return std::find(all.begin(), all.end(), name) != all.end();
    };

    std::optional<Lets> lets;
    try {
        lets.emplace(op_.lets);
    } catch (const Error&) {
        return;  // told already
    }
    for (const Let& let : op_.lets) use(let.value, Level::config);
    std::set<std::pair<std::string, std::string>> told;  // an expression may be used at several levels
    for (const auto& [text, level, index] : uses_) {
        const Expression expression(text);
        for (const std::string& name : lets->names_of(expression)) {
            if (!index.empty() && name == index) continue;
            if (has(problem, name) || (level != Level::problem && has(device, name)) ||
                (level == Level::config && has(config, name)))
                continue;
            const bool is_own = std::find(expression.names().begin(), expression.names().end(), name) != expression.names().end();
            if (is_own && expression.may_be_word(name) && has(words, name)) continue;
            const bool is_word_of_let = !is_own && has(words, name);
            if (is_word_of_let) continue;
            if (!told.insert({text, name}).second) continue;
            std::vector<std::string> known = problem;
            if (level != Level::problem) known.insert(known.end(), device.begin(), device.end());
            if (level == Level::config) known.insert(known.end(), config.begin(), config.end());
            for (const Let& let : op_.lets) known.push_back(let.name);
            std::string what = "there is no '" + name + "'" + did_you_mean(name, known);
            if (has(config, name))
                what = "parameter '" + name + "' has no value here, where only the problem" +
                       (level == Level::device ? " and the device are" : " is") + " known";
            if (!has(config, name) && has(device, name))
                what = "'" + name + "' is a number of the device, and only the problem is known here";
            if (!is_own) what = "by a [let]: " + what;
            const auto known_place = reading_.file().expressions.find(text);
            Place place = known_place == reading_.file().expressions.end() ? Place{reading_.path()} : known_place->second;
            if (place.column > 0 && is_own) {
                place.column += expression.offset_of(name);
                place.length = name.size();
            }
            reading_.fault(place, what + "; known here are " + known_names(level));
        }
    }
}

}  // namespace autotune::kernel_files
