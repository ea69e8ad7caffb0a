#pragma once

#include <cstddef>
#include <vector>

#include "tests/support/fake/kernels/kernels.h"

namespace autotune::fake {

// Launched gemms whose results have not been read yet. Timing loops launch thousands of times between two reads. So a launch is
// computed when something reads its output or changes its inputs, and dropped when its output is overwritten unread.
class Pending {
  public:
    static Pending& get();

    // REQUIRES: the gemm's operands are mapped and it is small.
    void add(const GemmView& gemm);
    // Called before these bytes are read or written; `overwrites`: all of them are written without being read.
    void touch(Address base, std::size_t bytes, bool overwrites = false);

    // Raised whenever a result is no longer pending; until then, replaying a graph of these launches has nothing to do.
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
