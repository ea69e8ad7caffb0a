#include "tools/cli/output/text/command_line.h"

#include <algorithm>
#include <optional>

#include "src/catalogue/op_names.h"
#include "src/core/error.h"
#include "src/core/spelling.h"

namespace autotune::cli {
namespace {

bool is_plain(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           std::string_view("_-./+=:@%,").find(letter) != std::string_view::npos;
}

std::optional<Problem> problem_or_nothing(const Catalogue& catalogue, const ProblemRequest& request) {
    try {
        return catalogue.problem(request);
    } catch (const Error&) {
        return std::nullopt;
    }
}

// The request for the problem under this name of the op, with the options that differ from the defaults, or nullopt.
std::optional<ProblemRequest> request_as(const Catalogue& catalogue, const Problem& problem, const std::string& name) {
    ProblemRequest request{.op = name, .shape = problem.shape(), .options = {}};
    const std::optional<Problem> usual = problem_or_nothing(catalogue, request);
    for (const Attribute& attribute : problem.attributes) {
        const bool is_usual =
            usual && std::find(usual->attributes.begin(), usual->attributes.end(), attribute) != usual->attributes.end();
        if (!is_usual) request.options[attribute.name] = to_string(attribute.value);
    }
    const std::optional<Problem> same = problem_or_nothing(catalogue, request);
    if (same && same->key() == problem.key()) return request;
    return std::nullopt;
}

}  // namespace

std::string shell_word(const std::string& word) {
    if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
    std::string quoted = "'";
    for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return quoted + "'";
}

std::string problem_flags_text(const Catalogue& catalogue, const Problem& problem, const Arguments& arguments) {
    std::vector<std::string> names = {known_word(arguments.text("op", problem.op), op_names(catalogue)), problem.op};
    if (catalogue.find_op(names.front()) != &catalogue.op_of(problem)) names.erase(names.begin());
    for (const OpAlias& alias : catalogue.op_of(problem).aliases()) names.push_back(alias.name);
    std::optional<ProblemRequest> best;
    for (const std::string& name : names) {
        const std::optional<ProblemRequest> request = request_as(catalogue, problem, name);
        if (request && (!best || request->options.size() < best->options.size())) best = request;
    }
    if (!best) {
        best = ProblemRequest{.op = problem.op, .shape = problem.shape(), .options = {}};
        for (const Attribute& attribute : problem.attributes) best->options[attribute.name] = to_string(attribute.value);
    }
    // --kernel, which the line repeats, brings the op of its file.
    const bool is_of_kernel_file = best->op.starts_with("user_") && arguments.has("kernel");
    std::string text = (is_of_kernel_file ? "" : "--op " + best->op + " ") + "--shape " + shell_word(best->shape);
    for (const Attribute& attribute : problem.attributes) {
        const auto option = best->options.find(attribute.name);
        if (option != best->options.end()) text += " --" + option->first + " " + shell_word(option->second);
    }
    return text;
}

std::string given_flags_text(const Arguments& arguments, const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names)
        for (const std::string& value : arguments.all(name))
            text += " --" + name + (value.empty() ? "" : " " + shell_word(value));
    return text;
}

std::string shared_flags_text(const Arguments& arguments) {
    return given_flags_text(arguments, {"kernel", "device", "templates", "db"});
}

}  // namespace autotune::cli
