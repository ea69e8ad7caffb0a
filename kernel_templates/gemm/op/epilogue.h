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

// Operations on scaled sums of fp8 products before they are stored: add a bias to each column, keep the largest magnitude, and
// scale and saturate an fp8 C.
namespace autotune::gemm {

// The words of the attributes "bias" (its element type), "scale_d" and "amax". The first word is the default, for which a problem
// has no such attribute.
inline constexpr std::array<const char*, 4> kBiases = {"none", "bf16", "f16", "f32"};
inline constexpr std::array<const char*, 2> kScalesOfC = {"none", "tensor"};
inline constexpr std::array<const char*, 2> kAmaxes = {"no", "yes"};
// The word for the amax of a subproblem. It differs from that of the whole problem, so it is not checked.
inline constexpr const char* kPartialAmax = "part";

// The names of the epilogue's tensors. The bias has an element for each column of C, the others are one f32 each.
inline constexpr std::string_view kBias = "bias", kScaleD = "scale_d", kAmaxD = "amax_d";

struct Epilogue {
    std::optional<DType> bias;
    bool writes_fp8 = false, scales_c = false, keeps_amax = false;

    bool is_any() const { return bias.has_value() || writes_fp8 || keeps_amax; }
};
Epilogue epilogue_of(const Problem& problem);

// The epilogue's tensors up to the last one given, in this order: bias, scale_d, amax_d. Missing ones are absent. A kernel writes
// to amax_d only if its largest magnitude is larger, so the caller sets it to 0 first. `alignment` is in bytes, for tensors that
// are aligned to more than an element.
std::vector<Tensor> epilogue_tensors(const Epilogue& epilogue, std::int64_t n, int alignment);

// Adds absent scales for operands that have none, before the epilogue's tensors.
void add_absent_scales(std::vector<Tensor>& tensors);

// Index of a tensor of that name; nullopt if the problem has none.
std::optional<int> find_tensor(const Problem& problem, std::string_view name);

// The address of the tensor of that name, 0 if the problem has none.
Argument address_of(const Problem& problem, std::string_view name);

// The facts that every fp8 kernel binds: epilogue (1: it has parameters for any of the three), bias_type, has_bias, scales_c,
// keeps_amax.
std::vector<Binding> epilogue_facts(const Problem& problem);
// Appends a kernel's last arguments: those of scale_arguments(), then the addresses of bias, scale_d and amax_d (0 if missing).
// Without an epilogue it appends none of these three.
void add_scales_and_epilogue(std::vector<Argument>& arguments, const Problem& problem);

// The largest finite number of a C in fp8, at which it saturates; infinite for other types.
double saturation_of(DType type);

// Appends the fills of the epilogue's tensors to those of a test, and amax to the outputs that are compared. `largest` is a bound
// that few sums exceed.
void add_epilogue(const Problem& problem, OpTest& test, double largest);

}  // namespace autotune::gemm
