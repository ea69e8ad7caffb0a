#include <cmath>
#include <cstring>

#include "tests/support/fake/call_log.h"
#include "tests/support/fake/driver/pending.h"
#include "tests/support/fake/kernels/elements.h"

namespace autotune::fake {
namespace {

bool reads_only_its_own(const AddView& add) {
    const std::size_t size = size_bytes(type_of(add.type));
    return is_mapped(add.a, add.n, size) && is_mapped(add.b, add.n, size) && (add.c == 0 || is_mapped(add.c, add.n, size));
}

void touch_operands(const AddView& add) {
    const std::size_t bytes = static_cast<std::size_t>(add.n) * size_bytes(type_of(add.type));
    for (const Address base : {add.a, add.b, add.c}) Pending::get().touch(base, bytes);
}

double sum_at(const AddView& add, std::int64_t index) {
    const DType type = type_of(add.type);
    return load(add.a, type, index) + load(add.b, type, index);
}

}  // namespace

std::optional<AddView> add_view(const Launch& launch) {
    const Program& program = launch.function->library->program;
    const bool is_main = launch.function->kernel->symbol == program.symbol;
    if (!is_main || program.symbol.rfind("add_", 0) != 0) return std::nullopt;
    AddView add;
    add.is_reference = program.symbol.rfind("add_reference", 0) == 0;
    add.a = launch.raw("a").value_or(0);
    add.b = launch.raw("b").value_or(0);
    add.c = launch.raw("c").value_or(0);
    add.expected = launch.raw("expected").value_or(0);
    add.bound = launch.raw("bound").value_or(0);
    add.value = launch.f32("value", 0);
    add.floor = launch.f32("floor", 0);
    add.n = launch.integer("n", 0);
    add.type = program.word("element_type", "f32");
    return add;
}

CUresult compute_add(const AddView& add, const Effects& effects) {
    if (add.c == 0 || !reads_only_its_own(add)) {
        log_call("BUG an add's operand lies outside device memory");
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    const DType type = type_of(add.type);
    const Output output{add.c, type, 1, add.n, add.n, 1, add.n, add.a};
    if (effects.out_of_bounds_bytes > 0) {
        if (const CUresult result = write_behind(output, effects.out_of_bounds_bytes); result != CUDA_SUCCESS) return result;
    }
    skipped().wrong.erase(add.c);
    if (!add.is_small()) {
        for (const std::int64_t at : {std::int64_t{0}, add.n - 1}) store(add.c, type, at, sum_at(add, at));
        if (!effects.wrong.empty()) skipped().wrong.insert(add.c);
        return CUDA_SUCCESS;
    }
    touch_operands(add);
    for (std::int64_t i = 0; i < add.n; ++i) store(add.c, type, i, sum_at(add, i));
    if (!effects.wrong.empty()) spoil(output, effects);
    return CUDA_SUCCESS;
}

CUresult compute_add_reference(const AddView& add) {
    if (!add.is_small()) {
        skipped().answers.insert(add.expected);
        return CUDA_SUCCESS;
    }
    skipped().answers.erase(add.expected);
    if (!reads_only_its_own(add) || !is_mapped(add.expected, add.n, 8) || !is_mapped(add.bound, add.n, 8))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    touch_operands(add);
    auto* expected = reinterpret_cast<double*>(add.expected);
    auto* bound = reinterpret_cast<double*>(add.bound);
    for (std::int64_t i = 0; i < add.n; ++i) {
        expected[i] = sum_at(add, i);
        bound[i] = static_cast<double>(add.value) * std::fabs(expected[i]) + static_cast<double>(add.floor);
    }
    return CUDA_SUCCESS;
}

}  // namespace autotune::fake
