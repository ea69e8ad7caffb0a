#include "src/dispatch/pin.h"

#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

#include "src/catalogue/former_templates.h"
#include "src/core/error.h"
#include "src/dispatch/rules/refusals.h"

namespace autotune::dispatch {
namespace {

// All of `text` as a 64-bit integer, or nullopt.
std::optional<std::int64_t> integer_of(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failure == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

}  // namespace

bool Pin::holds_for(const Problem& problem) const {
    const std::string op = text_.substr(0, text_.find('/'));
    return !text_.empty() && (op == problem.op || catalogue_.find_op(op) == nullptr);
}

Candidate Pin::candidate(const Problem& problem, const Device& device) const {
    std::istringstream words(text_);
    std::string name;
    words >> name;
    const Family* family = catalogue_.find_family(name);
    if (family == nullptr) throw Error(ErrorCode::usage, "pin '" + text_ + "': there is no family '" + name + "'");
    if (const auto reason = why_unable(*family, problem, device))
        throw Error(ErrorCode::no_valid_config, "the pinned family " + name + " cannot do " + problem.key() + ": " + *reason);
    const SearchSpace rules = family->rules(problem, device);
    Config config = family->default_config(problem, device);
    const FormerTemplates former = former_templates(catalogue_);
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        const std::string parameter = former.present_parameter(name, word.substr(0, equals));
        const auto value = equals == std::string::npos ? std::nullopt : integer_of(std::string_view(word).substr(equals + 1));
        if (!value || rules.find(parameter) == nullptr)
            throw Error(ErrorCode::usage, "pin '" + text_ + "': '" + word + "' is no parameter=value of the family");
        config.set(parameter, *value);
    }
    if (const auto reason = rules.why_not(config))
        throw Error(ErrorCode::no_valid_config, "the pinned config is not legal for " + problem.key() + ": " + *reason);
    return {name, config};
}

}  // namespace autotune::dispatch
