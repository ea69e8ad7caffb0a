#include <gtest/gtest.h>

#include "src/jit/compiler.h"

namespace autotune::jit {
namespace {

// This is output of NVRTC 13.0.88 for a program with two kernels, sm_80.
const std::string kTwoKernels = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'foo_1_reduce' for 'sm_80'
ptxas info    : Function properties for foo_1_reduce
ptxas         .     288 bytes stack frame, 572 bytes spill stores, 608 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 288 bytes cumulative stack size, 364 bytes cmem[0]
ptxas info    : Compile time = 14.560 ms
ptxas info    : Compiling entry function 'foo_1' for 'sm_80'
ptxas info    : Function properties for foo_1
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 256 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 1.829 ms
)";

// These are the same compiler's remarks on wgmma and setmaxnreg, sm_90a.
const std::string kWgmma =
    R"(ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7519) warpgroup.arrive is injected in around line 905 by compiler to allow use of registers in GMMA in function 'arrives'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'serial'
)";

TEST(ParseReport, ReadsTheKernelThatItIsAskedFor) {
    const CompileReport report = parse_report(kTwoKernels, "foo_1");
    EXPECT_EQ(report.registers, 10);
    EXPECT_EQ(report.spill_bytes, 0);
    EXPECT_EQ(report.static_smem_bytes, 256);
}

TEST(ParseReport, AddsSpillStoresAndLoads) {
    EXPECT_EQ(parse_report(kTwoKernels, "foo_1_reduce").spill_bytes, 572 + 608);
}

TEST(ParseReport, LeavesRegistersUnknownForAKernelThatIsNotThere) {
    EXPECT_EQ(parse_report(kTwoKernels, "foo").registers, -1);
}

TEST(ParseReport, FindsSerialisedWgmmaOfTheKernelAlone) {
    EXPECT_TRUE(parse_report(kWgmma, "serial").wgmma_serialised);
    EXPECT_TRUE(parse_report(kWgmma, "arrives").wgmma_serialised);
    EXPECT_FALSE(parse_report(kWgmma, "other").wgmma_serialised);
}

TEST(ParseReport, FindsAnIgnoredSetmaxnreg) {
    EXPECT_TRUE(parse_report(kWgmma, "other").setmaxnreg_ignored);
}

TEST(ParseReport, SurvivesAnEmptyLog) {
    EXPECT_EQ(parse_report("", "foo").registers, -1);
}

TEST(RejectReason, NamesTheSpilledBytes) {
    EXPECT_EQ(reject_reason({.registers = 255, .spill_bytes = 128}), "spills 128 bytes");
}

TEST(RejectReason, LetsAFewSpilledBytesPass) {
    EXPECT_EQ(reject_reason({.registers = 255, .spill_bytes = 16}), "");
}

TEST(RejectReason, NamesTheRemarkForSerialisedWgmma) {
    EXPECT_NE(reject_reason({.registers = 168, .wgmma_serialised = true}).find("C7511"), std::string::npos);
}

TEST(RejectReason, NamesTheRemarkForAnIgnoredSetmaxnreg) {
    EXPECT_NE(reject_reason({.registers = 168, .setmaxnreg_ignored = true}).find("C7508"), std::string::npos);
}

TEST(LikelySlowdown, GrowsWithTheSpilledBytes) {
    EXPECT_EQ(likely_slowdown({.registers = 168, .spill_bytes = 64}), 1) << "what is allowed";
    EXPECT_NEAR(likely_slowdown({.registers = 168, .spill_bytes = 80}), 1.31, 0.01);
    EXPECT_EQ(likely_slowdown({.registers = 168, .spill_bytes = 4000}), 3);
    EXPECT_EQ(likely_slowdown({.registers = 168, .wgmma_serialised = true}), 3);
}

}  // namespace
}  // namespace autotune::jit
