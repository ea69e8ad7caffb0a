#include "tools/cli/input/requests.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "src/catalogue/former_templates.h"
#include "src/catalogue/op_names.h"
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

// Refuses "64,64,64" for an op with several extents, where it is one shape with commas in it and not a list.
void check_separators(const Op& op, const std::string& shape) {
    const std::vector<std::string> forms = split(op.shape_form(), '|');
    if (shape.find('x') != std::string::npos || forms.front().find('x') == std::string::npos) return;
    const auto with_x = shape_with_x(shape, extent_count(op));
    if (!with_x && shape.find_first_of(",;*/|()[]{} ") == std::string::npos) return;
    throw Error(ErrorCode::usage, "shape '" + shape + "': put x between extents: " + with_x.value_or(forms.front()));
}

// "n=4096,k=15" as the shape 4096x15. Names are those of the op's shape form. A part without a name continues the list before it.
std::string positional_shape(const Op& op, const std::string& shape) {
    if (shape.find('=') == std::string::npos) return shape;
    std::vector<std::string> names = split(std::string(op.shape_form()), 'x');
    for (std::string& name : names)
        for (char& letter : name) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    std::vector<std::string> values(names.size());
    std::string* last = nullptr;
    for (const std::string& piece : split(shape, ',')) {
        const std::size_t equals = piece.find('=');
        if (equals == std::string::npos) {
            if (last == nullptr) throw Error(ErrorCode::usage, "shape '" + shape + "': '" + piece + "' belongs to no extent");
            *last += "," + piece;
            continue;
        }
        const std::string name(trimmed(piece.substr(0, equals)));
        const auto found = std::find(names.begin(), names.end(), name);
        if (found == names.end())
            throw Error(ErrorCode::usage, "shape '" + shape + "': there is no extent '" + name + "'" + did_you_mean(name, names) +
                                              "; the extents of " + std::string(op.name()) + " are " + join(names));
        last = &values[static_cast<std::size_t>(found - names.begin())];
        if (!last->empty()) throw Error(ErrorCode::usage, "shape '" + shape + "': extent " + name + " is given twice");
        *last = std::string(trimmed(piece.substr(equals + 1)));
    }
    for (std::size_t i = 0; i < names.size(); ++i)
        if (values[i].empty()) throw Error(ErrorCode::usage, "shape '" + shape + "': extent " + names[i] + " is missing");
    return join(values, "x");
}

void append_problems(Session& session, const ProblemRequest& request, std::vector<Problem>& problems) {
    const Op& op = op_named(session, request.op);
    const std::string plain = plain_shape(positional_shape(op, request.shape));
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

// Flags that some line of --shapes did not override. All others have no effect.
using UsedFlags = std::set<std::string>;

void append_line(Session& session, const ShapeLine& line, std::vector<Problem>& problems, UsedFlags& used) {
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
    for (const std::string& name : known)
        if (!names.contains(name)) used.insert(name);
    try {
        append_problems(session, request, problems);
    } catch (const Error& error) {
        throw Error(error.code(), line.where + ": " + error.what());
    }
}

// Warns of flags that every line overrides, which is probably a mistake. A word in the file overrides the flag of the same name.
void warn_of_unused(Session& session, const UsedFlags& used) {
    const Arguments& arguments = session.arguments();
    for (const std::string& name : words_of_a_line(session.catalogue())) {
        if (!arguments.has(name) || used.contains(name)) continue;
        session.warn("--" + name + " " + arguments.text(name) + " has no effect: every problem of --shapes " +
                     join(arguments.all("shapes"), " and ") + " says " + name + "=... itself");
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

std::vector<Device> all_devices() {
    std::vector<Device> devices;
    for (const std::string& arch : known_archs()) devices.push_back(*reference_device(arch));
    return devices;
}

// A named config and its family. A config that is not legal for a problem is not in its space, so it is looked up in the op's
// example problems.
struct NamedElsewhere {
    const Family* family = nullptr;
    NamedConfig named{};
    std::string arch{};  // the first architecture that has the value
};

std::vector<NamedElsewhere> all_named(Session& session, const Problem& problem) {
    const Op& op = session.catalogue().op_of(problem);
    std::vector<ProblemRequest> requests = op.examples();
    ProblemRequest large{.op = problem.op, .shape = showcase_shape(op), .options = {}};
    for (const Attribute& attribute : problem.attributes) large.options[attribute.name] = to_string(attribute.value);
    requests.insert(requests.begin(), large);
    std::vector<NamedElsewhere> all;
    for (const ProblemRequest& request : requests) {
        std::optional<Problem> shown;
        try {
            shown = session.catalogue().problem(request);
        } catch (const Error&) {  // Some options are valid only for some extents.
            continue;
        }
        for (const Device& device : all_devices())
            for (const Family* family : families_for(session, *shown, device, {}))
                for (NamedConfig& named : family->space(*shown, device).named)
                    all.push_back({family, std::move(named), device.arch()});
    }
    return all;
}

// Why an existing named config is not available in the chosen families for the problem on the devices.
std::string why_not_chosen(const Problem& problem, const std::vector<Device>& devices, const std::vector<std::string>& families,
                           const NamedElsewhere& found) {
    const std::string family(found.family->name());
    const bool is_chosen = families.empty() || std::find(families.begin(), families.end(), family) != families.end();
    if (!is_chosen) return "it is a config of " + family + ", and --family chooses " + join(families, ", ");
    // Devices of the family's own architecture come first, because on others the only reason is that the family needs another
    // architecture.
    std::vector<Device> ordered = devices;
    std::stable_partition(ordered.begin(), ordered.end(), [&](const Device& device) { return device.arch() == found.arch; });
    for (const Device& device : ordered) {
        if (const auto reason = why_unable(*found.family, problem, device)) return family + " does not take it: " + *reason;
        const SearchSpace rules = found.family->rules(problem, device);
        if (const auto reason = rules.why_not(rules.canonical(found.named.config))) return *reason;
    }
    return family + " gives it another meaning for this problem";
}

// Some of the names, most similar to the word first.
std::string names_like(const std::string& word, const std::set<std::string>& names) {
    constexpr std::size_t kNamesTold = 4;
    std::vector<std::string> told;
    for (const bool is_like : {true, false})
        for (const std::string& name : names)
            if (told.size() < kNamesTold && (name.find(word) != std::string::npos) == is_like) told.push_back(name);
    const std::string more = names.size() > told.size() ? " and " + std::to_string(names.size() - told.size()) + " more" : "";
    return join(told, ", ") + more;
}

[[noreturn]] void refuse_name(Session& session, const std::string& given, const Problem& problem,
                              const std::vector<Device>& devices, const std::vector<std::string>& families,
                              const std::vector<std::string>& here) {
    const std::vector<NamedElsewhere> all = all_named(session, problem);
    std::vector<std::string> known;
    for (const NamedElsewhere& one : all) known.push_back(one.named.name);
    const std::string name = known_word(given, known);
    const auto found = std::find_if(all.begin(), all.end(), [&](const NamedElsewhere& one) { return one.named.name == name; });
    if (found != all.end())
        throw Error(ErrorCode::usage, "config '" + name + "' cannot be used for " + problem.op + " " + problem.shape() + ": " +
                                          why_not_chosen(problem, devices, families, *found));
    std::vector<std::string> family_names;
    for (const Family* family : session.catalogue().families_of(problem.op)) {
        family_names.emplace_back(family->name());
        family_names.push_back(family_names.back().substr(problem.op.size() + 1));
    }
    std::string text = "unknown config '" + name + "'";
    if (std::find(family_names.begin(), family_names.end(), name) != family_names.end())
        text += ", which is a family: write --family " + name;
    else
        text += did_you_mean(name, known);
    const std::string of = families.empty() ? problem.op : join(families, ", ");
    const std::set<std::string> names(here.begin(), here.end());
    throw Error(ErrorCode::usage, text +
                                      (names.empty() ? "; " + of + " has no named config that is legal for this problem"
                                                     : "; the configs of " + of + " are " + names_like(name, names)) +
                                      " (`autotune families " + (families.empty() ? problem.op : families.front()) +
                                      "` lists all)");
}

// The named config that `given` spells.
std::string checked_name(Session& session, const std::string& given, const Problem& problem, const std::vector<Device>& devices,
                         const std::vector<std::string>& families, const std::vector<SearchSpace>& spaces) {
    std::vector<std::string> names;
    for (const SearchSpace& space : spaces) {
        for (const NamedConfig& named : space.named) names.push_back(named.name);
    }
    const std::string name = known_word(given, names);
    if (std::find(names.begin(), names.end(), name) == names.end())
        refuse_name(session, given, problem, devices, families, names);
    return name;
}

// Splits "name=value" and checks that some space declares the parameter with that value. `what` is the flag.
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
    for (const RenamedParameter& each : renamed_parameters())
        if (each.former == name && values.empty() && std::find(names.begin(), names.end(), each.present) != names.end())
            throw Error(ErrorCode::usage, "parameter '" + name + "' is called '" + std::string(each.present) + "' now");
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

// The choice from the flags, looked up in the spaces of the problem on the devices.
tuner::Choice choice_on(Session& session, const Problem& problem, const std::vector<Device>& devices) {
    const Arguments& arguments = session.arguments();
    tuner::Choice choice;
    choice.families = families_named(session, problem.op, arguments.list("family"));
    if (!arguments.has("config") && !arguments.has("param")) return choice;
    const std::vector<SearchSpace> spaces = spaces_for(session, problem, devices, choice.families);
    // If no family accepts the problem, the tuner reports each family's reason.
    if (spaces.empty()) return choice;
    if (arguments.has("config"))
        choice.named = checked_name(session, arguments.text("config"), problem, devices, choice.families, spaces);
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
    } catch (const Error&) {  // the op's extents differ in kind
        shape = op.examples().front().shape;
    }
    return shape;
}

namespace {

// `star` is the value of a first extent "*". If it is empty, "*" is not allowed.
std::vector<Problem> read_problems(Session& session, const std::string& op_name, const std::string& star) {
    const Op& op = op_named(session, op_name);
    if (!session.arguments().has("shape")) {
        throw Error(ErrorCode::usage,
                    "--shape is missing; give " + std::string(op.shape_form()) + ", for example --shape " + showcase_shape(op));
    }
    std::vector<Problem> problems;
    for (const std::string& given : session.arguments().all("shape")) {
        std::string shape = given.find('=') == std::string::npos ? plain_shape(given) : given;
        if (!star.empty() && shape.starts_with("*")) shape = star + shape.substr(1);
        append_problems(session, {.op = op_name, .shape = shape, .options = op_options_of(session)}, problems);
    }
    return problems;
}

}  // namespace

std::vector<Problem> problems_of(Session& session) {
    return problems_of_op(session, session.arguments().text("op"));
}

std::vector<Problem> problems_of_op(Session& session, const std::string& op) {
    return read_problems(session, op, "");
}

std::vector<Problem> problems_up_to(Session& session, std::int64_t most) {
    return read_problems(session, session.arguments().text("op"), std::to_string(most));
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
    UsedFlags used;
    for (const std::string& shapes : arguments.all("shapes")) {
        const std::string plain = plain_shape(shapes);
        const bool ranges = plain.find_first_not_of("0123456789x:,* ") == std::string::npos && !plain.empty();
        std::vector<ShapeLine> lines;
        if (ranges) {
            lines.push_back({.shape = plain, .options = {}, .where = "--shapes"});
        } else {
            lines = read_shapes_file(shapes);
        }
        for (const ShapeLine& line : lines) append_line(session, line, problems, used);
    }
    if (!arguments.has("shape")) warn_of_unused(session, used);
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
    options.learning = !arguments.has("no-learning");
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
