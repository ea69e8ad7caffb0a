// The interface between device text and the machine that runs it, compiled into the tests and into every kernel.
#pragma once

namespace host_cuda {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

struct Index {
    u32 x = 1, y = 1, z = 1;
};

enum class Multiplier { f16, bf16, tf32, e4m3, e5m2 };

// An mbarrier: expected arrivals, missing arrivals and bytes, and the parity of its phase.
struct MBarrier {
    u32 expected : 15, pending : 15, phase : 1;
    int bytes;

    void begin(u32 arrivals) { *this = {arrivals, arrivals, 0, 0}; }
    void arrive() {
        --pending;
        end_if_complete();
    }
    void expect(u32 more) { bytes += static_cast<int>(more); }
    void complete(u32 done) {
        bytes -= static_cast<int>(done);
        end_if_complete();
    }

  private:
    void end_if_complete() {
        if (pending == 0 && bytes == 0) *this = {expected, expected, phase ^ 1U, 0};
    }
};
static_assert(sizeof(MBarrier) == 8, "as large as the hardware's");

// The tensor map that a kernel gets.
struct TensorMap {
    unsigned char* base;
    u64 extents[5], strides[4];  // in elements; in bytes
    u32 boxes[5];
    u16 rank, element_bytes, swizzle_bytes;
};
static_assert(sizeof(TensorMap) <= 128, "as large as the driver's");

// The swizzled address of 16 bytes at this shared address, with spans of 128, 64, 32 or no bytes.
inline u32 swizzled(u32 address, int span_bytes) {
    const u32 mask = span_bytes == 128 ? 7U : span_bytes == 64 ? 3U : span_bytes == 32 ? 1U : 0U;
    return address ^ (address >> 7 & mask) << 4;
}

// A copy of cp.async.bulk: a box of a tensor, or contiguous bytes.
struct BulkCopy {
    const TensorMap* map = nullptr;   // for a box
    int at[5] = {};                   // its first element
    unsigned char* global = nullptr;  // for bytes
    u32 bytes = 0;
    u32 shared = 0;
    MBarrier* barrier = nullptr;  // for a load: the barrier that counts its bytes
    bool adds = false;            // for a store: adds to the floats in memory
};

// A product of wgmma: sums += A B of 64 x 32 bytes and 32 bytes x n. Each warp has 16 of the 64 rows.
struct GroupProduct {
    Multiplier left, right;
    int n;
    bool has_half_sums;
    void* sums;  // n / 2 floats, or n / 4 pairs of f16
    bool a_is_register;
    u32 a[4];
    u64 a_descriptor, b_descriptor;
    bool a_transposed, b_transposed, accumulates;
};

// The fields are those of the running thread. Calls that let other threads run return when this one continues.
class Machine {
  public:
    Index thread, block, block_extent, grid_extent;

    // Waits until `threads` threads have arrived at barrier `id`; 0: all threads of the block that have not ended.
    virtual void barrier(int id, int threads) = 0;
    // Arrives at a barrier without waiting.
    virtual void arrive(int id, int threads) = 0;
    // Each lane in the mask gives a value, and gets the values of all lanes in the mask.
    virtual void gather(u32 mask, const char* instruction, u64 mine, u64 (&all)[32]) = 0;

    // cp.async copies the first `valid` of `bytes` bytes, then zeros.
    virtual void copy_async(void* to, const void* from, int bytes, int valid) = 0;
    virtual void commit_copies() = 0;
    virtual void wait_for_copies(int pending_groups) = 0;

    // cp.async.bulk, and its groups of stores.
    virtual void copy_bulk(const BulkCopy& copy) = 0;
    virtual void commit_bulk() = 0;
    virtual void wait_for_bulk(int pending_groups) = 0;

    // ldmatrix .x4: each lane gives the address of a row of eight 16-bit elements.
    virtual void load_matrices(u32 (&to)[4], const void* row, bool transposed) = 0;
    virtual void store_matrices(void* row, const u32 (&from)[4], bool transposed) = 0;
    // mma.sync m16n8k16, or m16n8k8 of tf32, with sums of f32. Both use all registers of `a` and `b`.
    virtual void multiply(Multiplier type, float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) = 0;
    // m16n8k16 of f16 with sums of f16, two of them in a word.
    virtual void multiply_f16(u32 (&sums)[2], const u32 (&a)[4], const u32 (&b)[2]) = 0;

    // wgmma, and its groups.
    virtual void multiply_group(const GroupProduct& product) = 0;
    virtual void commit_products() = 0;
    virtual void wait_for_products(int pending_groups) = 0;

    // Ends the kernel with a fault.
    virtual void trap() = 0;
    // If products are delayed, lets the other threads run first, which may overwrite what the products have yet to read.
    virtual void pause() = 0;
    // Lets the other threads run before the caller checks again for something that has not arrived.
    virtual void wait_a_turn() = 0;

    // Conversions: to_...() round once, to nearest, ties to even; from_...() are exact.
    virtual u16 to_half(double value) = 0;
    virtual u16 to_bfloat(double value) = 0;
    virtual float from_half(u16 bits) = 0;
    // Values that are too large become the type's largest number.
    virtual u16 to_e4m3(float value) = 0;
    virtual u16 to_e5m2(float value) = 0;

  protected:
    ~Machine() = default;
};

}  // namespace host_cuda
