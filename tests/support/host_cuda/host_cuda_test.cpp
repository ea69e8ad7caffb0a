// Requirements on the machine itself: it finds and names faults of kernels, and follows the PTX manual.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "src/core/error.h"
#include "tests/support/host_cuda/machine/guarded_array.h"
#include "tests/support/host_cuda/text_kernel.h"
#include "tests/support/host_cuda/translate.h"
#include "tests/support/refusal.h"

namespace autotune::test::host_cuda {
namespace {

using ::testing::HasSubstr;

// ---- texts ----

TEST(HostCudaText, AnInstructionIsACallWithItsOperandsInTheOrderOfTheText) {
    EXPECT_EQ(translated("asm volatile(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : \"=r\"(pair) : \"f\"(high), \"f\"(low(1, 2)));"),
              "do { ::host_cuda::ptx::cvt_rn_bf16x2_f32((pair), (high), (low(1, 2))); } while (0);");
}

TEST(HostCudaText, VectorsAddressesAndNumbersAreOperands) {
    EXPECT_EQ(translated_ptx("ld.shared.v2.u32 {%0, %1}, [%2], 16;", {"a", "b", "at"}),
              "do { ::host_cuda::ptx::ld_shared_v2_u32(a, b, at, 16); } while (0)");
}

TEST(HostCudaText, RegistersAreVariablesOfAScope) {
    EXPECT_EQ(translated_ptx("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %0;\n}", {"pair"}),
              "do { {unsigned short ptx_low, ptx_high;::host_cuda::ptx::mov_b32(ptx_low, ptx_high, pair);} } while (0)");
}

TEST(HostCudaText, APredicateIsACondition) {
    EXPECT_EQ(translated_ptx("@p mov.b32 %0, 1.0;", {"x"}), "do { if (ptx_p) ::host_cuda::ptx::mov_b32(x, 1.0); } while (0)");
}

TEST(HostCudaText, MacrosMayCutALiteralAnywhere) {
    EXPECT_EQ(translated("asm(\"st.global\" \".cs\" \".u16 [%0], %1;\" ::\"l\"(to), \"h\"(value) : \"memory\")"),
              "do { ::host_cuda::ptx::st_global_cs_u16((to), (value)); } while (0)");
}

TEST(HostCudaText, AnInstructionThatIsMissingIsNamed) {
    EXPECT_THAT(refusal_of([] { translated_ptx("@!p bra L;", {}); }), HasSubstr("a predicate of another form: @!p bra L"));
    const jit::Rendered text{"k", "", "extern \"C\" __global__ void k() { asm(\"tcgen05.wait.ld.sync.aligned;\"); }", {}, {}, ""};
    EXPECT_THAT(refusal_of([&] { HostKernel{text}; }), HasSubstr("tcgen05_wait_ld_sync_aligned"));
}

// ---- kernels ----

const char* const kText = R"(
extern "C" __global__ void k_half_at_barrier() {
    if (threadIdx.x < 40) __syncthreads();
    else __syncwarp();
}
extern "C" __global__ void k_lanes_apart(float* out) {
    if (threadIdx.x % 2 == 0) __syncwarp();
    else out[threadIdx.x] = __shfl_xor_sync(0xffffffffU, 1.0F, 1);
}
extern "C" __global__ void k_early_end(int* out) {
    if (threadIdx.x >= 32) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void k_halves(int* out) {
    __shared__ int all[64];
    const int half = threadIdx.x / 32;
    all[threadIdx.x] = static_cast<int>(threadIdx.x);
    asm volatile("bar.sync %0, %1;" ::"r"(1 + half), "r"(32) : "memory");
    if (half == 0) out[threadIdx.x] = all[31 - threadIdx.x];
}
extern "C" __global__ void k_read(const float* from, float* to, int at) { to[threadIdx.x] = from[at]; }
extern "C" __global__ void k_read_four(const float* from, float4* to) { *to = *reinterpret_cast<const float4*>(from); }
extern "C" __global__ void k_register(float* out, int at) {
    float both[2];
    both[0] = 1;
    out[0] = both[at];
}
extern "C" __global__ void k_behind_shared() {
    extern __shared__ __align__(16) unsigned char memory[];
    memory[64] = 0;
}
extern "C" __global__ void k_reverse(float* out, int waits) {
    __shared__ float all[64];
    all[threadIdx.x] = static_cast<float>(threadIdx.x);
    if (waits != 0) __syncthreads();
    out[threadIdx.x] = all[63 - threadIdx.x];
}
extern "C" __global__ void k_copy(const float* from, float* out, int waits) {
    extern __shared__ __align__(16) unsigned char memory[];
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(memory + threadIdx.x * 4));
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %3, %2;" ::"r"(to), "l"(from + threadIdx.x), "r"(4), "n"(4) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (waits != 0) asm volatile("cp.async.wait_group %0;" ::"n"(0) : "memory");
    out[threadIdx.x] = reinterpret_cast<float*>(memory)[threadIdx.x];
}
extern "C" __global__ void k_transposed(const unsigned short* from, unsigned* out) {
    __shared__ unsigned short rows[32][8];
    for (int i = 0; i < 8; ++i) rows[threadIdx.x][i] = from[threadIdx.x * 8 + i];
    __syncwarp();
    unsigned to[4];
    const unsigned row = static_cast<unsigned>(__cvta_generic_to_shared(rows[threadIdx.x]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(row) : "memory");
    for (int i = 0; i < 4; ++i) out[i * 32 + threadIdx.x] = to[i];
}
extern "C" __global__ void k_product(const unsigned* a, const unsigned* b, float* out) {
    float sums[4] = {0, 0, 0, 0.5F};
    const int t = threadIdx.x;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[t]), "r"(a[32 + t]), "r"(a[64 + t]), "r"(a[96 + t]), "r"(b[t]), "r"(b[32 + t]));
    for (int i = 0; i < 4; ++i) out[i * 32 + t] = sums[i];
}
)";

TextKernel& kernel() {
    static TextKernel made(kText, kArch, 256);
    return made;
}
void launch(const char* entry, u32 threads, const std::vector<u64>& words, Schedule schedule = {}) {
    kernel().launch(entry, threads, words, schedule);
}
std::string fault_of(const char* entry, u32 threads, const std::vector<u64>& words) {
    return kernel().fault_of(entry, threads, words);
}

TEST(HostCuda, ThreadsThatWaitForEverAreCountedByPlace) {
    EXPECT_THAT(fault_of("_half_at_barrier", 64, {}),
                HasSubstr("threads wait for ever: 40 at __syncthreads, 24 at __syncwarp, 0 have ended"));
}

TEST(HostCuda, LanesAtDifferentInstructionsAreAFault) {
    std::array<float, 32> out{};
    EXPECT_THAT(fault_of("_lanes_apart", 32, {word(out.data())}),
                HasSubstr("thread 1 is at __shfl_xor_sync while lanes of its warp are at __syncwarp"));
}

TEST(HostCuda, ThreadsThatHaveEndedAreNotWaitedFor) {
    std::array<int, 32> out{};
    launch("_early_end", 96, {word(out.data())});
    EXPECT_THAT(out, ::testing::Each(1));
}

TEST(HostCuda, ANamedBarrierWaitsForAsManyThreadsAsItIsTold) {
    for (const bool last_first : {false, true}) {
        std::array<int, 32> out{};
        launch("_halves", 64, {word(out.data())}, {.last_thread_first = last_first});
        for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(out[i], static_cast<int>(31 - i));
    }
}

TEST(HostCuda, AnAccessBehindAnArrayIsAFaultWithItsPlace) {
    const GuardedArray array(100, 4, GuardedArray::Side::end);
    float to = 0;
    try {
        launch("_read", 1, {word(array.bytes().data()), word(&to), 25});
        FAIL() << "nothing was found";
    } catch (const KernelFault& fault) {
        EXPECT_THAT(fault.what(), HasSubstr("block 0 of k_read: thread 0 accesses memory that is not its own"));
        EXPECT_EQ(array.place_of(fault.address), "0 bytes behind the end");
    }
    const GuardedArray other(100, 4, GuardedArray::Side::begin);
    EXPECT_THAT(fault_of("_read", 1, {word(other.bytes().data()), word(&to), static_cast<u32>(-1)}), HasSubstr("not its own"));
    launch("_read", 1, {word(other.bytes().data()), word(&to), 24});  // After a fault the machine continues.
}

TEST(HostCuda, AnAccessThatIsNotAlignedIsAFault) {
    alignas(16) std::array<float, 8> from{};
    alignas(16) std::array<float, 4> to{};
    launch("_read_four", 1, {word(&from[4]), word(to.data())});
    EXPECT_THAT(fault_of("_read_four", 1, {word(&from[1]), word(to.data())}), HasSubstr("is not aligned to its access"));
}

TEST(HostCuda, ARegisterThatWasNeverWrittenHoldsALargeNumber) {
    float out = 0;
    launch("_register", 1, {word(&out), 0});
    EXPECT_EQ(out, 1);
    launch("_register", 1, {word(&out), 1});
    EXPECT_LT(out, -1e38F);
}

TEST(HostCuda, AWriteIntoTheMarginOfAnArrayIsSeen) {
    const GuardedArray array(100, 4, GuardedArray::Side::begin);
    EXPECT_TRUE(array.is_whole());
    array.bytes().data()[100] = std::byte{0};
    EXPECT_FALSE(array.is_whole());
}

TEST(HostCuda, AWriteBehindDynamicSharedMemoryIsAFault) {
    LaunchStep step;
    step.entry = "_behind_shared";
    step.dynamic_smem_bytes = 65;
    EXPECT_NO_THROW(kernel().kernel().launch(step, {}, {}));
    step.dynamic_smem_bytes = 64;
    EXPECT_THROW(kernel().kernel().launch(step, {}, {}), KernelFault);
}

TEST(HostCuda, OtherParametersThanTheKernelHasAreAFault) {
    EXPECT_THAT(fault_of("_read", 1, {0, 0}), HasSubstr("the plan gives 2 words of parameters to a kernel of 3"));
}

TEST(HostCuda, SharedMemoryBeginsAsNaNSoThatAMissingBarrierShows) {
    for (const bool last_first : {false, true}) {
        std::array<float, 64> out{};
        launch("_reverse", 64, {word(out.data()), 1}, {.last_thread_first = last_first});
        for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], static_cast<float>(63 - i));
        launch("_reverse", 64, {word(out.data()), 0}, {.last_thread_first = last_first});
        EXPECT_TRUE(std::isnan(out[last_first ? 63 : 0]));
    }
}

TEST(HostCuda, LateCopiesShowThatNobodyWaits) {
    const std::array<float, 4> from = {1, 2, 3, 4};
    std::array<float, 4> out{};
    launch("_copy", 4, {word(from.data()), word(out.data()), 1}, {.late_copies = true});
    EXPECT_EQ(out, from);
    launch("_copy", 4, {word(from.data()), word(out.data()), 0}, {.late_copies = false});
    EXPECT_EQ(out, from);
    launch("_copy", 4, {word(from.data()), word(out.data()), 0}, {.late_copies = true});
    EXPECT_TRUE(std::isnan(out[0]));
}

// Register i of lane l of ldmatrix.trans holds rows 2 (l % 4) and the next of column l / 4 of matrix i.
TEST(HostCuda, TransposedMatricesLieAsTheManualSays) {
    std::array<u16, 256> from;
    for (std::size_t i = 0; i < 256; ++i) from[i] = static_cast<u16>(i);
    std::array<u32, 128> out{};
    launch("_transposed", 32, {word(from.data()), word(out.data())});
    EXPECT_EQ(out[32 * 2 + 5], (128U + 2 * 8 + 1) | (128U + 3 * 8 + 1) << 16);
}

// One element of A and one of B are not 0: row 9, k 11 (register 3 of lane 5, high half), and k 11, column 2 (register 1 of lane
// 9).
TEST(HostCuda, ProductsAreSummedWhereTheManualSays) {
    std::array<u32, 128> a{};
    std::array<u32, 64> b{};
    a[3 * 32 + 5] = 0x4040U << 16;  // 3
    b[32 + 9] = 0x40A0U << 16;      // 5
    std::array<float, 128> out{};
    launch("_product", 32, {word(a.data()), word(b.data()), word(out.data())});
    EXPECT_EQ(out[2 * 32 + 5], 15);    // row 9, column 2: lane 4 * 1 + 1
    EXPECT_EQ(out[3 * 32 + 5], 0.5F);  // unchanged
    EXPECT_EQ(out[2 * 32 + 6], 0);
}

}  // namespace
}  // namespace autotune::test::host_cuda
