#include "tools/cli/help/completion_values.h"

#include <algorithm>
#include <optional>

#include "src/core/error.h"
#include "src/dispatch/rules/refusals.h"
#include "tools/cli/input/requests.h"

namespace autotune::cli {
namespace {

std::vector<Completion> plain(const std::vector<std::string>& words) {
    std::vector<Completion> completions;
    for (const std::string& word : words) completions.push_back({.word = word});
    return completions;
}

std::string text_of(const GivenFlags& given, const std::string& flag) {
    const auto found = given.find(flag);
    return found == given.end() ? "" : found->second;
}

// The meaning of an alias: "gemm with acc=f32 dtype=f16".
std::string alias_text(const Op& op, const OpAlias& alias) {
    std::string text = std::string(op.name()) + " with";
    for (const auto& [name, value] : alias.presets) text += " " + name + "=" + value;
    return text;
}

std::vector<Completion> op_completions(const Catalogue& catalogue) {
    std::vector<Completion> names;
    for (const Op* op : catalogue.ops()) {
        for (const OpAlias& alias : op->aliases()) names.push_back({.word = alias.name, .about = alias_text(*op, alias)});
        names.push_back({.word = std::string(op->name()), .about = std::string(op->about())});
    }
    return names;
}

// Families of the op on the line, or of every op.
std::vector<const Family*> families_on(const GivenFlags& given, const Catalogue& catalogue) {
    const Op* op = catalogue.find_op(text_of(given, "op"));
    return op == nullptr ? catalogue.families() : catalogue.families_of(op->name());
}

std::vector<Completion> family_completions(const GivenFlags& given, const Catalogue& catalogue) {
    std::vector<Completion> names;
    for (const Family* family : families_on(given, catalogue))
        names.push_back({.word = std::string(family->name()), .about = std::string(family->about())});
    return names;
}

// The problem on the line if it can be read, else an example of the op with large extents.
std::optional<Problem> problem_on(const GivenFlags& given, const Catalogue& catalogue) {
    const Op* op = catalogue.find_op(text_of(given, "op"));
    if (op == nullptr) return std::nullopt;
    ProblemRequest request{.op = given.at("op"), .shape = text_of(given, "shape"), .options = {}};
    for (const OpOption& option : op->options()) {
        if (const auto found = given.find(option.name); found != given.end()) request.options.insert(*found);
    }
    for (const ProblemRequest& attempt : {request, ProblemRequest{request.op, showcase_shape(*op), {}}}) {
        try {
            return catalogue.problem(attempt);
        } catch (const Error&) {
            continue;
        }
    }
    return std::nullopt;
}

bool is_chosen(const Family& family, const std::string& chosen, const std::string& op) {
    return chosen.empty() || family.name() == chosen || family.name() == op + "/" + chosen;
}

// The space of each family that the line allows, on the newest architecture that accepts the problem, because it has the most
// values.
std::vector<SearchSpace> spaces_on(const GivenFlags& given, const Catalogue& catalogue) {
    std::vector<SearchSpace> spaces;
    const std::optional<Problem> problem = problem_on(given, catalogue);
    if (!problem) return spaces;
    std::vector<std::string> archs = known_archs();
    std::reverse(archs.begin(), archs.end());
    for (const Family* family : catalogue.families_of(problem->op)) {
        if (!is_chosen(*family, text_of(given, "family"), problem->op)) continue;
        const auto takes = [&](const std::string& arch) { return !why_unable(*family, *problem, *reference_device(arch)); };
        const auto arch = std::find_if(archs.begin(), archs.end(), takes);
        if (arch != archs.end()) spaces.push_back(family->space(*problem, *reference_device(*arch)));
    }
    return spaces;
}

std::vector<Completion> config_completions(const GivenFlags& given, const Catalogue& catalogue) {
    std::vector<Completion> names;
    for (const SearchSpace& space : spaces_on(given, catalogue)) {
        for (const NamedConfig& named : space.named) names.push_back({.word = named.name, .about = named.config.to_string()});
    }
    return names;
}

// Offers "block_m=" until a parameter is named, then "block_m=64" and its other values.
Completions parameter_completions(const std::string& typed, const GivenFlags& given, const Catalogue& catalogue) {
    const bool names = typed.find('=') == std::string::npos;
    std::map<std::string, std::string> about;
    std::map<std::int64_t, std::string> values;  // in numeric order
    for (const SearchSpace& space : spaces_on(given, catalogue)) {
        for (const Parameter& parameter : space.parameters) {
            about.emplace(parameter.name + "=", parameter.about);
            if (typed.starts_with(parameter.name + "=")) {
                for (const std::int64_t value : parameter.values)
                    values.emplace(value, parameter.name + "=" + std::to_string(value));
            }
        }
    }
    Completions completions{.goes_on = names};
    for (const auto& [word, text] : about) {
        if (names) completions.words.push_back({.word = word, .about = text});
    }
    for (const auto& [value, word] : values) completions.words.push_back({.word = word});
    return completions;
}

// Offers the items that are not in the list yet, each appended to the list.
Completions list_completions(const std::string& typed, const std::vector<std::string>& items) {
    const std::string before = typed.substr(0, typed.rfind(',') == std::string::npos ? 0 : typed.rfind(',') + 1);
    const std::vector<std::string> there = split(before, ',');
    Completions completions{.goes_on = true};
    for (const std::string& item : items) {
        if (std::find(there.begin(), there.end(), item) == there.end()) completions.words.push_back({.word = before + item});
    }
    return completions;
}

PathKind path_kind(const Flag& flag) {
    if (flag.form.find("DIR") != std::string::npos) return PathKind::folders;
    return flag.form.find("FILE") != std::string::npos ? PathKind::files : PathKind::none;
}

Completions all_values(const Flag& flag, const std::string& typed, const GivenFlags& given, const Catalogue& catalogue) {
    if (flag.name == "op") return {.words = op_completions(catalogue)};
    if (flag.name == "family") return {.words = family_completions(given, catalogue)};
    if (flag.name == "config") return {.words = config_completions(given, catalogue)};
    if (flag.name == "param") return parameter_completions(typed, given, catalogue);
    if (flag.form == "LIST") return list_completions(typed, flag.allowed);
    return {.words = plain(flag.allowed), .paths = path_kind(flag)};
}

}  // namespace

std::vector<Completion> beginning_with(const std::string& typed, const std::vector<Completion>& all) {
    std::vector<Completion> kept;
    std::copy_if(all.begin(), all.end(), std::back_inserter(kept),
                 [&](const Completion& completion) { return completion.word.starts_with(typed); });
    return kept;
}

std::vector<Completion> name_completions(const Catalogue& catalogue) {
    std::vector<Completion> names = family_completions({}, catalogue);
    for (Completion& op : op_completions(catalogue)) names.push_back(std::move(op));
    return names;
}

Completions value_completions(const Flag& flag, const std::string& typed, const GivenFlags& given, const Catalogue& catalogue) {
    Completions completions = all_values(flag, typed, given, catalogue);
    completions.words = beginning_with(typed, completions.words);
    return completions;
}

}  // namespace autotune::cli
