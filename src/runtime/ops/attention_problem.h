#pragma once

#include <autotune/autotune.h>

#include <array>
#include <cstdint>

namespace autotune::runtime {

// Copies a caller's problem. Throws Failure{invalid argument} for a size that is not one of autotune_attention_problem.
autotune_attention_problem read_problem(const autotune_attention_problem* given);

// Converts an attention problem, or that of its gradients, to an autotune_problem for the generic functions. Lives on the stack,
// so that a call with a cached plan allocates nothing.
class DescribedAttention {
  public:
    // Throws Failure{invalid argument} naming the member, for errors that the op itself cannot see.
    DescribedAttention(const autotune_attention_problem& given, bool is_backward);
    DescribedAttention(const DescribedAttention&) = delete;
    DescribedAttention& operator=(const DescribedAttention&) = delete;

    const autotune_problem* problem() const noexcept { return &problem_; }

  private:
    void add_tensor(const char* name, autotune_dtype type, const std::array<std::int64_t, 4>& extents, const int64_t* strides);
    void add_offsets(const char* name, std::int64_t count);
    void add_word(const char* name, const char* word);
    void add_integer(const char* name, std::int64_t value);

    std::array<autotune_tensor, 9> tensors_{};
    std::array<autotune_attribute, 6> attributes_{};
    autotune_problem problem_{};
    bool is_bshd_;
};

// The scale of a call, where 0 means the usual 1 / sqrt(d). Throws Failure{invalid argument} unless the number is above 0.
float scale_of(const autotune_attention_problem& problem, float scale);

}  // namespace autotune::runtime
