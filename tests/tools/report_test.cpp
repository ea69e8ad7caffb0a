// What explain and report say of a winner: drops, freshness, words, and the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"
#include "tools/cli/drops.h"
#include "tools/cli/report_charts.h"
#include "tools/cli/report_page.h"
#include "tools/cli/roofline.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string slurp(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

db::StoredTrial trial_of(TrialStatus status, double us, std::int64_t block_m) {
    db::StoredTrial stored;
    stored.trial.candidate = {"gemm/mma", Config({{"block_m", block_m}, {"stages", 3}})};
    stored.trial.status = status;
    stored.date = "2026-01-02T03:04:05Z";
    if (status == TrialStatus::ok)
        stored.trial.timing = Timing{.median_us = us, .low_us = us, .high_us = us, .min_us = us, .samples = 5};
    if (status != TrialStatus::ok) stored.trial.detail = "because <b>";
    return stored;
}

db::Evidence evidence() {
    db::Evidence evidence;
    evidence.space_legal = 1000;
    evidence.tried = 50;
    evidence.failed = 6;
    evidence.failures = {{"rejected", 3}, {"compile_failed", 1}, {"wrong_result", 1}, {"timed_out", 1}};
    evidence.stopped_by = "budget";
    evidence.rounds = 30;
    evidence.decided_by = "faster";
    const Candidate one{"gemm/mma", Config({{"block_m", 128}})}, two{"gemm/mma", Config({{"block_m", 64}})};
    evidence.finalists = {{.name = one.to_string(), .candidate = one, .ratio = 1},
                          {.name = "cublas", .ratio = 0.95, .ratio_low = 0.94, .ratio_high = 0.96},
                          {.name = two.to_string(), .candidate = two, .ratio = 1.04, .ratio_low = 1.03, .ratio_high = 1.05}};
    return evidence;
}

TEST(Drops, AccountForEveryLegalConfigButTheWinner) {
    std::uint64_t sum = 0;
    std::vector<std::string> stages;
    for (const Drop& drop : drops_of(evidence())) {
        sum += drop.count;
        stages.push_back(drop.stage);
    }
    EXPECT_EQ(sum, 999u);
    EXPECT_THAT(stages, ElementsAre("cost model", "compiler", "launch", "verification", "timing", "final rounds"));
}

TEST(Drops, StagesThatDroppedNobodyAreLeftOut) {
    db::Evidence small;
    small.space_legal = 1;
    small.tried = 1;
    small.finalists = {{.name = "gemm/mma", .candidate = Candidate{"gemm/mma", {}}}};
    EXPECT_TRUE(drops_of(small).empty());
}

TEST(EvidenceText, TheRunnerUpIsACandidateAndRivalsSpeakForThemselves) {
    EXPECT_THAT(decided_text(evidence()), AllOf(HasSubstr("block_m=64, takes 4.0 % longer"), Not(HasSubstr("cublas"))));
    EXPECT_THAT(rivals_text(evidence()),
                HasSubstr("cublas, in the same rounds, takes 5.0 % less time (95 % interval 4.0 .. 6.0 %)"));
}

TEST(Roofline, CeilingIsTheLowerOfPeakAndWhatMemoryFeeds) {
    const Catalogue catalogue = Catalogue::embedded();
    const Roofline roofline = roofline_of(*reference_device("sm_90a"));
    const Problem big = catalogue.problem({.op = "hgemm", .shape = "8192x8192x8192", .options = {}});
    const Problem thin = catalogue.problem({.op = "hgemm", .shape = "1x8192x8192", .options = {}});
    const Op& op = catalogue.op_of(big);
    EXPECT_DOUBLE_EQ(ceiling(roofline, op, big), roofline.peak_tflops);
    EXPECT_NEAR(ceiling(roofline, op, thin), op.flops(thin) / op.bytes(thin) * roofline.memory_gb_per_s * 1e-3, 1e-9);
}

TEST(ReportCharts, AParameterThatNeverChangedHasNoChart) {
    const std::vector<db::StoredTrial> trials = {trial_of(TrialStatus::ok, 10, 64), trial_of(TrialStatus::ok, 12, 128)};
    EXPECT_EQ(parameter_charts(trials, trials.front().trial.candidate).size(), 1u);
}

TEST(ReportCharts, FailuresAreCountedByStatusWithAnExample) {
    const auto classes = failure_classes({trial_of(TrialStatus::ok, 10, 64), trial_of(TrialStatus::wrong_result, 0, 64),
                                          trial_of(TrialStatus::wrong_result, 0, 128)});
    ASSERT_EQ(classes.size(), 1u);
    EXPECT_EQ(classes[0].count, 2u);
    EXPECT_THAT(classes[0].example, HasSubstr("block_m=64 stages=3: because"));
}

// A page of one tuned problem with trials, written by the command.
std::string page_of(CliBench& autotune) {
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    {
        db::Store store = db::Store::open({.path = autotune.folder + "/.local/share/autotune/autotune.db"});
        const Catalogue catalogue = Catalogue::embedded();
        const Problem problem = catalogue.problem({.op = "hgemm", .shape = "512x512x512", .options = {}});
        for (const auto status : {TrialStatus::ok, TrialStatus::rejected}) {
            db::StoredTrial stored = trial_of(status, 10, status == TrialStatus::ok ? 64 : 128);
            stored.template_identity = "0123456789abcdef";
            store.record(problem, reference_device("sm_90a")->identity, stored);
        }
    }
    const std::string path = autotune.folder + "/report.html";
    const Said said = autotune({"report", "--html", path});
    EXPECT_EQ(said.code, ExitCode::done) << said.err;
    return slurp(path);
}

TEST(Report, HasEverySectionAndNothingThatIsFetchedOrRun) {
    CliBench autotune;
    const std::string page = page_of(autotune);
    for (const char* part : {"512x512x512", "Final rounds", "Times, sorted", "Search progress", "under the roofline", "Outcomes",
                             "rejected", "prefers-color-scheme:dark", "wins with 100.0 us"})
        EXPECT_NE(page.find(part), std::string::npos) << part;
    EXPECT_THAT(page,
                AllOf(Not(HasSubstr("<script")), Not(HasSubstr("src=")), Not(HasSubstr("href=\"http")), Not(HasSubstr("url("))));
}

TEST(Report, TextOfTheDatabaseCannotBecomeMarkup) {
    CliBench autotune;
    EXPECT_THAT(page_of(autotune), AllOf(HasSubstr("because &lt;b&gt;"), Not(HasSubstr("because <b>"))));
}

TEST(Report, AnEmptyDatabaseIsAPageThatSaysSo) {
    CliBench autotune;
    const std::string path = autotune.folder + "/report.html";
    EXPECT_EQ(autotune({"report", "--html", path}).code, ExitCode::done);
    EXPECT_THAT(slurp(path), HasSubstr("nothing to show yet"));
}

TEST(Report, AnEmptyDatabaseHasNothingToDraw) {
    CliBench autotune;
    const Said said = autotune({"report", "--plot", autotune.folder + "/set.svg"});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, HasSubstr("no winner matches"));
}

TEST(Report, PlotsTheWinnersOfASetUnderOneRoofline) {
    CliBench autotune;
    for (const char* shape : {"512x512x512", "512x512x1024", "512x512x2048"}) autotune({"--op", "hgemm", "--shape", shape});
    const std::string set = autotune.file("set.txt", "512x512x512 op=hgemm\n512x512x2048 op=hgemm\n");
    const std::string path = autotune.folder + "/set.svg";
    const Said said = autotune({"report", "--shapes", set, "--plot", path});
    EXPECT_EQ(said.code, ExitCode::done) << said.err;
    EXPECT_THAT(said.out, HasSubstr("2 of 2 winners"));
    EXPECT_THAT(slurp(path), AllOf(HasSubstr("under the roofline"), HasSubstr("512x512x2048"), Not(HasSubstr("512x512x1024"))));
}

TEST(Report, PlotsNoWinnersOfTwoOpsTogether) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    autotune({"--op", "hadd", "--shape", "4096"});
    const Said said = autotune({"report", "--plot", autotune.folder + "/set.svg"});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, HasSubstr("one op on one device"));
}

TEST(Report, WithoutAFileToWriteSaysWhichFlagsThereAre) {
    CliBench autotune;
    const Said said = autotune({"report"});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, AllOf(HasSubstr("--html"), HasSubstr("--plot")));
}

TEST(Report, NeedsNoGpu) {
    CliBench autotune;
    autotune.services.has_driver = false;
    EXPECT_EQ(autotune({"report", "--html", autotune.folder + "/report.html"}).code, ExitCode::done);
}

}  // namespace
}  // namespace autotune::cli
