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
    std::int64_t otherwise = 1;  // where a config lacks the parameter
};

template <class Shape, std::size_t count>
void read_members(Shape& to, ConfigReader& reader, const std::array<Member<Shape>, count>& members) {
    for (const Member<Shape>& member : members) to.*member.value = reader.find(member.parameter).value_or(member.otherwise);
}

template <class Shape, std::size_t count>
Shape shape_from(const Config& config, const std::array<Member<Shape>, count>& members) {
    Shape shape{};
    ConfigReader reader(config);
    read_members(shape, reader, members);
    return shape;
}

// Parameters in the order of `members`.
template <class Shape, std::size_t count>
Config config_from(const Shape& shape, const std::array<Member<Shape>, count>& members) {
    Config config;
    for (const Member<Shape>& member : members) config.set(member.parameter, shape.*member.value);
    return config;
}

// The config with the shape's values of those parameters that it has.
template <class Shape, std::size_t count>
Config with_members(Config config, const Shape& shape, const std::array<Member<Shape>, count>& members) {
    ConfigReader reader(config);
    for (const Member<Shape>& member : members)
        if (const auto at = reader.position_of(member.parameter)) config.set_at(*at, shape.*member.value);
    return config;
}

}  // namespace autotune::gemm
