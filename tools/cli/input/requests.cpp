#include "tools/cli/input/requests.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "kernel_templates/op_names.h"
#include "src/core/error.h"
#include "src/core/spelling.h"
#include "tools/cli/input/budget.h"
#include "tools/cli/input/parser.h"
#include "tools/cli/input/shapes.h"

namespace autotune::cli {
namespace {

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

// "64,64,64" is one shape with commas in it and no list where the op has several extents.
void check_separators(const Op& op, const std::string& shape) {
    const std::vector<std::string> forms = split(op.shape_form(), '|');
    if (shape.find('x') != std::string::npos || forms.front().find('x') == std::string::npos) return;
    const auto with_x = shape_with_x(shape, extent_count(op));
    if (!with_x && shape.find_first_of(",;*/|()[]{} ") == std::string::npos) return;
    throw Error(ErrorCode::usage, "shape '" + shape + "': put x between extents: " + with_x.value_or(forms.front()));
}

void append_problems(Session& session, const ProblemRequest& request, std::vector<Problem>& problems) {
    const Op& op = op_named(session, request.op);
    const std::string plain = plain_shape(request.shape);
    check_separators(op, plain);
    for (const std::string& shape : expand_shapes(plain, extent_count(op))) {
        problems.push_back(session.catalogue().problem({.op = request.op, .shape = shape, .options = request.options}));
        if (problems.size() > kMostShapes) {
            throw Error(ErrorCode::usage, "more than " + std::to_string(kMostShapes) + " problems; split them over several runs");
        }
    }
}

std::vector<std::string> words_of_a_line(const Catalogue& catalogue) {
    std::vector<std::string> words = {"op"};
    for (const Op* op : catalogue.ops())
        for (const OpOption& option : op->options()) words.push_back(option.name);
    return words;
}

void append_line(Session& session, const ShapeLine& line, std::vector<Problem>& problems) {
    ProblemRequest request{.op = session.arguments().text("op"), .shape = line.shape, .options = op_options_of(session)};
    const std::vector<std::string> known = words_of_a_line(session.catalogue());
    std::set<std::string> names;
    for (const auto& [given, value] : line.options) {
        const std::string name = known_word(given, known);
        if (!names.insert(name).second) throw Error(ErrorCode::usage, line.where + ": '" + name + "' is given twice");
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
std::string full_family_name(Session& session, const std::string& op, const std::string& given) {
    std::vector<std::string> names, known;
    for (const Family* family : session.catalogue().families_of(op)) names.emplace_back(family->name());
    for (const std::string& name : names) known.insert(known.end(), {name, name.substr(op.size() + 1)});
    const std::string word = known_word(given, known);
    for (const std::string& name : names)
        if (name == word || name == op + "/" + word) return name;
    throw Error(ErrorCode::usage, "unknown family '" + word + "'" + did_you_mean(word, known) + "; the families of " + op +
                                      " are " + join(names, ", "));
}

std::vector<SearchSpace> spaces_for(Session& session, const Problem& problem, const std::vector<Device>& devices,
                                    const std::vector<std::string>& families) {
    std::vector<SearchSpace> spaces;
    for (const Device& device : devices)
        for (const Family* family : families_for(session, problem, device, {.families = families, .pins = {}, .named = {}}))
            spaces.push_back(family->space(problem, device));
    return spaces;
}

// The named config that `given` spells.
std::string checked_name(const std::string& given, const std::vector<SearchSpace>& spaces) {
    std::vector<std::string> names;
    for (const SearchSpace& space : spaces) {
        for (const NamedConfig& named : space.named) names.push_back(named.name);
    }
    const std::string name = known_word(given, names);
    if (std::find(names.begin(), names.end(), name) != names.end()) return name;
    const std::set<std::string> different(names.begin(), names.end());
    throw Error(ErrorCode::usage, "unknown config '" + name + "'" + did_you_mean(name, names) +
                                      "; `autotune families` lists the " + std::to_string(different.size()) + " named configs");
}

// Splits "name=value" and checks that some space declares the parameter with that value. `what`: the flag.
std::pair<std::string, std::int64_t> checked_pin(const std::string& what, const std::string& text,
                                                 const std::vector<SearchSpace>& spaces) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || trimmed(text.substr(0, equals)).empty())
        throw Error(ErrorCode::usage, what + " wants name=value, not '" + text + "'");
    std::vector<std::string> names;
    for (const SearchSpace& space : spaces) {
        for (const Parameter& parameter : space.parameters)
            if (std::find(names.begin(), names.end(), parameter.name) == names.end()) names.push_back(parameter.name);
    }
    const std::string name = known_word(text.substr(0, equals), names);
    const std::int64_t value = parse_integer(std::string_view(text).substr(equals + 1), "parameter " + name);
    std::set<std::int64_t> values;
    for (const SearchSpace& space : spaces) {
        for (const Parameter& parameter : space.parameters)
            if (parameter.name == name) values.insert(parameter.values.begin(), parameter.values.end());
    }
    if (values.empty())
        throw Error(ErrorCode::usage,
                    "unknown parameter '" + name + "'" + did_you_mean(name, names) + "; the parameters are " + join(names, ", "));
    if (values.contains(value)) return {name, value};
    std::vector<std::string> known;
    for (const std::int64_t one : values) known.push_back(std::to_string(one));
    throw Error(ErrorCode::usage,
                "parameter " + name + " cannot be " + std::to_string(value) + "; its values are " + join(known, ", "));
}

void pin(Config& config, const std::pair<std::string, std::int64_t>& to, const std::string& what) {
    const auto known = config.find(to.first);
    if (known && *known != to.second) {
        throw Error(ErrorCode::usage, what + " sets " + to.first + " to " + std::to_string(*known) + " and to " +
                                          std::to_string(to.second) + "; give one value");
    }
    config.set(to.first, to.second);
}

// The choice that the flags make, looked up in the spaces of the problem on the devices.
tuner::Choice choice_on(Session& session, const Problem& problem, const std::vector<Device>& devices) {
    const Arguments& arguments = session.arguments();
    tuner::Choice choice;
    choice.families = families_named(session, problem.op, arguments.list("family"));
    if (!arguments.has("config") && !arguments.has("param")) return choice;
    const std::vector<SearchSpace> spaces = spaces_for(session, problem, devices, choice.families);
    // No family takes the problem: the tuner says why, family by family.
    if (spaces.empty()) return choice;
    if (arguments.has("config")) choice.named = checked_name(arguments.text("config"), spaces);
    for (const std::string& text : arguments.all("param")) pin(choice.pins, checked_pin("--param", text, spaces), "--param");
    return choice;
}

std::vector<Candidate> candidates_on(Session& session, const Problem& problem, const std::vector<Device>& devices) {
    std::vector<Candidate> candidates;
    for (const std::string& text : session.arguments().all("candidate")) {
        std::istringstream words(text);
        std::string word;
        words >> word;
        Candidate candidate{full_family_name(session, problem.op, word), {}};
        const std::vector<SearchSpace> spaces = spaces_for(session, problem, devices, {candidate.family});
        while (words >> word)
            if (!spaces.empty()) pin(candidate.config, checked_pin("--candidate", word, spaces), "--candidate '" + text + "'");
        candidates.push_back(std::move(candidate));
    }
    return candidates;
}

std::vector<Device> all_devices() {
    std::vector<Device> devices;
    for (const std::string& arch : known_archs()) devices.push_back(*reference_device(arch));
    return devices;
}

}  // namespace

const Op& op_named(Session& session, const std::string& name) {
    const Catalogue& catalogue = session.catalogue();
    const std::vector<std::string> names = op_names(catalogue);
    if (trimmed(name).empty()) throw Error(ErrorCode::usage, "--op is missing; say which operation: " + join(names, ", "));
    const std::string word = known_word(name, names);
    if (const Op* op = catalogue.find_op(word)) return *op;
    throw Error(ErrorCode::usage, "unknown op '" + word + "'" + did_you_mean(word, names) + "; the ops are " + join(names, ", ") +
                                      " (`autotune families` says what each is)");
}

void check_choice(Session& session, const std::vector<Problem>& problems) {
    std::set<std::string> ops;
    for (const Problem& problem : problems) {
        if (!ops.insert(problem.op).second) continue;
        choice_on(session, problem, all_devices());
        candidates_on(session, problem, all_devices());
    }
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
    for (const std::string& given : session.arguments().all("shape")) {
        std::string shape = plain_shape(given);
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
        const std::string plain = plain_shape(shapes);
        const bool ranges = plain.find_first_not_of("0123456789x:,* ") == std::string::npos && !plain.empty();
        std::vector<ShapeLine> lines;
        if (ranges) {
            lines.push_back({.shape = plain, .options = {}, .where = "--shapes"});
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
        const auto reason = why_unable(*family, problem, device);
        if (!reason) families.push_back(family);
        if (reason && refusals != nullptr) refusals->add(family->name(), *reason);
    }
    return families;
}

std::vector<std::string> families_named(Session& session, const std::string& op, const std::vector<std::string>& names) {
    std::vector<std::string> families;
    for (const std::string& name : names) families.push_back(full_family_name(session, op, name));
    return families;
}

tuner::Choice choice_of(Session& session, const Problem& problem, const Device& device) {
    return choice_on(session, problem, {device});
}

std::vector<Candidate> bench_candidates_of(Session& session, const Problem& problem, const Device& device) {
    return candidates_on(session, problem, {device});
}

tuner::TuneOptions default_options(Session& session, const Problem& problem, const Device& device) {
    tuner::TuneOptions options;
    options.choice = choice_of(session, problem, device);
    return options;
}

MeasuringMethod measuring_method_of(const Arguments& arguments) {
    return {.l2_warm = arguments.text("l2") == "warm", .streams = static_cast<int>(arguments.integer("streams", 1))};
}

tuner::TuneOptions tune_options_of(Session& session, const Problem& problem, const Device& device) {
    const Arguments& arguments = session.arguments();
    tuner::TuneOptions options;
    options.budget = budget_of(arguments);
    options.choice = choice_of(session, problem, device);
    options.seed = static_cast<std::uint64_t>(arguments.integer("seed", 1));
    options.strategy = arguments.text("strategy", options.strategy);
    const auto finalists = static_cast<std::int64_t>(options.finalists);
    options.finalists = static_cast<std::size_t>(arguments.integer("finalists", finalists));
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
        const bool is_known =
            std::any_of(devices.begin(), devices.end(), [&](const Device& known) { return known.arch() == device->arch(); });
        if (!is_known) devices.push_back(*device);
    }
    return devices;
}

}  // namespace autotune::cli
