#pragma once

#include "src/core/family/family_definition.h"

namespace autotune::test {

// c = a + b by a kernel that is not part of the binary, as a user would write it in a file.
inline FamilyDefinition defined_add() {
    FamilyDefinition family;
    family.name = "add/by_value";
    family.about = "a family from a value";
    family.accepts = {{"n <= 2147483647", "it counts in 32 bits"}, {"!dtype.bf16", "it has no bf16"}};
    family.parameters = {{"threads", {64, 128, 256, 512}, ParameterKind::compile, "of a block"},
                         {"unroll", {1, 2, 4}, ParameterKind::compile, "elements a thread takes in one round"},
                         {"waves", {1, 2, 4}, ParameterKind::launch, "blocks, in multiples of what the device has of SMs"}};
    family.constraints = {{"threads * unroll <= 1024", "a block takes at most 1024 elements at once"},
                          {"waves == 1 || n / (threads * unroll) >= sms", "more blocks than work"}};
    family.default_config = {{"threads", 256}, {"unroll", 2}, {"waves", 1}};
    family.named = {{"plain", {{"threads", 128}, {"unroll", 1}, {"waves", 1}}}};
    family.facts = {{"element_type", "a", true}, {"is_whole", "n % 1024 == 0"}};
    family.steps = {{.grid = {"max(1, min(ceil_div(n, threads * unroll), sms * waves))", "1", "1"},
                     .block = {"threads", "1", "1"},
                     .arguments = {{FamilyDefinition::Argument::Kind::tensor, "a"},
                                   {FamilyDefinition::Argument::Kind::tensor, "b"},
                                   {FamilyDefinition::Argument::Kind::tensor, "c"},
                                   {FamilyDefinition::Argument::Kind::i32, "n"}}}};
    family.predicted_us = "2 + n * a.type_bytes / 1000000 + max(threads, 256) / 256";
    family.text = R"(#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using Element = ${element_type};
constexpr int threads = ${threads};
constexpr int unroll = ${unroll};
constexpr bool is_whole = ${is_whole};
// ---- end of parameters ----

extern "C" __global__ void __launch_bounds__(threads)
    AUTOTUNE_ENTRY()(const Element* a, const Element* b, Element* c, int n) {
    for (int first = blockIdx.x * threads * unroll; first < n; first += gridDim.x * threads * unroll) {
#pragma unroll
        for (int i = 0; i < unroll; ++i) {
            const int at = first + i * threads + threadIdx.x;
            if (is_whole || at < n) c[at] = from_f32<Element>(to_f32(a[at]) + to_f32(b[at]));
        }
    }
}
)";
    return family;
}

}  // namespace autotune::test
