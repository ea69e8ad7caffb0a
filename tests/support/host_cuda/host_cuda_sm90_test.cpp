// Requirements on the machine for sm_90: bulk copies counted by barriers, wgmma on operands in the layouts of the PTX manual, and
// missing waits must show.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "tests/support/host_cuda/text_kernel.h"
#include "tests/support/host_cuda/translate.h"

namespace autotune::test::host_cuda {
namespace {

using ::testing::HasSubstr;

const char* const kHopperText = R"(
struct alignas(64) Map { unsigned long long words[16]; };
__device__ inline unsigned begin() {
    extern __shared__ __align__(1024) unsigned char memory[];
    return static_cast<unsigned>(__cvta_generic_to_shared(memory));
}
__device__ inline void wait(unsigned barrier) {
    asm volatile("{\n .reg .pred done;\nagain:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 " @done bra finished;\n bra again;\nfinished:\n}" ::"r"(barrier), "r"(0) : "memory");
}
// A box of 4 rows of 16 elements, from row 6 of 8 on, in spans of 32 bytes; the second half of the threads copies it out.
extern "C" __global__ void k_box(const Map map, unsigned short* out, int waits) {
    const unsigned tile = begin(), barrier = tile + 1024;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(1) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(128) : "memory");
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
                     " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(tile), "l"(&map), "r"(barrier), "r"(0), "r"(6), "r"(0), "l"(0ull));
    }
    __syncthreads();
    if (waits) wait(barrier);
    extern __shared__ unsigned char memory[];
    if (threadIdx.x >= 32) for (int i = 0; i < 2; ++i)
        out[threadIdx.x % 32 * 2 + i] = reinterpret_cast<unsigned short*>(memory)[threadIdx.x % 32 * 2 + i];
}
// Adds what lies in shared memory, or leaves without waiting until it was read.
extern "C" __global__ void k_add(float* to, int waits) {
    extern __shared__ unsigned char memory[];
    float* const own = reinterpret_cast<float*>(memory);
    for (int i = 0; i < 4; ++i) own[i] = i + 1;
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(begin()), "r"(16));
    asm volatile("cp.async.bulk.commit_group;");
    if (waits) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(0));
    for (int i = 0; i < 4; ++i) own[i] = 100;
}
// 64 x 16 by 16 x 16. A along K in spans of 128 bytes; B along K too, or along N in spans of 32.
template <int along_n>
__device__ void product(const unsigned char* from, float* out, int waits) {
    extern __shared__ unsigned char memory[];
    if (threadIdx.x == 0) for (int i = 0; i < 16384; ++i) memory[i] = from[i];
    __syncthreads();
    float d[8];
    for (int i = 0; i < 8; ++i) d[i] = 0.5f;
    const unsigned long long a = (begin() >> 4) | (1024ull >> 4) << 32 | 1ull << 62;
    const unsigned long long b = along_n ? (begin() + 8192 >> 4) | (256ull >> 4) << 32 | 3ull << 62 : (begin() + 8192 >> 4) | (1024ull >> 4) << 32 | 1ull << 62;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %10, 0;\n wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16"
                 " {%0,%1,%2,%3,%4,%5,%6,%7}, %8, %9, p, 1, 1, %11, %12;\n}"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 : "l"(a), "l"(b), "r"(1), "n"(0), "n"(along_n));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (waits) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
    for (int i = 0; i < 8; ++i) out[threadIdx.x * 8 + i] = d[i];
}
extern "C" __global__ void k_product(const unsigned char* from, float* out, int waits) { product<0>(from, out, waits); }
extern "C" __global__ void k_product_along_n(const unsigned char* from, float* out, int waits) { product<1>(from, out, waits); }
extern "C" __global__ void k_arrive(int* out) {
    __shared__ int value;
    if (threadIdx.x < 32) {
        value = 7;
        asm volatile("bar.arrive %0, %1;" ::"r"(1), "r"(64) : "memory");
    } else {
        asm volatile("bar.sync %0, %1;" ::"r"(1), "r"(64) : "memory");
        out[threadIdx.x - 32] = value;
    }
}
extern "C" __global__ void k_trap() { asm volatile("trap;"); }
)";

TextKernel& hopper_kernel() {
    static TextKernel made(kHopperText, kLaterArch, 16384);
    return made;
}

constexpr Schedule kSchedules[] = {{.last_thread_first = false, .late_copies = true},
                                   {.last_thread_first = true, .late_products = true}};

// 8 rows of 16 elements.
struct Source {
    alignas(16) std::array<u16, 128> elements;
    Source() {
        for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<u16>(i);
    }
    std::vector<u64> words(const void* out, u64 waits) const {
        ::host_cuda::TensorMap map{};
        map.base = reinterpret_cast<unsigned char*>(const_cast<u16*>(elements.data()));
        map.rank = 3, map.element_bytes = 2, map.swizzle_bytes = 32;
        const u64 extents[] = {16, 8, 1};
        const u32 boxes[] = {16, 4, 1};
        std::copy_n(extents, 3, map.extents);
        std::copy_n(boxes, 3, map.boxes);
        map.strides[0] = 32, map.strides[1] = 256;
        std::vector<u64> all(16);
        std::memcpy(all.data(), &map, sizeof(map));
        all.push_back(word(out));
        all.push_back(waits);
        return all;
    }
};

// Rows 6 and 7, then two rows beyond the tensor. The first span's rows are not swizzled, because bit 7 of their addresses is 0.
TEST(HostCudaBulk, ABoxArrivesWithZerosWhereTheTensorEnds) {
    const Source source;
    for (const Schedule& schedule : kSchedules) {
        std::array<u16, 64> out{};
        hopper_kernel().launch("_box", 64, source.words(out.data(), 1), schedule);
        for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], 96 + i);
        for (std::size_t i = 32; i < 64; ++i) EXPECT_EQ(out[i], 0);
    }
}

TEST(HostCudaBulk, ABoxThatIsNotWaitedForHasNotCome) {
    const Source source;
    std::array<u16, 64> out{};
    EXPECT_THAT(hopper_kernel().fault_of("_box", 64, source.words(out.data(), 0), {.late_copies = true}),
                HasSubstr("the block ends while copies to it are on their way"));
    EXPECT_EQ(out[0], 0xFFFF);
}

TEST(HostCudaBulk, WhatIsStoredIsReadWhenItIsWaitedFor) {
    for (const u64 waits : {1U, 0U}) {
        alignas(16) std::array<float, 4> sums = {10, 10, 10, 10};
        hopper_kernel().launch("_add", 1, {word(sums.data()), waits}, {.late_copies = true});
        EXPECT_EQ(sums[3], waits != 0 ? 14 : 110);
    }
}

// One element of A and one of B are not 0. Row 41, k 11 of A: 5 groups of 8 rows of 128 bytes, the next row, chunk 1 moved by the
// swizzle to chunk 0. Element (k 11, column 6) of B along K: row 6 of 128 bytes, chunk 1 moved to 7. Along N, rows of 32 bytes:
// row 3 of the second group of 8 rows, chunk 0 not moved.
void put(std::array<unsigned char, 16384>& memory, std::size_t at, u16 bits) {
    std::memcpy(&memory[at], &bits, sizeof(bits));
}

TEST(HostCudaProduct, OperandsLieAsTheManualSays) {
    for (const Schedule& schedule : kSchedules) {
        for (const bool along_n : {false, true}) {
            std::array<unsigned char, 16384> memory{};
            put(memory, 5 * 1024 + 128 + 0 * 16 + 3 * 2, 0x4040);                                     // 3
            put(memory, 8192 + (along_n ? 256 + 3 * 32 + 6 * 2 : 6 * 128 + 7 * 16 + 3 * 2), 0x40A0);  // 5
            std::array<float, 1024> out{};
            hopper_kernel().launch(along_n ? "_product_along_n" : "_product", 128, {word(memory.data()), word(out.data()), 1},
                                   schedule);
            // Row 41 is row 9 of the third warp: lane 4 * 1 + 3, register 2 (the row of the upper half, the first of columns 6,
            // 7).
            for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i == (64 + 7) * 8 + 2 ? 15.5F : 0.5F) << i;
        }
    }
}

TEST(HostCudaProduct, SumsThatAreNotWaitedForAreOld) {
    std::array<unsigned char, 16384> memory{};
    put(memory, 0, 0x4040);
    put(memory, 8192, 0x40A0);
    std::array<float, 1024> out{};
    hopper_kernel().launch("_product", 128, {word(memory.data()), word(out.data()), 0}, {.late_products = true});
    EXPECT_EQ(out[0], 0.5F);
}

TEST(HostCudaBarrier, ThreadsThatOnlyArriveAreCounted) {
    for (const Schedule& schedule : kSchedules) {
        std::array<int, 32> out{};
        hopper_kernel().launch("_arrive", 64, {word(out.data())}, schedule);
        EXPECT_THAT(out, ::testing::Each(7));
    }
}

TEST(HostCudaBarrier, ATrapIsAFault) {
    EXPECT_THAT(hopper_kernel().fault_of("_trap", 1, {}, {}), HasSubstr("thread 0 comes to a trap"));
}

TEST(HostCudaHopperText, LabelsAreThoseOfTheirStatement) {
    EXPECT_EQ(translated_ptx("{\nagain:\n@p bra again;\n}", {}),
              "do { __label__ ptx_again; {ptx_again:;if (ptx_p) goto ptx_again;} } while (0)");
}

TEST(HostCudaHopperText, SpecialRegistersAndSinksAreOperands) {
    EXPECT_EQ(
        translated_ptx("mbarrier.arrive.shared::cta.b64 _, [%%cluster_ctarank];", {}),
        "do { ::host_cuda::ptx::mbarrier_arrive_shared_cta_b64(::host_cuda::ptx::Sink(), ::host_cuda::ptx::cluster_ctarank()); } "
        "while (0)");
}

}  // namespace
}  // namespace autotune::test::host_cuda
