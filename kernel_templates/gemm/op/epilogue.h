#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/family/family.h"
#include "src/core/family/launch_plan.h"
#include "src/core/op/oracle.h"
#include "src/core/problem/dtype.h"
#include "src/core/problem/problem.h"

// What products of fp8 do with scaled sums on their way to C: a bias is added to each column, the largest magnitude is kept, and
// a C in fp8 has a factor of its own and saturates.
namespace autotune::gemm {

// The words of attributes "bias" (its element type), "scale_d" and "amax", the usual one first: a problem has no such attribute
// then.
inline constexpr std::array<const char*, 4> kBiases = {"none", "bf16", "f16", "f32"};
inline constexpr std::array<const char*, 2> kScalesOfC = {"none", "tensor"};
inline constexpr std::array<const char*, 2> kAmaxes = {"no", "yes"};
// A subproblem's amax, which is not that of the whole, is not judged.
inline constexpr const char* kPartialAmax = "part";

// The names of their tensors: one element for each column of C; one f32 each.
inline constexpr std::string_view kBias = "bias", kScaleD = "scale_d", kAmaxD = "amax_d";

struct Epilogue {
    std::optional<DType> bias;
    bool writes_fp8 = false, scales_c = false, keeps_amax = false;

    bool is_any() const { return bias.has_value() || writes_fp8 || keeps_amax; }
};
Epilogue epilogue_of(const Problem& problem);

// Its tensors up to the last that is there, in this order: bias, scale_d, amax_d. Others are absent. amax_d is raised to the
// largest magnitude, so the caller makes it 0 first. `alignment`: bytes, where that is more than an element's.
std::vector<Tensor> epilogue_tensors(const Epilogue& epilogue, std::int64_t n, int alignment);

// Places of the scales of operands that have none, before the epilogue's tensors.
void add_absent_scales(std::vector<Tensor>& tensors);

// Index of a tensor of that name; nullopt if the problem has none.
std::optional<int> find_tensor(const Problem& problem, std::string_view name);

// The address of the tensor of that name, 0 if the problem has none.
Argument address_of(const Problem& problem, std::string_view name);

// What every kernel of fp8 binds: epilogue (1: any, for which it has parameters), bias_type, has_bias, scales_c,
// keeps_amax.
std::vector<Binding> epilogue_facts(const Problem& problem);
// And its last arguments, appended: those of scale_arguments(), then the addresses of bias, scale_d and amax_d, 0 where there is
// none; without epilogue none of the three.
void add_scales_and_epilogue(std::vector<Argument>& arguments, const Problem& problem);

// The largest finite number of a C in fp8, beyond which it saturates; infinite for other types.
double saturation_of(DType type);

// Fills of the epilogue's tensors behind those of a test, and amax among its judged outputs. `largest`: what few sums exceed.
void add_epilogue(const Problem& problem, OpTest& test, double largest);

}  // namespace autotune::gemm
