// [[workspace]], [[step]], [[prepare]] and [check].
#include <algorithm>
#include <utility>

#include "src/core/spelling.h"
#include "src/core/text.h"
#include "src/kernel_files/loader.h"

namespace autotune::kernel_files {
namespace {

constexpr std::size_t kMostArguments = 60;

}  // namespace

void Loader::read_workspace(const toml::table& table) {
    TableReader reader(reading_, table, "[[workspace]]");
    FamilyDefinition::Workspace workspace;
    workspace.name = reader.needed_text("name");
    take_name(workspace.name, "workspace", reader.place());
    workspace.bytes = reader.expression("bytes", "");
    const std::string elements = reader.expression("elements", "");
    const std::string dtype = reader.one_of("dtype", type_words(), "f32");
    if (workspace.bytes.empty() == elements.empty()) reader.fault("give 'elements' with 'dtype', or 'bytes'");
    for (const std::string& each : {workspace.bytes, elements})
        if (!each.empty()) use(each, Level::config);
    if (workspace.bytes.empty()) {
        workspace.bytes = elements.empty() ? "0" : "(" + elements + ") * " + std::to_string(size_bytes(*parse_dtype(dtype)));
    }
    const std::string zero = reader.one_of("zero", {"no", "once", "each"}, "no");
    workspace.is_zero_once = zero == "once";
    workspace.is_zero_each = zero == "each";
    reader.finish();
    workspace_names_.push_back(workspace.name);
    reading_.file().family.workspaces.push_back(std::move(workspace));
}

StepDefinition::Argument Loader::read_argument(const toml::node& node, const std::string& title, Level level) {
    const auto text = node.value_exact<std::string>();
    if (!text) {
        const toml::table* const table = node.as_table();
        if (table != nullptr && table->contains("pick")) return read_pick(*table, title, level);
        reading_.fault(node,
                       table != nullptr
                           ? title + ": arguments of this kind are part of the format, and this version does not do them yet"
                           : title + ": an argument is a name, or a type and an expression, such as \"i32: n\"");
        return {};
    }
    const auto is_named = [&](const auto& all) {
        return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.name == *text; });
    };
    if (is_named(op_.tensors)) return {ArgumentKind::tensor, *text};
    if (is_named(op_.scalars)) return {ArgumentKind::scalar, *text};
    if (std::find(workspace_names_.begin(), workspace_names_.end(), *text) != workspace_names_.end()) {
        if (level == Level::config) return {ArgumentKind::named_workspace, *text};
        reading_.fault(node, "the reference has no workspace");
        return {};
    }
    const std::map<std::string, ArgumentKind>& kinds = computed_argument_types();
    std::vector<std::string> known;
    for (const auto& [word, kind] : kinds) known.push_back(word);
    const std::size_t colon = text->find(':');
    Place place = reading_.inside(node);
    if (colon == std::string::npos) {
        std::vector<std::string> names;
        for (const auto& each : op_.tensors) names.push_back(each.name);
        for (const auto& each : op_.scalars) names.push_back(each.name);
        names.insert(names.end(), workspace_names_.begin(), workspace_names_.end());
        place.length = text->size();
        reading_.fault(place, "there is no tensor, scalar or workspace '" + *text + "'" + did_you_mean(*text, names) +
                                  "; a number needs its type, such as \"i32: " + *text + "\"");
        return {};
    }
    const std::string word(trimmed(std::string_view(*text).substr(0, colon)));
    const auto kind = kinds.find(word);
    if (kind == kinds.end()) {
        place.length = word.size();
        reading_.fault(place, "there is no type '" + word + "' of an argument; types are " + join(known));
        return {};
    }
    std::size_t begin = colon + 1;
    while (begin < text->size() && (*text)[begin] == ' ') ++begin;
    const std::string expression = text->substr(begin);
    if (place.column > 0) place.column += begin;
    if (!reading_.take_expression(expression, place)) return {kind->second, "0"};
    // The key begins with the type, which distinguishes equal expressions of arguments of different types.
    reading_.file().expressions.emplace(word + ": " + expression, place);
    use(expression, level);
    return {kind->second, expression};
}

// One of several arguments, chosen by a number.
StepDefinition::Argument Loader::read_pick(const toml::table& table, const std::string& title, Level level) {
    TableReader reader(reading_, table, title + ", pick");
    StepDefinition::Argument argument{ArgumentKind::pick, reader.expression("pick", "0")};
    use(argument.value, level);
    const toml::node* const of = reader.node("of");
    const toml::array* const list = of == nullptr ? nullptr : of->as_array();
    if (list == nullptr || list->empty()) {
        reader.fault("'of' is missing: the list of arguments from which one is chosen");
    } else {
        for (const toml::node& each : *list) {
            if (each.is_table()) {
                reading_.fault(each, title + ": an argument in 'of' is a name, or a type and an expression");
                continue;
            }
            argument.of.push_back(read_argument(each, title, level));
        }
    }
    reader.finish();
    if (argument.of.empty()) argument.of.push_back({});
    return argument;
}

// Steps that follow each other with the same repeat and index are one loop.
void Loader::read_loop(TableReader& reader, StepDefinition& step) {
    index_ = reader.text("index").value_or("");
    step.index = index_;
    if (!index_.empty()) {
        const Place place = reading_.inside(*reader.node("index"));
        const auto known = names_.find(index_);
        if (!is_name(index_, true, 64)) {
            reading_.fault(place, "'" + index_ + "' is no name: letters, digits and _");
        } else if (known == names_.end()) {
            take_name(index_, "index", place);
        } else if (known->second != "index") {
            reading_.fault(place, "index '" + index_ + "' is named like " + known->second);
        }
        if (!reader.has("repeat")) reader.fault("'index' needs 'repeat', the number of rounds");
    }
    const std::string index = std::exchange(index_, "");
    step.repeat = reader.expression("repeat", "1");
    use(step.repeat, Level::config);
    index_ = index;
}

// The memory of a tensor or workspace, for steps that write zeros or copy.
std::optional<StepDefinition::Argument> Loader::memory_named(const toml::node& node, const std::string& title, Level level) {
    const auto name = node.value_exact<std::string>();
    const auto tensor = std::find_if(op_.tensors.begin(), op_.tensors.end(),
                                     [&](const OpDefinition::Tensor& each) { return name && each.name == *name; });
    if (tensor != op_.tensors.end()) {
        if (!tensor->strides.empty())
            reading_.fault(node,
                           title + ": tensor " + *name + " has strides of its own, and only dense tensors are copied or zeroed");
        return StepDefinition::Argument{ArgumentKind::tensor, *name};
    }
    const bool is_workspace =
        name && std::find(workspace_names_.begin(), workspace_names_.end(), *name) != workspace_names_.end();
    if (is_workspace && level == Level::config) return StepDefinition::Argument{ArgumentKind::named_workspace, *name};
    reading_.fault(node, title + ": there is no tensor or workspace '" + name.value_or("") + "'");
    return std::nullopt;
}

// Whether the step is one that writes zeros or copies.
bool Loader::read_memory_step(TableReader& reader, StepDefinition& step, Level level) {
    const toml::node* const zero = reader.node("zero");
    const toml::node* const copy = reader.node("copy");
    if (zero == nullptr && copy == nullptr) return false;
    step.action = zero != nullptr ? StepDefinition::Action::zero : StepDefinition::Action::copy;
    step.when = reader.expression("when", "1");
    use(step.when, level);
    index_.clear();
    const auto add = [&](const toml::node& node) {
        if (auto memory = memory_named(node, reader.title(), level)) step.arguments.push_back(std::move(*memory));
    };
    if (zero != nullptr) add(*zero);
    if (copy != nullptr) {
        const toml::table* const both = copy->as_table();
        const toml::node* const from = both == nullptr ? nullptr : both->get("from");
        const toml::node* const to = both == nullptr ? nullptr : both->get("to");
        if (from == nullptr || to == nullptr || zero != nullptr) {
            reading_.fault(*copy, "'copy' is { from = \"...\", to = \"...\" }, two tensors or workspaces");
        } else {
            add(*from), add(*to);
        }
    }
    if (reader.has("kernel")) reader.fault("a step has a kernel, 'zero' or 'copy'");
    const std::string target = step.arguments.empty() ? "" : step.arguments.back().value;
    for (const OpDefinition::Tensor& tensor : op_.tensors)
        if (tensor.name == target && tensor.access == Access::in && level == Level::config)
            reader.fault("tensor " + target + " is in, and this step writes it");
    reader.finish();
    return true;
}

// Reads a step that derives tensors from others. Such steps run with the reference's code before the tensors are used.
void Loader::read_prepare(const toml::table& table) {
    if (op_.prepare.size() == kMostSteps) return reading_.fault(table, "there are more than 32 steps of preparation");
    StepDefinition step = read_step(table, "[[prepare]]", Level::problem);
    if (step.action == StepDefinition::Action::launch) step.entry = suffix_of(step.kernel);
    op_.prepare.push_back(std::move(step));
}

StepDefinition Loader::read_step(const toml::table& table, const std::string& title, Level level) {
    TableReader reader(reading_, table, title);
    StepDefinition step;
    if (reader.later({"cooperative", "cluster"})) return step;
    read_loop(reader, step);
    if (read_memory_step(reader, step, level)) return step;
    step.kernel = reader.needed_text("kernel");
    const auto three = [&](std::string_view key, std::array<std::string, 3>& to, bool is_needed) {
        if (!reader.has(key) && is_needed) reader.fault("'" + std::string(key) + "' is missing");
        const std::vector<std::string> given = reader.expressions(key, 3);
        std::copy(given.begin(), given.end(), to.begin());
        for (const std::string& each : given) use(each, level);
    };
    three("grid", step.grid, true);
    three("block", step.block, true);
    step.dynamic_smem_bytes = reader.expression("smem", "0");
    step.when = reader.expression("when", "1");
    step.programmatic_dependent = reader.expression("pdl", "0");
    for (const std::string* const each : {&step.dynamic_smem_bytes, &step.when, &step.programmatic_dependent}) use(*each, level);
    const toml::node* const arguments = reader.node("args");
    if (arguments == nullptr) {
        reader.fault("'args' is missing: the kernel's arguments in order");
    } else if (const toml::array* const list = arguments->as_array()) {
        if (list->size() > kMostArguments) reading_.fault(*arguments, "a kernel takes at most 60 arguments");
        for (const toml::node& each : *list)
            if (step.arguments.size() < kMostArguments) step.arguments.push_back(read_argument(each, title, level));
    } else {
        reading_.fault(*arguments, "'args' is a list");
    }
    if (!step.kernel.empty()) check_kernel(step, reading_.inside(*reader.node("kernel")), level);
    if (level == Level::problem) reader.node("inputs");  // read_check() reads it
    index_.clear();
    reader.finish();
    return step;
}

std::string Loader::suffix_of(const std::string& kernel) {
    if (!is_kernel_expression(kernel)) return "_" + kernel;
    auto found = std::find(kernel_expressions_.begin(), kernel_expressions_.end(), kernel);
    if (found == kernel_expressions_.end()) found = kernel_expressions_.insert(found, kernel);
    return "_" + kernel_base_name(kernel) + "__" + std::to_string(found - kernel_expressions_.begin() + 1);
}

const KernelFound* Loader::find_kernel(const std::string& kernel) const {
    const std::string base = kernel_base_name(kernel);
    const auto found = std::find_if(kernels_.begin(), kernels_.end(), [&](const KernelFound& each) { return each.name == base; });
    return found == kernels_.end() ? nullptr : &*found;
}

void Loader::check_kernel(const StepDefinition& step, const Place& at, Level level) {
    Place place = at;
    place.length = step.kernel.size();
    if (op_.source.files.empty()) return;  // told already
    std::vector<std::string> names;
    for (const KernelFound& kernel : kernels_) names.push_back(kernel.name);
    const KernelFound* const found = find_kernel(step.kernel);
    if (found == nullptr) {
        const std::string base = kernel_base_name(step.kernel);
        return reading_.fault(place, "there is no kernel '" + base + "' in " + op_.source.files.front().name +
                                         did_you_mean(base, names) +
                                         (names.empty() ? "; it has none" : "; it has " + join(names)));
    }
    if (is_kernel_expression(step.kernel)) {
        check_kernel_expression(step, *found, place, level);
    } else if (found->is_template) {
        std::vector<std::string> arguments;
        for (const TemplateParameter& each : found->template_parameters) arguments.push_back(each.name);
        reading_.fault(place, "kernel '" + step.kernel +
                                  "' is a template: say its arguments, which may be parameters of this file, as in \"" +
                                  step.kernel + "<" + join(arguments, ", ") + ">\"");
    }
    if (found->parameters.size() != step.arguments.size())
        reading_.fault(place, "kernel '" + found->name + "' takes " + std::to_string(found->parameters.size()) +
                                  " arguments, and 'args' has " + std::to_string(step.arguments.size()));
}

// A kernel's name as C++ writes it, such as "ns::gemm<BM, float>".
void Loader::check_kernel_expression(const StepDefinition& step, const KernelFound& found, const Place& place, Level level) {
    const std::string& name = step.kernel;
    const auto is_allowed = [](char c) {
        return is_name(std::string(1, c), true, 1) ||
               std::string_view("0123456789<>:, *&()+-/%?!=.").find(c) != std::string_view::npos;
    };
    const bool has_list = name.find('<') != std::string::npos;
    if (name.size() > 512 || !std::all_of(name.begin(), name.end(), is_allowed) || (has_list && !name.ends_with('>')))
        return reading_.fault(place, "'" + name + "' is no name of a kernel, such as \"scale\" or \"ns::gemm<BM, float>\"");
    const std::string arguments = has_list ? name.substr(name.find('<')) : "";
    for (const Parameter& parameter : reading_.file().family.parameters) {
        if (!mentions(arguments, parameter.name)) continue;
        names_in_kernels_.push_back(parameter.name);
        if (level == Level::problem)
            reading_.fault(place, "the name of this kernel uses parameter '" + parameter.name +
                                      "'; the reference and preparations know no parameters");
        if (parameter.kind == ParameterKind::launch)
            reading_.fault(place, "the name of this kernel uses parameter '" + parameter.name +
                                      "', so it changes the code: leave kind = \"launch\" out");
    }
    if (!found.is_template && has_list)
        return reading_.fault(place, "kernel '" + found.name + "' is no template; write its name alone");
    const std::size_t given =
        has_list ? std::max<std::size_t>(parts_of_list(std::string_view(arguments).substr(1, arguments.size() - 2)).size(), 1)
                 : 0;
    const std::vector<TemplateParameter>& taken = found.template_parameters;
    const auto needed = static_cast<std::size_t>(
        std::count_if(taken.begin(), taken.end(), [](const TemplateParameter& each) { return !each.is_optional; }));
    const bool is_open = std::any_of(taken.begin(), taken.end(), [](const TemplateParameter& each) { return each.name.empty(); });
    if (given < needed || (given > taken.size() && needed == taken.size() && !is_open))
        reading_.fault(place, "template '" + found.name + "' takes " + std::to_string(needed) +
                                  " arguments, and this name gives " + std::to_string(given));
}

void Loader::read_check(const toml::table& table) {
    TableReader reader(reading_, table, "[check]");
    if (const toml::table* const reference = reader.table("reference")) {
        TableReader inputs(reading_, *reference, "[check.reference]");
        op_.widens_inputs = inputs.one_of("inputs", {"f64", "as_is"}, "f64") == "f64";
        StepDefinition step = read_step(*reference, "[check.reference]", Level::problem);
        step.entry = suffix_of(step.kernel);
        for (const OpDefinition::Tensor& tensor : op_.tensors) {
            const bool is_there = std::any_of(step.arguments.begin(), step.arguments.end(), [&](const auto& argument) {
                return argument.kind == ArgumentKind::tensor && argument.value == tensor.name;
            });
            if (tensor.access != Access::in && tensor.is_checked && !is_there)
                reading_.fault(inputs.place(),
                               "the reference does not write tensor " + tensor.name + ": it is none of its arguments");
        }
        reference_place_ = inputs.has("args") ? reading_.place_of(*inputs.node("args")) : inputs.place();
        op_.reference = {std::move(step)};
    } else if (!reader.has("reference")) {
        const bool comes = reader.has("program") || reader.has("expected") || reader.has("none");
        if (!comes) reader.fault("'reference' is missing: a kernel of the same source that computes the right answer in double");
    }
    reader.later({"program", "expected", "none", "compare"});
    if (const toml::node* const exact = reader.node("exact")) {
        const auto truth = exact->value_exact<bool>();
        const auto word = exact->value_exact<std::string>();
        if (!truth && !(word && *word == "auto")) reading_.fault(*exact, "'exact' is \"auto\" or false");
        if (truth) op_.has_exact_test = *truth;
    }
    if (reader.has("deterministic")) {
        reading_.file().family.deterministic = reader.expression("deterministic", "1");
        use(reading_.file().family.deterministic, Level::config);
    }
    const toml::node* const tolerance = reader.node("tolerance");
    if (tolerance != nullptr && tolerance->is_number()) {
        reading_.fault(*tolerance,
                       "a tolerance belongs to an output: write tolerance = { out = { rtol = 1e-3 } }, with the output's name");
    } else if (const toml::table* const tolerances = reader.table("tolerance")) {
        for (const auto& [key, value] : *tolerances) {
            const std::string name(key.str());
            const auto tensor =
                std::find_if(op_.tensors.begin(), op_.tensors.end(), [&](const auto& each) { return each.name == name; });
            const toml::table* const numbers = value.as_table();
            if (tensor == op_.tensors.end() || tensor->access == Access::in) {
                reading_.fault(reading_.place_of(key.source(), name.size()), "'" + name + "' is no tensor that is written");
            } else if (numbers == nullptr) {
                reading_.fault(value, "a tolerance is a table, such as { rtol = 1e-5 }");
            } else {
                TableReader one(reading_, *numbers, "tolerance");
                const double rtol = one.number("rtol").value_or(0), atol = one.number("atol").value_or(0);
                if (rtol < 0 || atol < 0 || rtol > 1) one.fault("'rtol' is 0 to 1, 'atol' 0 and more");
                one.later({"norm"});
                one.finish();
                op_.tolerances.push_back({name, rtol, atol});
            }
        }
    }
    reader.finish();
}

// Reports tensors that no step uses.
void Loader::check_use() {
    const FamilyDefinition& family = reading_.file().family;
    if (family.steps.empty()) return;
    const auto uses = [](const StepDefinition& step, const std::string& name) {
        const auto is_it = [&](const StepDefinition::Argument& argument) {
            return argument.kind == ArgumentKind::tensor && argument.value == name;
        };
        return std::any_of(step.arguments.begin(), step.arguments.end(), [&](const StepDefinition::Argument& argument) {
            return is_it(argument) || std::any_of(argument.of.begin(), argument.of.end(), is_it);
        });
    };
    bool is_any_checked = false;
    for (const OpDefinition::Tensor& tensor : op_.tensors) {
        is_any_checked = is_any_checked || (tensor.access != Access::in && tensor.is_checked);
        bool is_used = !tensor.symbol.empty();
        for (const StepDefinition& step : family.steps) is_used = is_used || uses(step, tensor.name);
        if (tensor.access == Access::in)
            for (const StepDefinition& step : op_.prepare) is_used = is_used || uses(step, tensor.name);
        if (!is_used)
            reading_.fault(name_places_[tensor.name], tensor.access == Access::in ? "no step reads tensor " + tensor.name
                                                                                  : "no step writes tensor " + tensor.name);
    }
    if (!is_any_checked && !op_.tensors.empty())
        reading_.fault({reading_.path()}, "no tensor is written and checked, so there is nothing to verify");
    // The driver finds kernels by their C names.
    std::vector<std::string> kernels;
    for (const StepDefinition& step : family.steps) kernels.push_back(step.kernel);
    for (const StepDefinition& step : op_.reference) kernels.push_back(step.kernel);
    for (const StepDefinition& step : op_.prepare) kernels.push_back(step.kernel);
    for (KernelText& file : op_.source.files) file.text = with_c_names(file.text, kernels);
}

// The arguments of kernels, by the text of their parameters.
void Loader::check_arguments() {
    for (const StepDefinition& step : op_.reference) {
        const auto& steps = reading_.file().family.steps;
        const bool is_tuned = !steps.empty() && std::all_of(steps.begin(), steps.end(), [&](const StepDefinition& each) {
            return each.action != StepDefinition::Action::launch || each.kernel == step.kernel;
        });
        if (is_tuned && !step.kernel.empty())
            reading_.fault(reference_place_,
                           "the reference is the kernel that is tuned, so a mistake in it would not show: give a plain "
                           "kernel of its own");
    }
    if (op_.widens_inputs)
        for (const StepDefinition& step : op_.reference) check_reference_types(step);
    check_writers();
}

// The reference gets floating-point tensors as double.
void Loader::check_reference_types(const StepDefinition& step) {
    static const auto& narrow =
        *new std::vector<std::string>{"float", "half", "__half", "__nv_bfloat16", "nv_bfloat16", "bfloat16"};
    const KernelFound* const kernel = find_kernel(step.kernel);
    if (kernel == nullptr || kernel->parameters.size() != step.arguments.size()) return;
    for (std::size_t i = 0; i < step.arguments.size(); ++i) {
        if (step.arguments[i].kind != ArgumentKind::tensor) continue;
        const auto tensor = std::find_if(op_.tensors.begin(), op_.tensors.end(),
                                         [&](const auto& each) { return each.name == step.arguments[i].value; });
        if (tensor == op_.tensors.end()) continue;
        const auto attribute = std::find_if(op_.attributes.begin(), op_.attributes.end(),
                                            [&](const OpDefinition::Attribute& each) { return each.name == tensor->dtype; });
        const auto type = parse_dtype(attribute == op_.attributes.end() ? tensor->dtype : attribute->otherwise);
        const std::string pointed = pointed_type(kernel->parameters[i]);
        if (!type || pointed.empty()) continue;
        const std::string declared(trimmed(kernel->parameters[i]));
        const bool is_floating = traits_of(*type).kind != NumberKind::integer;
        if (is_floating && std::find(narrow.begin(), narrow.end(), pointed) != narrow.end())
            reading_.fault(reference_place_, "parameter " + std::to_string(i + 1) + " of " + kernel->name + " is `" + declared +
                                                 "`, and the reference gets " + tensor->name +
                                                 " as double: write double there, or add inputs = \"as_is\"");
        if (!is_floating && (pointed == "double" || pointed == "float"))
            reading_.fault(reference_place_, "parameter " + std::to_string(i + 1) + " of " + kernel->name + " is `" + declared +
                                                 "`, and tensor " + tensor->name + " holds " + tensor->dtype);
    }
}

// Outputs that every kernel gets as a pointer to const.
void Loader::check_writers() {
    for (const OpDefinition::Tensor& tensor : op_.tensors) {
        if (tensor.access == Access::in || !tensor.is_checked) continue;
        const auto is_it = [&](const StepDefinition::Argument& argument) {
            return argument.kind == ArgumentKind::tensor && argument.value == tensor.name;
        };
        bool may_be_written = false;
        std::string reader;
        for (const StepDefinition& step : reading_.file().family.steps) {
            const KernelFound* const kernel = find_kernel(step.kernel);
            for (std::size_t i = 0; i < step.arguments.size(); ++i) {
                const StepDefinition::Argument& argument = step.arguments[i];
                if (!is_it(argument) && !std::any_of(argument.of.begin(), argument.of.end(), is_it)) continue;
                const bool is_known =
                    step.action == StepDefinition::Action::launch && kernel != nullptr && i < kernel->parameters.size();
                const std::string declared = is_known ? std::string(trimmed(kernel->parameters[i])) : "";
                if (!is_pointer_to_const(declared)) {
                    may_be_written = true;
                } else {
                    reader = "parameter " + std::to_string(i + 1) + " of " + kernel->name + " is `" + declared + "`";
                }
            }
        }
        if (!may_be_written && !reader.empty())
            reading_.fault(name_places_[tensor.name],
                           "no step can write tensor " + tensor.name + ": " + reader + ". Are arguments swapped?");
    }
}

}  // namespace autotune::kernel_files
