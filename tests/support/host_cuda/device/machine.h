// What device text asks of the machine that runs it: one interface, compiled into the tests and into every kernel.
#pragma once

namespace host_cuda {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

struct Index {
    u32 x = 1, y = 1, z = 1;
};

enum class Multiplier { f16, bf16, tf32 };

// The fields are those of the thread that runs. Calls that let other threads run return when this one goes on.
class Machine {
  public:
    Index thread, block, block_extent, grid_extent;

    // Until `threads` threads have arrived at barrier `id`; 0: all of the block that have not ended.
    virtual void barrier(int id, int threads) = 0;
    // Every lane of the mask gives a value and gets those of all.
    virtual void gather(u32 mask, const char* instruction, u64 mine, u64 (&all)[32]) = 0;

    // cp.async: the first `valid` of `bytes` bytes, then zeros.
    virtual void copy_async(void* to, const void* from, int bytes, int valid) = 0;
    virtual void commit_copies() = 0;
    virtual void wait_for_copies(int pending_groups) = 0;

    // ldmatrix .x4: each lane gives the address of a row of eight 16-bit elements.
    virtual void load_matrices(u32 (&to)[4], const void* row, bool transposed) = 0;
    // mma.sync m16n8k16, and m16n8k8 of tf32 (of `a` all four, of `b` both): sums of f32.
    virtual void multiply(Multiplier type, float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) = 0;
    // m16n8k16 of f16 with sums of f16, two in a word.
    virtual void multiply_f16(u32 (&sums)[2], const u32 (&a)[4], const u32 (&b)[2]) = 0;

    // Lets the other threads run before one asks again for what is not there yet.
    virtual void wait_a_turn() = 0;

    // Rounded once to nearest, ties to even; exact.
    virtual u16 to_half(double value) = 0;
    virtual u16 to_bfloat(double value) = 0;
    virtual float from_half(u16 bits) = 0;

  protected:
    ~Machine() = default;
};

}  // namespace host_cuda
