#include "src/kernel_files/tuned_header.h"

#include <algorithm>
#include <limits>

#include "src/core/op/op_definition.h"
#include "src/core/spelling.h"
#include "src/core/text.h"
#include "src/kernel_files/source_text.h"

namespace autotune::kernel_files {
namespace {

// The conditions in a text's `#if` and similar lines. A constexpr counts as 0 in them, and the compiler does not warn.
std::string conditions_of(const std::string& text) {
    std::string all;
    bool goes_on = false;
    for (const std::string& line : split(blanked(text, true), '\n')) {
        std::string_view rest = trimmed(line);
        if (!goes_on) {
            if (!rest.starts_with('#')) continue;
            rest = trimmed(rest.substr(1));
            if (!rest.starts_with("if") && !rest.starts_with("elif")) continue;
        }
        all += std::string(rest) + "\n";
        goes_on = trimmed(line).ends_with('\\');
    }
    return all;
}

bool is_integer(const std::string& value) {
    const std::size_t first = value.starts_with('-') ? 1 : 0;
    return value.size() > first && value.find_first_not_of("0123456789", first) == std::string::npos;
}

std::string dims_text(const Dim3& dims) {
    return "dim3(" + std::to_string(dims.x) + ", " + std::to_string(dims.y) + ", " + std::to_string(dims.z) + ")";
}

// "// conv2d<<<dim3(64, 128, 1), dim3(32, 8, 1), 0>>>" for each step.
std::string launches(const FamilyDefinition& definition, const Problem& problem, const Config& config, const Device& device) {
    std::string text;
    const LaunchPlan plan = DefinedFamily(definition).plan(problem, config, device);
    for (const LaunchStep& step : plan.steps) {
        const auto from = std::find_if(definition.steps.begin(), definition.steps.end(), [&](const StepDefinition& each) {
            return !each.kernel.empty() && each.entry == step.entry;
        });
        if (from == definition.steps.end()) {
            text += "// a zero or copy step\n";
            continue;
        }
        text += "// " + DefinedFamily(definition).kernel_name(from->kernel, problem, config) + "<<<" + dims_text(step.grid) +
                ", " + dims_text(step.block) + ", " + std::to_string(step.dynamic_smem_bytes) + ">>>\n";
    }
    if (plan.workspace_bytes > 0) text += "// with a workspace of " + std::to_string(plan.workspace_bytes) + " bytes\n";
    return text;
}

}  // namespace

std::string tuned_header(const FamilyDefinition& definition, const Problem& problem, const Config& config, const Device& device,
                         const std::vector<std::string>& about) {
    std::string conditions;
    for (const auto* texts : {&definition.op->source.files, &definition.op->source.headers})
        for (const KernelText& text : *texts) conditions += conditions_of(text.text);
    std::string out;
    for (const std::string& line : about) out += "// " + line + "\n";
    out += "#pragma once\n\n";
    const auto add = [&](const std::string& name, const std::string& value) {
        if (!is_integer(value) || mentions(conditions, name)) {
            out += "#define " + name + " " + value + "\n";
        } else {
            const bool is_long = value.size() > 9;
            out += std::string("constexpr ") + (is_long ? "long long " : "int ") + name + " = " + value + (is_long ? "LL" : "") +
                   ";\n";
        }
    };
    for (const auto& [name, value] : DefinedFamily(definition).macros(problem, config)) add(name, value);
    // A template's own parameters hide constants of these names, so they may not be macros.
    for (const std::string& name : definition.template_parameters) {
        const auto words = definition.words.find(name);
        const auto value = static_cast<std::size_t>(config[name]);
        if (words == definition.words.end()) {
            add(name, std::to_string(config[name]));
        } else if (value < words->second.size()) {
            out += "// " + name + ": " + words->second[value] + "\n";
        }
    }
    for (const Parameter& parameter : definition.parameters)
        if (parameter.kind == ParameterKind::launch) add(parameter.name, std::to_string(config[parameter.name]));
    return out + "\n" + launches(definition, problem, config, device);
}

}  // namespace autotune::kernel_files
