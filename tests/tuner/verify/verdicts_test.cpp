#include <gtest/gtest.h>

#include "tuner/compile/occupancy.h"
#include "tuner/session/tune/recall.h"
#include "tuner/verify/verifier.h"
#include "tuner/worker/protocol/wire.h"

namespace autotune::tuner::verdicts_test {
namespace {

Tensor output() {
    Tensor out;
    out.name = "c";
    out.dtype = DType::f16;
    out.access = Access::out;
    out.dims = {{4, 8}, {8, 1}};
    return out;
}

// The verdict on the only output of the test with this name.
std::string verdict(const std::string& test, const CompareResult& found, const OutputCheck& check = {}) {
    return judge({.name = test, .fills = {}, .outputs = {check}}, check, output(), found);
}

TEST(Judge, NothingWrongIsSilent) {
    EXPECT_EQ(verdict("exact", {}), "");
}

TEST(Judge, NamesTheFirstWrongElement) {
    CompareResult found;
    found.violations = 2;
    found.first_wrong_complement = ~std::uint64_t{19};
    EXPECT_EQ(verdict("exact", found), "exact test: 2 of 32 elements are wrong, the first at row 2, column 3");
}

TEST(Judge, AnUnwrittenElementIsSaidSo) {
    CompareResult found;
    found.violations = found.nan_count = 5;
    EXPECT_EQ(verdict("numeric", found), "numeric test: 5 of 32 elements are NaN or were never written");
}

TEST(Judge, ZerosWithinAWideBoundFailTheNormRatio) {
    OutputCheck check;
    check.max_norm_ratio = 0.1;
    CompareResult found;
    found.sum_error2 = found.sum_expected2 = 1;
    EXPECT_NE(verdict("numeric", found, check), "");
}

TEST(Occupancy, RegistersLimitResidentBlocks) {
    const Device device = *reference_device("sm_90a");
    LaunchStep step;
    step.block.x = 256;
    CompileReport report;
    report.registers = 128;  // 256 threads x 128 registers are half of the register file, so two blocks fit
    EXPECT_DOUBLE_EQ(occupancy(step, report, device), 512.0 / 2048);
}

TEST(Occupancy, SharedMemoryLimitsResidentBlocks) {
    const Device device = *reference_device("sm_90a");
    LaunchStep step;
    step.block.x = 128;
    step.dynamic_smem_bytes = 100 * 1024;
    EXPECT_DOUBLE_EQ(occupancy(step, {}, device), 256.0 / 2048);
}

TEST(Stale, FactsThatOneSideDoesNotKnowDoNotDiffer) {
    db::Provenance stored, today;
    stored.driver = "580.1";
    EXPECT_EQ(why_stale(stored, today), "");
    today.driver = "590.2";
    EXPECT_EQ(why_stale(stored, today), "driver was 580.1 and is 590.2");
}

TEST(Wire, ATrialComesBackAsItWas) {
    Trial trial;
    trial.candidate = {"gemm/mma", {{"stages", 3}, {"block_m", 128}}};
    trial.status = TrialStatus::timed_out;
    trial.timing = Timing{10, 9, 11, 8, 30};
    trial.compile.registers = 168;
    trial.detail = "stage launch did not end in 2 s";
    const Trial back = wire::read_trial(Json::parse(wire::write(trial).dump()));
    EXPECT_EQ(back.candidate, trial.candidate);
    EXPECT_EQ(back.status, trial.status);
    EXPECT_EQ(back.timing->samples, 30);
    EXPECT_EQ(back.compile.registers, 168);
    EXPECT_EQ(back.detail, trial.detail);
}

TEST(Wire, AnInfiniteErrorSurvivesAsAHugeOne) {
    Trial trial;
    trial.max_error = 1.0 / 0.0;
    EXPECT_GT(*wire::read_trial(Json::parse(wire::write(trial).dump())).max_error, 1e200);
}

}  // namespace
}  // namespace autotune::tuner::verdicts_test
