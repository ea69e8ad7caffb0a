#pragma once

#include <cstddef>
#include <vector>

#include "tests/support/fake/kernels/kernels.h"

namespace autotune::fake {

// Gemms that were launched and whose answers nobody has looked at yet. Timing loops launch thousands of times between two looks:
// a launch is computed when something reads its output or changes its inputs, and dropped when its output is overwritten unseen.
class Pending {
  public:
    static Pending& get();

    // REQUIRES: the gemm's operands are mapped and it is small.
    void add(const GemmView& gemm);
    // Something is about to read or write these bytes; `overwrites`: every one of them, unseen.
    void touch(Address base, std::size_t bytes, bool overwrites = false);

    // Raised whenever an answer ceases to be pending: until then, a graph of these launches has nothing to do.
    std::uint64_t generation() const { return generation_; }

  private:
    struct Range {
        Address base = 0;
        std::size_t bytes = 0;
        bool meets(const Range& other) const { return base < other.base + other.bytes && other.base < base + bytes; }
        bool holds(const Range& other) const { return base <= other.base && other.base + other.bytes <= base + bytes; }
    };
    struct Entry {
        GemmView gemm;
        Range a, b, c;
        int launches = 1;
    };
    static Entry make_entry(const GemmView& gemm);
    static void run(const Entry& entry);

    std::vector<Entry> entries_;
    std::uint64_t generation_ = 1;
};

}  // namespace autotune::fake
