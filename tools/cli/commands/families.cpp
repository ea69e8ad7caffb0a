#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/json_format.h"
#include "tools/cli/output/text_format.h"
#include "tools/cli/output/wrap.h"

namespace autotune::cli {
namespace {

// A family for one problem: its space on the first architecture that takes it, and how many configs are legal on each.
struct FamilyFacts {
    const Family* family = nullptr;
    std::optional<SearchSpace> space;
    std::vector<std::pair<std::string, std::optional<std::uint64_t>>> legal;  // by architecture; nullopt: refused
    std::string refusal;
};

FamilyFacts facts_of(const Family& family, const Problem& problem, const std::vector<Device>& devices) {
    FamilyFacts facts{.family = &family, .space = std::nullopt, .legal = {}, .refusal = ""};
    for (const Device& device : devices) {
        if (const auto reason = family.refuses(problem, device)) {
            facts.legal.emplace_back(device.arch(), std::nullopt);
            facts.refusal = *reason;
            continue;
        }
        SearchSpace space = family.space(problem, device);
        facts.legal.emplace_back(device.arch(), space.count().legal);
        // The newest architecture has the most parameters' values; the list is ascending.
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

// The op's first alias says what people mean by it: hgemm for gemm.
Problem showcase_problem(Session& session, const Op& op) {
    const auto aliases = op.aliases();
    return session.catalogue().problem(
        {.op = aliases.empty() ? std::string(op.name()) : aliases.front().name, .shape = showcase_shape(op), .options = {}});
}

std::vector<Problem> shown_problems(Session& session, const Arguments& arguments) {
    if (arguments.has("shape")) return problems_of(session);
    std::vector<Problem> problems;
    const std::string wanted = arguments.text("op");
    if (!wanted.empty()) {
        const Op& op = op_named(session, wanted);
        if (op.name() == wanted) return {showcase_problem(session, op)};
        return {session.catalogue().problem({.op = wanted, .shape = showcase_shape(op), .options = {}})};
    }
    for (const Op* op : session.catalogue().ops()) problems.push_back(showcase_problem(session, *op));
    return problems;
}

std::vector<std::string> names_of(const Op& op) {
    std::vector<std::string> names;
    for (const OpAlias& alias : op.aliases()) names.push_back(alias.name);
    if (std::find(names.begin(), names.end(), op.name()) == names.end()) names.emplace_back(op.name());
    return names;
}

Json tensor_json(const TensorForm& tensor) {
    constexpr std::array<std::string_view, 3> accesses = {"in", "out", "inout"};
    return {{"name", tensor.name},
            {"access", accesses[static_cast<std::size_t>(tensor.access)]},
            {"dims", tensor.dims},
            {"optional", tensor.is_optional},
            {"about", tensor.about}};
}

// What a program describes the op's problems with, and passes in a call: bindings are made from it.
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

// Every name that --op takes.
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
    if (!session.json() && !arguments.has("op")) print_ops(session);
    Json list = Json::array();
    for (const Problem& problem : shown_problems(session, arguments)) {
        const tuner::Choice choice = choice_of(session, problem, devices.front());
        for (const Family* family : session.catalogue().families_of(problem.op)) {
            const bool chosen = choice.families.empty() || std::find(choice.families.begin(), choice.families.end(),
                                                                     family->name()) != choice.families.end();
            if (!chosen) continue;
            const FamilyFacts facts = facts_of(*family, problem, devices);
            if (session.json()) {
                list.push_back(family_json(facts, problem, session.catalogue().template_identity(*family)));
            } else {
                print_family(session, facts, problem);
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
        .examples = {"autotune families", "autotune families --op hgemm --shape 4096x4096x2048 --arch sm_80 --json"},
        .flags = problem_flags() +
                 std::vector<Flag>{{"family", "NAME", "only this family; repeatable", true, {}}, arch_flag(), templates_flag()} +
                 output_flags(),
        .takes_op_options = true,
        .words = "",
        .fewest_words = 0,
        .run = run_families};
}

}  // namespace autotune::cli
