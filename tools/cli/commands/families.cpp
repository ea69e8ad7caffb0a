#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "src/catalogue/op_names.h"
#include "src/core/error.h"
#include "src/core/spelling.h"
#include "src/dispatch/rules/refusals.h"
#include "tools/cli/command.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/wrap.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

// A family for one problem: its space on the first architecture that it accepts, and the number of legal configs on each.
struct FamilyFacts {
    const Family* family = nullptr;
    std::optional<SearchSpace> space;
    std::vector<std::pair<std::string, std::optional<std::uint64_t>>> legal;  // by architecture; nullopt: refused
    std::string refusal;
};

FamilyFacts facts_of(const Family& family, const Problem& problem, const std::vector<Device>& devices) {
    FamilyFacts facts{.family = &family, .space = std::nullopt, .legal = {}, .refusal = ""};
    for (const Device& device : devices) {
        if (const auto reason = why_unable(family, problem, device)) {
            facts.legal.emplace_back(device.arch(), std::nullopt);
            facts.refusal = *reason;
            continue;
        }
        SearchSpace space = family.space(problem, device);
        facts.legal.emplace_back(device.arch(), space.count().legal);
        // Architectures are in ascending order, so the space of the newest one stays. It has the most parameter values.
        facts.space = std::move(space);
    }
    return facts;
}

Json family_json(const FamilyFacts& facts, const Problem& problem, const std::string& template_identity) {
    Json parameters = Json::array(), named = Json::array(), legal = Json::object();
    if (facts.space) {
        for (const Parameter& parameter : facts.space->parameters) {
            parameters.push_back({{"name", parameter.name},
                                  {"values", parameter.values},
                                  {"kind", parameter.kind == ParameterKind::compile ? "compile" : "launch"},
                                  {"about", parameter.about}});
        }
        for (const NamedConfig& config : facts.space->named)
            named.push_back({{"name", config.name}, {"config", config_json(config.config)}});
    }
    for (const auto& [arch, count] : facts.legal) legal[arch] = count.value_or(0);
    Json json{{"name", facts.family->name()}, {"op", problem.op}, {"about", facts.family->about()}, {"parameters", parameters},
              {"named_configs", named},       {"legal", legal},   {"problem", problem.key()}};
    json["template_identity"] = template_identity;
    if (facts.space) json["default_config"] = config_json(facts.space->default_config);
    if (!facts.space) json["refused"] = facts.refusal;
    return json;
}

void print_family(Session& session, const FamilyFacts& facts, const Problem& problem) {
    std::ostream& out = session.out();
    out << wrapped("", session.bold(std::string(facts.family->name())) + "  " + std::string(facts.family->about()));
    if (!facts.space) {
        out << wrapped("  ", "does not take " + problem_text(problem) + ": " + facts.refusal) << "\n";
        return;
    }
    Table table({{"  parameter", Table::Align::left},
                 {"kind", Table::Align::left},
                 {"values", Table::Align::wrap},
                 {"", Table::Align::wrap}});
    for (const Parameter& parameter : facts.space->parameters) {
        std::vector<std::string> values;
        for (const std::int64_t value : parameter.values) values.push_back(std::to_string(value));
        table.add({"  " + parameter.name, parameter.kind == ParameterKind::compile ? "compile" : "launch", join(values, " "),
                   parameter.about});
    }
    std::string legal = "legal configs of " + problem.shape() + ":";
    for (const auto& [arch, count] : facts.legal) legal += "  " + arch + " " + (count ? count_text(*count) : "-");
    out << table.to_string() << wrapped("  ", legal);
    for (const NamedConfig& config : facts.space->named) out << wrapped("  " + config.name + "  ", config.config.to_string());
    out << "\n";
}

// The op's first alias is its most common use: hgemm for gemm.
Problem showcase_problem(Session& session, const Op& op) {
    const auto aliases = op.aliases();
    return session.catalogue().problem(
        {.op = aliases.empty() ? std::string(op.name()) : aliases.front().name, .shape = showcase_shape(op), .options = {}});
}

// The families to show for one problem. Without names these are all of the op.
struct Shown {
    Problem problem;
    std::vector<std::string> families{};
    bool has(const Family& family) const {
        return families.empty() || std::find(families.begin(), families.end(), family.name()) != families.end();
    }
};

Problem problem_of_op(Session& session, const std::string& name) {
    const Op& op = op_named(session, name);
    if (known_word(name, {std::string(op.name())}) == op.name()) return showcase_problem(session, op);
    return session.catalogue().problem({.op = name, .shape = showcase_shape(op), .options = {}});
}

// The families that a name means: "gemm/mma" is one family, "mma" that family of every op that has it, "gemm" or "hgemm" all
// families of an op.
std::vector<Shown> shown_for(Session& session, const std::string& name) {
    const Catalogue& catalogue = session.catalogue();
    std::vector<std::string> names = op_names(catalogue);
    const std::size_t ops = names.size();
    for (const Family* family : catalogue.families()) {
        const std::string full(family->name());
        names.insert(names.end(), {full, full.substr(full.find('/') + 1)});
    }
    const std::string word = known_word(name, names);
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(ops), word) !=
        names.begin() + static_cast<std::ptrdiff_t>(ops))
        return {{.problem = problem_of_op(session, word)}};
    std::vector<Shown> shown;
    for (const Op* op : catalogue.ops()) {
        for (const Family* family : catalogue.families_of(op->name())) {
            if (family->name() == word || family->name() == std::string(op->name()) + "/" + word)
                shown.push_back({.problem = showcase_problem(session, *op), .families = {std::string(family->name())}});
        }
    }
    if (!shown.empty()) return shown;
    throw Error(ErrorCode::usage,
                "unknown family or operation '" + word + "'" + did_you_mean(word, names) + "; `autotune families` lists all");
}

std::vector<std::string> names_of(const Op& op) {
    std::vector<std::string> names;
    for (const OpAlias& alias : op.aliases()) names.push_back(alias.name);
    if (std::find(names.begin(), names.end(), op.name()) == names.end()) names.emplace_back(op.name());
    return names;
}

// The op of names that are given with a --shape. They are families of one op, or that op's own name.
std::string op_of_names(Session& session, const std::vector<std::string>& names) {
    std::vector<std::string> ops, spellings;
    for (const std::string& name : names) {
        for (const Shown& shown : shown_for(session, name)) {
            const Op& op = session.catalogue().op_of(shown.problem);
            const std::string own(op.name());
            if (std::find(ops.begin(), ops.end(), own) == ops.end()) ops.push_back(own);
            const std::string word = known_word(name, names_of(op));
            const std::vector<std::string> known = names_of(op);
            if (std::find(known.begin(), known.end(), word) != known.end()) spellings.push_back(word);
        }
    }
    if (ops.size() > 1)
        throw Error(ErrorCode::usage, "--op is missing: " + join(names, ", ") + " is a family of several, " + join(ops, ", "));
    if (!spellings.empty()) return spellings.front();
    const auto aliases = session.catalogue().find_op(ops.front())->aliases();
    return aliases.empty() ? ops.front() : aliases.front().name;
}

// Everything that words, --family, --op and --shape ask for.
std::vector<Shown> all_shown(Session& session, const Arguments& arguments) {
    std::vector<std::string> names = arguments.words();
    for (const std::string& name : arguments.list("family")) names.push_back(name);
    std::vector<Shown> all;
    if (arguments.has("op") || arguments.has("shape")) {
        std::vector<Problem> problems;
        if (arguments.has("shape")) {
            const bool is_named = arguments.has("op") || names.empty();
            const std::string op = is_named ? arguments.text("op") : op_of_names(session, names);
            problems = problems_of_op(session, op);
            // With a shape "hgemm" means all families of the op.
            if (!is_named)
                std::erase_if(names, [&](const std::string& name) {
                    return session.catalogue().find_op(known_word(name, op_names(session.catalogue()))) != nullptr;
                });
        } else {
            problems.push_back(problem_of_op(session, arguments.text("op")));
        }
        for (Problem& problem : problems) {
            const std::vector<std::string> families = families_named(session, problem.op, names);
            all.push_back({.problem = std::move(problem), .families = families});
        }
        return all;
    }
    if (names.empty())
        for (const Op* op : session.catalogue().ops()) all.push_back({.problem = showcase_problem(session, *op)});
    for (const std::string& name : names)
        for (Shown& one : shown_for(session, name)) all.push_back(std::move(one));
    return all;
}

Json tensor_json(const TensorForm& tensor) {
    constexpr std::array<std::string_view, 3> accesses = {"in", "out", "inout"};
    return {{"name", tensor.name},
            {"access", accesses[static_cast<std::size_t>(tensor.access)]},
            {"dims", tensor.dims},
            {"optional", tensor.is_optional},
            {"about", tensor.about}};
}

// The tensors, attributes and scalars of a program's description and call, for making language bindings.
Json interface_json(const Op& op, const Problem& problem) {
    constexpr std::array<std::string_view, std::variant_size_v<ScalarValue>> types = {"f32", "i32", "u64"};
    Json tensors = Json::array(), attributes = Json::array(), scalars = Json::array();
    for (const TensorForm& tensor : op.tensors()) tensors.push_back(tensor_json(tensor));
    for (const OpOption& attribute : op.attributes())
        attributes.push_back(
            {{"name", attribute.name}, {"allowed", attribute.allowed}, {"form", attribute.form}, {"about", attribute.about}});
    for (const Scalar& scalar : problem.scalars)
        scalars.push_back({{"name", scalar.name}, {"type", types.at(scalar.value.index())}});
    return {{"tensors", tensors}, {"attributes", attributes}, {"scalars", scalars}, {"in_place", op.works_in_place()}};
}

// The ops, with every name that --op accepts.
Json ops_json(Session& session) {
    Json ops = Json::array();
    for (const Op* op : session.catalogue().ops()) {
        Json json{{"name", op->name()}, {"about", op->about()}, {"shape", op->shape_form()}, {"names", names_of(*op)}};
        json.update(interface_json(*op, showcase_problem(session, *op)));
        ops.push_back(std::move(json));
    }
    return ops;
}

void print_ops(Session& session) {
    for (const Op* op : session.catalogue().ops()) {
        session.out() << wrapped("op  ", fmt::format("{}: --op {}, --shape {}", session.bold(std::string(op->name())),
                                                     join(names_of(*op), ", "), op->shape_form()));
    }
    session.out() << "\n";
}

ExitCode run_families(Session& session, const Arguments& arguments) {
    const std::vector<Device> devices = devices_of_archs(arguments, known_archs());
    const std::vector<Shown> all = all_shown(session, arguments);
    const bool is_overview = arguments.words().empty() && !arguments.has("op") && !arguments.has("family");
    if (!session.json() && is_overview) print_ops(session);
    Json list = Json::array();
    for (const Shown& shown : all) {
        for (const Family* family : session.catalogue().families_of(shown.problem.op)) {
            if (!shown.has(*family)) continue;
            const FamilyFacts facts = facts_of(*family, shown.problem, devices);
            if (session.json()) {
                list.push_back(family_json(facts, shown.problem, session.catalogue().template_identity(*family)));
            } else {
                print_family(session, facts, shown.problem);
            }
        }
    }
    if (session.json()) print_json(session, {{"ops", ops_json(session)}, {"families", list}});
    return ExitCode::done;
}

}  // namespace

Command families_command() {
    return {
        .name = "families",
        .about = "ops and their families of kernels: parameters, legal configs per architecture, named configs",
        .examples = {"autotune families", "autotune families gemm/wgmma", "autotune families hgemm",
                     "autotune families --op hgemm --shape 4096x4096x2048 --arch sm_80 --json"},
        .flags = problem_flags() +
                 std::vector<Flag>{{"family", "NAME", "only this family; repeatable", true, {}}, arch_flag(), templates_flag()} +
                 output_flags() + std::vector<Flag>{kernel_flag()},
        .takes_op_options = true,
        .words = "[NAME...]",
        .min_positional = 0,
        .run = run_families};
}

}  // namespace autotune::cli
