#include "src/runtime/ops/attention_problem.h"

#include <cmath>
#include <string>

#include "src/runtime/api/versions.h"
#include "src/runtime/plan/plan_request.h"

namespace autotune::runtime {
namespace {

constexpr std::array<const char*, 5> kMasks = {"none", "causal", "causal_bottom_right", "window", "window_bottom_right"};

const char* mask_word(autotune_mask mask) {
    const auto number = static_cast<std::size_t>(mask);
    if (number >= kMasks.size()) refuse("mask is " + std::to_string(static_cast<int>(mask)) + ", no value of autotune_mask");
    return kMasks[number];
}

bool is_window(autotune_mask mask) {
    return mask == AUTOTUNE_MASK_WINDOW || mask == AUTOTUNE_MASK_WINDOW_BOTTOM_RIGHT;
}

bool is_zero(const int64_t (&strides)[3]) {
    return strides[0] == 0 && strides[1] == 0 && strides[2] == 0;
}

std::int64_t or_else(std::int64_t value, std::int64_t otherwise) {
    return value == 0 ? otherwise : value;
}

}  // namespace

autotune_attention_problem read_problem(const autotune_attention_problem* given) {
    if (given == nullptr) refuse("problem is NULL");
    autotune_attention_problem problem = {};
    if (!copy_versioned(problem, given))
        refuse("problem.struct_size must be sizeof(autotune_attention_problem), here " + std::to_string(sizeof(problem)) +
               " bytes");
    return problem;
}

DescribedAttention::DescribedAttention(const autotune_attention_problem& given, bool is_backward)
    : is_bshd_(given.layout == AUTOTUNE_BSHD) {
    if (given.layout != AUTOTUNE_BHSD && given.layout != AUTOTUNE_BSHD)
        refuse("layout is " + std::to_string(static_cast<int>(given.layout)) + ", no value of autotune_layout");
    const std::int64_t kv_heads = or_else(given.kv_heads, given.q_heads), kv_len = or_else(given.kv_len, given.q_len);
    const std::int64_t dv = or_else(given.dv, given.d);
    const bool is_packed = given.total_q != 0 || given.total_kv != 0;
    if (is_packed && is_backward)
        refuse("total_q is " + std::to_string(given.total_q) + "; gradients of packed sequences are not computed");
    const std::int64_t batch = is_packed ? 1 : given.batch;
    const std::int64_t q_rows = is_packed ? given.total_q : given.q_len;
    const std::int64_t kv_rows = is_packed ? or_else(given.total_kv, given.total_q) : kv_len;
    const std::array<std::int64_t, 4> queries = {batch, given.q_heads, q_rows, given.d};
    const std::array<std::int64_t, 4> keys = {batch, kv_heads, kv_rows, given.d};
    const std::array<std::int64_t, 4> values = {batch, kv_heads, kv_rows, dv};
    const std::array<std::int64_t, 4> outputs = {batch, given.q_heads, q_rows, dv};
    const std::array<std::int64_t, 4> lengths = {given.batch, given.q_len, kv_len, dv};
    for (const auto& extents : {queries, keys, values, lengths})
        for (const std::int64_t extent : extents)
            if (extent < 0 || extent >= std::int64_t{1} << 31)
                refuse("an extent is " + std::to_string(extent) +
                       "; batch, heads, lengths and head sizes are from 0 to 2^31 - 1");
    problem_.struct_size = sizeof(problem_);
    problem_.op = is_backward ? "attention_bwd" : "attention";
    problem_.tensors = tensors_.data();
    problem_.attributes = attributes_.data();
    const autotune_dtype type = given.type == AUTOTUNE_DTYPE_DEFAULT ? AUTOTUNE_BF16 : given.type;
    add_tensor("q", type, queries, is_zero(given.q_strides) ? nullptr : given.q_strides);
    add_tensor("k", type, keys, is_zero(given.k_strides) ? nullptr : given.k_strides);
    add_tensor("v", type, values, is_zero(given.v_strides) ? nullptr : given.v_strides);
    add_tensor("o", type, outputs, is_zero(given.o_strides) ? nullptr : given.o_strides);
    if (is_backward || given.has_lse != 0) {
        const std::int64_t strides[3] = {given.q_heads * q_rows, q_rows, 1};
        add_tensor("lse", AUTOTUNE_F32, {batch, given.q_heads, q_rows, 1}, strides);
        tensors_[problem_.tensor_count - 1].rank = 3;
    }
    if (is_packed) {
        add_offsets("q_offsets", given.batch + 1);
        add_offsets("kv_offsets", given.batch + 1);
        add_integer("max_q", given.q_len);
        add_integer("max_kv", kv_len);
    }
    if (is_backward) {
        add_tensor("do", type, outputs, is_zero(given.o_strides) ? nullptr : given.o_strides);
        add_tensor("dq", type, queries, is_zero(given.q_strides) ? nullptr : given.q_strides);
        add_tensor("dk", type, keys, is_zero(given.k_strides) ? nullptr : given.k_strides);
        add_tensor("dv", type, values, is_zero(given.v_strides) ? nullptr : given.v_strides);
        add_word("deterministic", given.any_order != 0 ? "any" : "yes");
    }
    add_word("mask", mask_word(given.mask));
    if (is_window(given.mask)) {
        add_integer("left", given.left);
        add_integer("right", given.right);
    }
    if (given.tf32 != 0) add_word("compute", "tf32");
}

void DescribedAttention::add_tensor(const char* name, autotune_dtype type, const std::array<std::int64_t, 4>& extents,
                                    const int64_t* strides) {
    autotune_tensor& tensor = tensors_[problem_.tensor_count++];
    tensor.struct_size = sizeof(tensor);
    tensor.name = name;
    tensor.type = type;
    tensor.rank = 4;
    for (std::size_t i = 0; i < extents.size(); ++i) tensor.extents[i] = extents[i];
    const auto [batch, heads, rows, columns] = extents;
    // The op only accepts extents below 2^31 and columns below 2^9, and refuses problems whose products overflow.
    const auto product = [](std::int64_t left, std::int64_t right) {
        std::int64_t result = 0;
        if (__builtin_mul_overflow(left, right, &result))
            refuse("a tensor has more elements than 64 bits count; make it smaller");
        return result;
    };
    const std::int64_t of_batch = product(product(heads, rows), columns);
    const std::int64_t dense[3] = {of_batch, is_bshd_ ? columns : rows * columns, is_bshd_ ? heads * columns : columns};
    for (int i = 0; i < 3; ++i) tensor.strides[i] = strides != nullptr ? strides[i] : dense[i];
    tensor.strides[3] = 1;
}

void DescribedAttention::add_offsets(const char* name, std::int64_t count) {
    autotune_tensor& tensor = tensors_[problem_.tensor_count++];
    tensor.struct_size = sizeof(tensor);
    tensor.name = name;
    tensor.type = AUTOTUNE_I32;
    tensor.rank = 1;
    tensor.extents[0] = count;
    tensor.strides[0] = 1;
    tensor.align = 4;
}

void DescribedAttention::add_word(const char* name, const char* word) {
    autotune_attribute& attribute = attributes_[problem_.attribute_count++];
    attribute.struct_size = sizeof(attribute);
    attribute.name = name;
    attribute.kind = AUTOTUNE_ATTRIBUTE_WORD;
    attribute.word = word;
}

void DescribedAttention::add_integer(const char* name, std::int64_t value) {
    autotune_attribute& attribute = attributes_[problem_.attribute_count++];
    attribute.struct_size = sizeof(attribute);
    attribute.name = name;
    attribute.kind = AUTOTUNE_ATTRIBUTE_INTEGER;
    attribute.integer = value;
}

float scale_of(const autotune_attention_problem& problem, float scale) {
    if (scale == 0) return 1 / std::sqrt(static_cast<float>(problem.d));
    if (!(scale > 0) || std::isinf(scale))
        refuse("scale is " + std::to_string(scale) + "; it must be above 0, or 0 for 1 / sqrt(d)");
    return scale;
}

}  // namespace autotune::runtime
