#include "tools/cli/output/text/problem_words.h"

#include <algorithm>

#include "tools/cli/input/arguments.h"

namespace autotune::cli {
namespace {

bool has(const std::vector<Attribute>& attributes, const Attribute& attribute) {
    return std::find(attributes.begin(), attributes.end(), attribute) != attributes.end();
}

// Whether an attribute has the same word as the element type in every problem.
bool repeats_dtype(const std::vector<Problem>& problems, const std::string& name) {
    return std::all_of(problems.begin(), problems.end(),
                       [&](const Problem& problem) { return attribute_or_nothing(problem, name) == dtype_text(problem); });
}

}  // namespace

std::string dtype_text(const Problem& problem) {
    std::vector<std::string> names;
    for (const Tensor& tensor : problem.tensors) names.emplace_back(to_string(tensor.dtype));
    const bool alike = std::all_of(names.begin(), names.end(), [&](const std::string& name) { return name == names.front(); });
    if (alike && !names.empty()) names.resize(1);
    return join(names, ",");
}

std::vector<Attribute> own_attributes(const Problem& problem) {
    std::vector<Attribute> own;
    for (const Attribute& attribute : problem.attributes) {
        const bool repeats = std::any_of(problem.tensors.begin(), problem.tensors.end(), [&](const Tensor& tensor) {
            return tensor.name == attribute.name && to_string(tensor.dtype) == to_string(attribute.value);
        });
        if (!repeats) own.push_back(attribute);
    }
    return own;
}

std::vector<Attribute> shared_attributes(const std::vector<Problem>& problems) {
    std::vector<Attribute> shared;
    for (const Attribute& attribute : own_attributes(problems.front())) {
        const auto agrees = [&](const Problem& problem) { return has(problem.attributes, attribute); };
        if (std::all_of(problems.begin(), problems.end(), agrees)) shared.push_back(attribute);
    }
    return shared;
}

std::vector<std::string> differing_attributes(const std::vector<Problem>& problems) {
    const std::vector<Attribute> shared = shared_attributes(problems);
    std::vector<std::string> names;
    for (const Problem& problem : problems) {
        for (const Attribute& attribute : own_attributes(problem)) {
            const auto same_name = [&](const Attribute& other) { return other.name == attribute.name; };
            const bool known = std::find(names.begin(), names.end(), attribute.name) != names.end();
            if (!known && std::none_of(shared.begin(), shared.end(), same_name) && !repeats_dtype(problems, attribute.name))
                names.push_back(attribute.name);
        }
    }
    return names;
}

std::string attribute_or_nothing(const Problem& problem, const std::string& name) {
    for (const Attribute& attribute : problem.attributes) {
        if (attribute.name == name) return to_string(attribute.value);
    }
    return "";
}

std::string dimensions_text(const Problem& problem) {
    std::string batch;
    std::vector<std::string> names;
    for (const Extent& extent : problem.extents) {
        if (extent.name != "batch") {
            names.push_back(extent.name);
        } else if (extent.value != 1) {
            batch = "batch * ";
        }
    }
    return batch + join(names, " x ");
}

std::string extents_text(const Problem& problem) {
    std::vector<std::string> parts;
    for (const Extent& extent : problem.extents)
        if (extent.name != "batch" || extent.value != 1) parts.push_back(extent.name + " = " + std::to_string(extent.value));
    return join(parts);
}

std::string attributes_text(const std::vector<Attribute>& attributes) {
    std::vector<std::string> words;
    for (const Attribute& attribute : attributes) words.push_back(attribute.name + "=" + to_string(attribute.value));
    return join(words, " ");
}

std::vector<std::string> short_names(const std::vector<Problem>& problems) {
    const std::vector<std::string> attributes = differing_attributes(problems);
    const std::string first = dtype_text(problems.front());
    const bool one_dtype =
        std::all_of(problems.begin(), problems.end(), [&](const Problem& problem) { return dtype_text(problem) == first; });
    std::vector<std::string> names;
    for (const Problem& problem : problems) {
        names.push_back(problem.shape());
        if (!one_dtype) names.back() += " " + dtype_text(problem);
        for (const std::string& attribute : attributes) names.back() += " " + attribute_or_nothing(problem, attribute);
    }
    return names;
}

}  // namespace autotune::cli
