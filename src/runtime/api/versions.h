#pragma once

#include <autotune/autotune.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace autotune::runtime {

// Structs of the public interface begin with their size, which tells an older caller from a newer one.

// The sizes that a struct has had, from the first version to the present one. Each version that added members has its own size.
template <typename Struct>
inline constexpr std::array<std::size_t, 1> kVersionSizes = {sizeof(Struct)};
template <>
inline constexpr std::array<std::size_t, 2> kVersionSizes<autotune_options> = {offsetof(autotune_options, label),
                                                                               sizeof(autotune_options)};
template <>
inline constexpr std::array<std::size_t, 2> kVersionSizes<autotune_attention_problem> = {
    offsetof(autotune_attention_problem, total_q), sizeof(autotune_attention_problem)};
template <>
inline constexpr std::array<std::size_t, 3> kVersionSizes<autotune_plan_facts> = {
    offsetof(autotune_plan_facts, recorded_rival_us), offsetof(autotune_plan_facts, candidate_when_zero),
    sizeof(autotune_plan_facts)};

// Whether a struct of this size can be a caller's: of a version that existed, or of a later one, which is larger. Sizes above the
// limit are refused, so that a garbage size is not read from.
template <typename Struct>
constexpr bool is_version_size(std::size_t size) {
    constexpr std::size_t limit = 4096;
    const auto& sizes = kVersionSizes<Struct>;
    if (size > sizeof(Struct)) return size <= limit && size % alignof(Struct) == 0;
    return std::find(sizes.begin(), sizes.end(), size) != sizes.end();
}

// Copies a caller's struct into `known`. Members that an older struct lacks are zero; members of a newer one that this library
// does not know must be zero. Returns false otherwise, or if no version of the struct can have its size.
template <typename Struct>
bool copy_versioned(Struct& known, const Struct* given) {
    std::size_t size = 0;
    std::memcpy(&size, given, sizeof(size));
    if (!is_version_size<Struct>(size)) return false;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
    if (size > sizeof(known) && !std::all_of(bytes + sizeof(known), bytes + size, [](unsigned char byte) { return byte == 0; }))
        return false;
    known = {};
    std::memcpy(&known, given, std::min(size, sizeof(known)));
    return true;
}

// Fills a caller's struct, whose size must be that of some version: an older one gets the members it has, and the members of a
// newer one that this library does not know become zero.
template <typename Struct>
void fill_versioned(Struct* to, const Struct& known) {
    const std::size_t size = to->struct_size;
    std::memcpy(to, &known, std::min(size, sizeof(known)));
    if (size > sizeof(known)) std::memset(reinterpret_cast<unsigned char*>(to) + sizeof(known), 0, size - sizeof(known));
    to->struct_size = size;
}

}  // namespace autotune::runtime
