// What explain and report say of a winner: drops, freshness, words, and the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/store.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/tools/cli_bench.h"
#include "tools/cli/output/drops.h"
#include "tools/cli/output/report_charts.h"
#include "tools/cli/output/report_page.h"
#include "tools/cli/output/roofline.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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
    const Catalogue& catalogue = test::embedded_catalogue();
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

std::string report_of(CliBench& autotune) {
    const std::string path = autotune.folder + "/report.html";
    const Said said = autotune({"report", "--html", path});
    EXPECT_EQ(said.code, ExitCode::done) << said.err;
    return text_of(path);
}

// A page of one tuned problem with trials and finalists, written by the command.
std::string page_of(CliBench& autotune) {
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    {
        db::Store store = db::Store::open({.path = autotune.folder + "/.local/share/autotune/autotune.db"});
        const Catalogue& catalogue = test::embedded_catalogue();
        const Problem problem = catalogue.problem({.op = "hgemm", .shape = "512x512x512", .options = {}});
        const DeviceIdentity device = reference_device("sm_90a")->identity;
        db::Winner winner = store.find(problem, device).at(0);
        winner.evidence.finalists = evidence().finalists;
        for (db::Finalist& finalist : winner.evidence.finalists) finalist.timing = winner.timing;
        store.put(winner);
        const auto record = [&](TrialStatus status, double us, std::int64_t block_m) {
            db::StoredTrial stored = trial_of(status, us, block_m);
            stored.trial.candidate.family = winner.candidate.family;
            stored.template_identity = "0123456789abcdef";
            store.record(problem, device, stored);
        };
        for (const std::int64_t block_m : {32, 64, 128}) record(TrialStatus::ok, 10 + static_cast<double>(block_m), block_m);
        record(TrialStatus::rejected, 0, 256);
    }
    return report_of(autotune);
}

TEST(Report, HasEverySectionAndNothingThatIsFetchedOrRun) {
    CliBench autotune;
    const std::string page = page_of(autotune);
    for (const char* part : {"512x512x512", "Final rounds", "Times, sorted", "Search progress", "4 trials: 3 ok, 1 rejected.",
                             "prefers-color-scheme:dark", "wins with 100.0 us", "median time (us)"})
        EXPECT_NE(page.find(part), std::string::npos) << part;
    EXPECT_THAT(page,
                AllOf(Not(HasSubstr("<script")), Not(HasSubstr("src=")), Not(HasSubstr("href=\"http")), Not(HasSubstr("url("))));
}

TEST(Report, OneWinnerWithoutTrialsHasNoPlots) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    EXPECT_THAT(report_of(autotune), AllOf(HasSubstr("512x512x512"), Not(HasSubstr("<svg"))));
}

// The page before the sections of single problems.
std::string overview_of(const std::string& page) {
    return page.substr(0, page.find("<h2"));
}

TEST(Report, TheOverviewTellsProblemsOfOneShapeApart) {
    CliBench autotune;
    autotune({"--op", "hadd", "--shape", "65536"});
    autotune({"--op", "sadd", "--shape", "65536"});
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    autotune({"--op", "hgemm", "--shape", "512x512x512", "--layout", "nt"});
    const std::string overview = overview_of(report_of(autotune));
    for (const char* cell : {"data-title=\"element type\">f16<", "data-title=\"element type\">f32<", "data-title=\"layout\">nn<",
                             "data-title=\"layout\">nt<", ">512x512x512 nt<"})
        EXPECT_THAT(overview, HasSubstr(cell));
    EXPECT_THAT(overview, AllOf(HasSubstr("All with compute=f16 acc=f32 beta=zero align=16,16,16."),
                                HasSubstr("under the roofline"), Not(HasSubstr("data-title=\"beta\""))));
}

TEST(Report, TheOverviewHasTheFastestRivalsTimeOverOurs) {
    CliBench autotune;
    EXPECT_THAT(overview_of(page_of(autotune)),
                HasSubstr("<td class=\"n\" data-title=\"rival&#39;s time / ours\">0.950 (cublas)</td>"));
}

TEST(Report, EveryCellHasItsTitleForANarrowWindow) {
    CliBench autotune;
    const std::string page = page_of(autotune);
    EXPECT_EQ(page.find("<td>"), std::string::npos);
    EXPECT_EQ(page.find("<td class=\"n\">"), std::string::npos);
    EXPECT_THAT(page, AllOf(HasSubstr("@media (max-width:760px)"), HasSubstr("content:attr(data-title)")));
}

TEST(Report, TextOfTheDatabaseCannotBecomeMarkup) {
    CliBench autotune;
    EXPECT_THAT(page_of(autotune), AllOf(HasSubstr("because &lt;b&gt;"), Not(HasSubstr("because <b>"))));
}

TEST(Report, AnEmptyDatabaseIsAPageThatSaysSo) {
    CliBench autotune;
    const std::string path = autotune.folder + "/report.html";
    EXPECT_EQ(autotune({"report", "--html", path}).code, ExitCode::done);
    EXPECT_THAT(text_of(path), HasSubstr("nothing to show yet"));
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
    EXPECT_THAT(text_of(path), AllOf(HasSubstr("under the roofline"), HasSubstr("512x512x2048"), Not(HasSubstr("512x512x1024"))));
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
