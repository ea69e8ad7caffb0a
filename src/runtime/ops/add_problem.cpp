#include "src/runtime/ops/add_problem.h"

#include <algorithm>

#include "src/runtime/api/versions.h"

namespace autotune::runtime {
namespace {

constexpr std::int64_t kLongest = std::int64_t{1} << 40;

// This flag is set in keys of adds and clear in keys of gemms.
constexpr std::uint64_t kIsAdd = std::uint64_t{1} << 63;

}  // namespace

autotune_add_problem read_problem(const autotune_add_problem* given) {
    if (given == nullptr) refuse("problem is NULL");
    autotune_add_problem problem = {};
    if (!copy_versioned(problem, given))
        refuse("problem.struct_size must be sizeof(autotune_add_problem), here " + std::to_string(sizeof(problem)) + " bytes");
    return problem;
}

AddPlanRequest::AddPlanRequest(const autotune_add_problem& given)
    : given_(given), aligns_({given.align_a, given.align_b, given.align_c}) {
    for (int& align : aligns_)
        if (align == 0) align = 16;
}

AddPlanRequest::AddPlanRequest(const autotune_add_problem& given, const std::array<const void*, 3>& operands) : given_(given) {
    for (std::size_t i = 0; i < operands.size(); ++i) aligns_[i] = static_cast<int>(alignment_of(operands[i]));
}

PlanKey AddPlanRequest::key(std::uint64_t context_id) const noexcept {
    // Invalid numbers must not collide with valid ones, because the plan is looked up before anything is checked.
    const auto bits = [](auto value, std::uint64_t most) { return std::min(static_cast<std::uint64_t>(value), most); };
    std::uint64_t flags = kIsAdd | bits(given_.type, 0xffU);
    for (std::size_t i = 0; i < aligns_.size(); ++i) flags |= bits(aligns_[i], 31U) << (40 + 5 * i);
    return {{context_id, static_cast<std::uint64_t>(given_.length), flags}};
}

Problem AddPlanRequest::problem(const Catalogue& catalogue) const {
    if (given_.length < 0 || given_.length > kLongest)
        refuse("length is " + std::to_string(given_.length) + "; it must be from 0 to 2^40");
    const DType type = dtype_of(given_.type, "type", DType::f32);
    ProblemDescription described{.op = "add", .tensors = {}};
    constexpr std::array<const char*, 3> kNames = {"a", "b", "c"};
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        const int align = checked_align(aligns_[i], kNames[i], static_cast<std::int64_t>(size_bytes(type)));
        described.tensors.push_back({.name = kNames[i], .dtype = type, .dims = {{given_.length, 1}}, .alignment_bytes = align});
    }
    return catalogue.find_op(described.op)->described(described).problem;
}

}  // namespace autotune::runtime
