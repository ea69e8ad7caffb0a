#include "tools/cli/input/requests.h"

#include <algorithm>
#include <sstream>

#include "src/core/error.h"
#include "tools/cli/input/budget.h"
#include "tools/cli/input/parser.h"
#include "tools/cli/input/shapes.h"

namespace autotune::cli {
namespace {

std::string known_ops(const Catalogue& catalogue) {
    std::vector<std::string> names;
    for (const Op* op : catalogue.ops()) {
        for (const OpAlias& alias : op->aliases()) names.push_back(alias.name);
        names.emplace_back(op->name());
    }
    return join(names, ", ");
}

// Options of any op that were given as flags.
std::map<std::string, std::string> op_options_of(Session& session) {
    std::map<std::string, std::string> options;
    for (const Op* op : session.catalogue().ops()) {
        for (const OpOption& option : op->options()) {
            if (session.arguments().has(option.name)) options[option.name] = session.arguments().text(option.name);
        }
    }
    return options;
}

void append_problems(Session& session, const ProblemRequest& request, std::vector<Problem>& problems) {
    const Op& op = op_named(session, request.op);
    for (const std::string& shape : expand_shapes(request.shape, extent_count(op))) {
        problems.push_back(session.catalogue().problem({.op = request.op, .shape = shape, .options = request.options}));
        if (problems.size() > kMostShapes) {
            throw Error(ErrorCode::usage, "more than " + std::to_string(kMostShapes) + " problems; split them over several runs");
        }
    }
}

void append_line(Session& session, const ShapeLine& line, std::vector<Problem>& problems) {
    ProblemRequest request{.op = session.arguments().text("op"), .shape = line.shape, .options = op_options_of(session)};
    for (const auto& [name, value] : line.options) {
        if (name == "op") {
            request.op = value;
        } else {
            request.options[name] = value;
        }
    }
    try {
        append_problems(session, request, problems);
    } catch (const Error& error) {
        throw Error(error.code(), line.where + ": " + error.what());
    }
}

// "mma" or "gemm/mma".
std::string full_family_name(Session& session, const std::string& op, const std::string& name) {
    std::vector<std::string> names;
    for (const Family* family : session.catalogue().families_of(op)) {
        if (family->name() == name || family->name() == op + "/" + name) return std::string(family->name());
        names.emplace_back(family->name());
    }
    throw Error(ErrorCode::usage, "unknown family '" + name + "'; the families of " + op + " are " + join(names, ", "));
}

std::vector<SearchSpace> spaces_for(Session& session, const Problem& problem, const Device& device, const tuner::Choice& choice) {
    std::vector<SearchSpace> spaces;
    for (const Family* family : families_for(session, problem, device, choice)) spaces.push_back(family->space(problem, device));
    return spaces;
}

void check_named(const std::string& name, const std::vector<SearchSpace>& spaces) {
    std::vector<std::string> names;
    for (const SearchSpace& space : spaces) {
        for (const NamedConfig& named : space.named) names.push_back(named.name);
    }
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    const std::string close = nearest(name, names);
    throw Error(ErrorCode::usage, "unknown config '" + name + "'" + (close.empty() ? "" : " (did you mean " + close + "?)") +
                                      "; `autotune families` lists the " + std::to_string(names.size()) + " named configs");
}

// Splits "name=value" and checks that some space declares the parameter with that value.
std::pair<std::string, std::int64_t> checked_pin(const std::string& text, const std::vector<SearchSpace>& spaces) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) throw Error(ErrorCode::usage, "--param wants name=value, not '" + text + "'");
    const std::string name = text.substr(0, equals);
    const std::int64_t value = parse_integer(std::string_view(text).substr(equals + 1), "parameter " + name);
    std::vector<std::string> names, values;
    for (const SearchSpace& space : spaces) {
        for (const Parameter& parameter : space.parameters) {
            if (std::find(names.begin(), names.end(), parameter.name) == names.end()) names.push_back(parameter.name);
            if (parameter.name != name) continue;
            if (std::find(parameter.values.begin(), parameter.values.end(), value) != parameter.values.end())
                return {name, value};
            for (const std::int64_t known : parameter.values) values.push_back(std::to_string(known));
        }
    }
    if (values.empty())
        throw Error(ErrorCode::usage, "unknown parameter '" + name + "'; the parameters are " + join(names, ", "));
    throw Error(ErrorCode::usage,
                "parameter " + name + " cannot be " + std::to_string(value) + "; its values are " + join(values, ", "));
}

}  // namespace

const Op& op_named(Session& session, const std::string& name) {
    const Catalogue& catalogue = session.catalogue();
    if (name.empty()) {
        throw Error(ErrorCode::usage, "--op is missing; say which operation: " + known_ops(catalogue));
    }
    const Op* op = catalogue.find_op(name);
    if (op == nullptr)
        throw Error(ErrorCode::usage, "unknown op '" + name + "'; the ops are " + known_ops(catalogue) +
                                          " (`autotune families` says what each is)");
    return *op;
}

std::size_t extent_count(const Op& op) {
    const std::string_view form = op.shape_form();
    return static_cast<std::size_t>(std::count(form.begin(), form.end(), 'x')) + 1;
}

std::string showcase_shape(const Op& op) {
    std::string shape = join(std::vector<std::string>(extent_count(op), "4096"), "x");
    try {
        op.problem({.op = std::string(op.name()), .shape = shape, .options = {}});
    } catch (const Error&) {  // an op whose extents differ in kind
        shape = op.examples().front().shape;
    }
    return shape;
}

namespace {

// `star`: what stands for a first extent of "*"; empty: it is no extent.
std::vector<Problem> read_problems(Session& session, const std::string& star) {
    const Op& op = op_named(session, session.arguments().text("op"));
    if (!session.arguments().has("shape")) {
        throw Error(ErrorCode::usage,
                    "--shape is missing; give " + std::string(op.shape_form()) + ", for example --shape " + showcase_shape(op));
    }
    std::vector<Problem> problems;
    for (std::string shape : session.arguments().all("shape")) {
        if (!star.empty() && shape.starts_with("*")) shape = star + shape.substr(1);
        append_problems(session, {.op = session.arguments().text("op"), .shape = shape, .options = op_options_of(session)},
                        problems);
    }
    return problems;
}

}  // namespace

std::vector<Problem> problems_of(Session& session) {
    return read_problems(session, "");
}

std::vector<Problem> problems_up_to(Session& session, std::int64_t most) {
    return read_problems(session, std::to_string(most));
}

std::vector<Problem> sweep_problems_of(Session& session) {
    const Arguments& arguments = session.arguments();
    if (!arguments.has("shapes")) {
        if (arguments.has("shape")) return problems_of(session);
        throw Error(ErrorCode::usage,
                    "--shapes is missing; give a file with one problem a line, or ranges such as 1024:4096:1024x4096x2048");
    }
    std::vector<Problem> problems;
    if (arguments.has("shape")) problems = problems_of(session);
    for (const std::string& shapes : arguments.all("shapes")) {
        const bool ranges = shapes.find_first_not_of("0123456789x:,*") == std::string::npos && !shapes.empty();
        std::vector<ShapeLine> lines;
        if (ranges) {
            lines.push_back({.shape = shapes, .options = {}, .where = "--shapes"});
        } else {
            lines = read_shapes_file(shapes);
        }
        for (const ShapeLine& line : lines) append_line(session, line, problems);
    }
    return problems;
}

bool are_of_one_op(const std::vector<Problem>& problems) {
    return std::all_of(problems.begin(), problems.end(),
                       [&](const Problem& problem) { return problem.op == problems.front().op; });
}

std::vector<const Family*> families_for(Session& session, const Problem& problem, const Device& device,
                                        const tuner::Choice& choice, Refusals* refusals) {
    std::vector<const Family*> families;
    for (const Family* family : session.catalogue().families_of(problem.op)) {
        const bool chosen = choice.families.empty() ||
                            std::find(choice.families.begin(), choice.families.end(), family->name()) != choice.families.end();
        if (!chosen) continue;
        const auto reason = family->refuses(problem, device);
        if (!reason) families.push_back(family);
        if (reason && refusals != nullptr) refusals->add(family->name(), *reason);
    }
    return families;
}

tuner::Choice choice_of(Session& session, const Problem& problem, const Device& device) {
    const Arguments& arguments = session.arguments();
    tuner::Choice choice;
    for (const std::string& name : arguments.list("family"))
        choice.families.push_back(full_family_name(session, problem.op, name));
    if (!arguments.has("config") && !arguments.has("param")) return choice;
    const std::vector<SearchSpace> spaces = spaces_for(session, problem, device, choice);
    // No family takes the problem: the tuner says why, family by family.
    if (spaces.empty()) return choice;
    if (arguments.has("config")) {
        choice.named = arguments.text("config");
        check_named(choice.named, spaces);
    }
    for (const std::string& text : arguments.all("param")) {
        const auto [name, value] = checked_pin(text, spaces);
        choice.pins.set(name, value);
    }
    return choice;
}

std::vector<Candidate> bench_candidates_of(Session& session, const Problem& problem, const Device& device) {
    std::vector<Candidate> candidates;
    for (const std::string& text : session.arguments().all("candidate")) {
        std::istringstream words(text);
        std::string word;
        words >> word;
        Candidate candidate{full_family_name(session, problem.op, word), {}};
        const std::vector<SearchSpace> spaces =
            spaces_for(session, problem, device, {.families = {candidate.family}, .pins = {}, .named = {}});
        while (words >> word) {
            const auto [name, value] = checked_pin(word, spaces);
            candidate.config.set(name, value);
        }
        candidates.push_back(std::move(candidate));
    }
    return candidates;
}

tuner::TuneOptions default_options(Session& session, const Problem& problem, const Device& device) {
    tuner::TuneOptions options;
    options.choice = choice_of(session, problem, device);
    return options;
}

MeasuringMethod measuring_method_of(const Arguments& arguments) {
    return {.l2_warm = arguments.word("l2", "cold", {"cold", "warm"}) == "warm",
            .streams = static_cast<int>(arguments.integer("streams", 1, {.least = 1, .most = 2}))};
}

tuner::TuneOptions tune_options_of(Session& session, const Problem& problem, const Device& device) {
    const Arguments& arguments = session.arguments();
    tuner::TuneOptions options;
    options.budget = budget_of(arguments);
    options.choice = choice_of(session, problem, device);
    options.seed = static_cast<std::uint64_t>(arguments.integer("seed", 1, {.least = 0}));
    if (arguments.has("strategy")) options.strategy = arguments.word("strategy", "", tuner::strategy_names());
    const auto finalists = static_cast<std::int64_t>(options.finalists);
    options.finalists = static_cast<std::size_t>(arguments.integer("finalists", finalists, {.least = 1, .most = 64}));
    options.tie_gap = arguments.positive_number("tie-gap", 100 * options.tie_gap) / 100;
    options.retune = arguments.has("retune");
    options.method = measuring_method_of(arguments);
    options.keep_folder = arguments.text("keep");
    return options;
}

std::vector<Device> devices_of_archs(const Arguments& arguments, const std::vector<std::string>& fallback) {
    const std::vector<std::string> archs = arguments.has("arch") ? arguments.list("arch") : fallback;
    std::vector<Device> devices;
    for (const std::string& arch : archs) {
        const auto device = reference_device(arch);
        if (!device)
            throw Error(ErrorCode::usage, "unknown architecture '" + arch + "'; the known ones are " + join(known_archs(), ", "));
        devices.push_back(*device);
    }
    return devices;
}

}  // namespace autotune::cli
