#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernel_templates/gemm/family_parts.h"
#include "src/core/config.h"

// Between a config and a family's Shape, a struct with a member for each parameter.
namespace autotune::gemm {

template <class Shape>
struct Member {
    std::string_view parameter;
    std::int64_t Shape::*value;
};

// A parameter that the config lacks is 1.
template <class Shape, std::size_t count>
Shape shape_from(const Config& config, const std::array<Member<Shape>, count>& members) {
    ConfigReader reader(config);
    Shape shape{};
    for (const Member<Shape>& member : members) shape.*member.value = reader.find(member.parameter).value_or(1);
    return shape;
}

// Parameters in the order of `members`.
template <class Shape, std::size_t count>
Config config_from(const Shape& shape, const std::array<Member<Shape>, count>& members) {
    Config config;
    for (const Member<Shape>& member : members) config.set(member.parameter, shape.*member.value);
    return config;
}

}  // namespace autotune::gemm
