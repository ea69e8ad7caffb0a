// Text output is at most 120 columns wide; --full leaves nothing out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/embedded_catalogue.h"
#include "tests/tools/cli_bench.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string widest_line(const std::string& text) {
    std::string widest;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.size() > widest.size()) widest = line;
    }
    return widest;
}

TEST(Width, EveryTableFits120Columns) {
    CliBench autotune;
    const std::string shapes = autotune.file(
        "shapes.txt", "4096x4096x4096\n8*512x4096x14336 op=bgemm layout=nt\n128x128x128 op=dgemm\n1048576 op=add\n");
    autotune({"sweep", "--op", "hgemm", "--shapes", shapes});
    autotune.services.sweep_states.clear();
    tuner::BenchRow named = FakeServices::timed_row("wmma_m16n16k16_mma4x2_warp2x4_stage3_dsmem_swizzle_rbuf", 100);
    named.candidate = Candidate{"gemm/mma", Config({{"block_m", 128}, {"swizzle_stride", 2048}})};
    autotune.services.bench_rows.push_back(named);
    autotune.services.bench_rows.push_back(FakeServices::failed_row(
        "broken", TrialStatus::compile_failed, std::string(300, 'x') + " the compiler has a long story to tell of this one"));
    const std::vector<std::string> problem = {"--op", "hgemm", "--shape", "4096x4096x4096"};
    for (const char* command : {"tune", "explain", "bench", "compile", "show", "families"}) {
        std::vector<std::string> words = {command};
        words.insert(words.end(), problem.begin(), problem.end());
        const Said said = autotune(words);
        EXPECT_EQ(said.code, ExitCode::done) << command << said.err;
        EXPECT_LE(widest_line(said.out).size(), 120u) << command << "\n" << widest_line(said.out);
    }
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
             {"show"}, {"sweep", "--op", "hgemm", "--shapes", shapes}, {"tune", "--op", "hgemm", "--shape", "64x64x64"}}) {
        const Said said = autotune(words);
        EXPECT_LE(widest_line(said.out).size(), 120u) << words.front() << "\n" << widest_line(said.out);
    }
    EXPECT_LE(widest_line(all_families().out).size(), 120u) << widest_line(all_families().out);
}

TEST(Width, FullLeavesNothingOut) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "8,16x8x8"});
    const nlohmann::json config = autotune({"show", "--json"}).json()["winners"][0]["config"];
    ASSERT_FALSE(config.empty());
    const std::string whole = autotune({"show", "--full"}).out;
    EXPECT_THAT(autotune({"show"}).out, HasSubstr("every gemm/"));
    EXPECT_THAT(whole, Not(HasSubstr("every gemm/")));
    for (const auto& [name, value] : config.items()) EXPECT_THAT(whole, HasSubstr(name + "=" + value.dump())) << name;
}

// Finalists of one family: their common parameters are printed once above the table, the others in each row.
TEST(Width, FinalistsShowWhatTheyDifferIn) {
    CliBench autotune;
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({.op = "hgemm", .shape = "512x512x512", .options = {}});
    db::Evidence evidence;
    for (const int stages : {3, 4}) {
        Candidate candidate{"gemm/mma", Config({{"block_m", 128}, {"block_n", 64}, {"stages", stages}})};
        evidence.finalists.push_back({.name = candidate.to_string(), .candidate = candidate});
    }
    evidence.finalists.push_back({.name = "cublas"});
    const std::string table = finalists_table(evidence, catalogue.op_of(problem), problem, false);
    EXPECT_THAT(table, HasSubstr("every gemm/mma:  block_m=128 block_n=64\n"));
    EXPECT_THAT(table, HasSubstr("gemm/mma stages=3\n"));
    EXPECT_THAT(table, HasSubstr("gemm/mma stages=4\n"));
    EXPECT_THAT(table, HasSubstr("cublas\n"));
    EXPECT_THAT(finalists_table(evidence, catalogue.op_of(problem), problem, true),
                HasSubstr("gemm/mma block_m=128 block_n=64 stages=3\n"));
}

}  // namespace
}  // namespace autotune::cli
