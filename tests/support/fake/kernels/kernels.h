#pragma once

#include <set>

#include "tests/support/fake/driver/machine.h"

namespace autotune::fake {

// The results that the scripted driver computes on the host. Gemms and references of at most kMostProducts multiplications are
// really computed (any shape up to 203^3). Of larger ones only the first and last elements are, and autotune_compare then reports
// no violation unless a rule made the result wrong. This tests the code around kernels, never kernels.
constexpr std::int64_t kMostProducts = std::int64_t{1} << 23;
// Additions are computed in the same way, up to the size at which fills still write individual numbers.
constexpr std::int64_t kMostSums = std::int64_t{1} << 18;

struct Effects {
    std::string wrong;             // element, zeros, garbage, flaky or input; empty for a right result
    long out_of_bounds_bytes = 0;  // written after the output
    std::uint64_t count = 0;       // the number of executions so far, which makes "flaky" and "garbage" differ from run to run
};

// Executes one launch. CUDA_ERROR_ILLEGAL_ADDRESS if it would access memory outside of device memory.
CUresult compute(const Launch& launch, const Effects& effects);

// A gemm launch by its operands; nullopt if the kernel is not a gemm. For main kernels of families and references alike.
struct GemmView {
    Address a = 0, b = 0, c = 0, expected = 0, bound = 0;
    float alpha = 1, beta = 0;
    float norm = 0, value = 0, input = 0, floor = 0;
    std::int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0, batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
    bool trans_a = false, trans_b = false;
    bool is_reference = false;
    std::string in_type = "f16", out_type = "f16";

    std::int64_t products() const { return m * n * k * batch; }
    bool is_small() const { return products() <= kMostProducts && m * n * batch <= kMostProducts; }
};
std::optional<GemmView> gemm_view(const Launch& launch);

// Elements from the first to one past the last of each matrix as stored.
struct StoredSpans {
    std::int64_t a = 0, b = 0, c = 0;
};
StoredSpans stored_spans(const GemmView& gemm);

// The product itself. REQUIRES: the operands are mapped.
void multiply(const GemmView& gemm);
CUresult compute_gemm(const GemmView& gemm, const Effects& effects);
CUresult compute_reference(const GemmView& gemm);
// A launch of op add by its operands; nullopt if the kernel is not one.
struct AddView {
    Address a = 0, b = 0, c = 0, expected = 0, bound = 0;
    float value = 0, floor = 0;
    std::int64_t n = 0;
    std::string type = "f32";
    bool is_reference = false;

    bool is_small() const { return n <= kMostSums; }
};
std::optional<AddView> add_view(const Launch& launch);
CUresult compute_add(const AddView& add, const Effects& effects);
CUresult compute_add_reference(const AddView& add);

// Copies of operands in the workspace, with aligned rows (`_pack...`) or also transposed (`_arrange`); nullopt: another kernel.
std::optional<CUresult> compute_copy(const Launch& launch);
// Returns nullopt if this is not a kernel of the harness.
std::optional<CUresult> compute_harness(const Launch& launch);

// Addresses of results that were too large to compute, and of those among them that a rule made wrong.
struct Skipped {
    std::set<Address> answers;
    std::set<Address> wrong;
    // Outputs that were poisoned, and those that a kernel of an unknown op got afterwards: it counts as having written them.
    std::set<Address> poisoned;
    std::set<Address> written;
};
Skipped& skipped();

}  // namespace autotune::fake
