// The texts of explain and report about a winner: drops, freshness, words, and the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/store/store.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/tools/cli_bench.h"
#include "tools/cli/output/report/report_charts.h"
#include "tools/cli/output/report/report_page.h"
#include "tools/cli/output/report/roofline.h"
#include "tools/cli/output/text/drops.h"

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

// The page that the command writes for one tuned problem with trials and finalists.
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
                             "prefers-color-scheme:dark", "is the fastest of the candidates with 100.0 us", "median time (us)"})
        EXPECT_NE(page.find(part), std::string::npos) << part;
    EXPECT_THAT(page,
                AllOf(Not(HasSubstr("<script")), Not(HasSubstr("src=")), Not(HasSubstr("href=\"http")), Not(HasSubstr("url("))));
}

TEST(Report, OneWinnerWithoutTrialsHasNoPlots) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    EXPECT_THAT(report_of(autotune), AllOf(HasSubstr("512x512x512"), Not(HasSubstr("<svg"))));
}

// The part of the page before the sections of single problems.
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

// Stores a winner of the problem as if it had been tuned on another card at another time.
void store_winner(CliBench& autotune, const std::string& shape, const std::string& date, int sm_count, bool has_rival) {
    db::Store store = db::Store::open({.path = autotune.folder + "/.local/share/autotune/autotune.db"});
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({.op = "hgemm", .shape = shape, .options = {}});
    db::Winner winner = store.list({.op = "gemm"}).at(0);
    winner.extents = problem.extents;
    winner.provenance.date = date;
    winner.device.sm_count = sm_count;
    winner.evidence.finalists = evidence().finalists;
    for (db::Finalist& finalist : winner.evidence.finalists) finalist.timing = winner.timing;
    if (!has_rival) winner.evidence.finalists.erase(winner.evidence.finalists.begin() + 1);
    store.put(winner);
}

TEST(Report, APlotTakesTheNewestDeviceAndOpByDefault) {
    CliBench autotune;
    autotune({"--op", "hadd", "--shape", "4096"});
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    store_winner(autotune, "256x256x256", "2027-01-01T00:00:00Z", 66, false);
    store_winner(autotune, "128x128x128", "2026-12-01T00:00:00Z", 66, false);
    const std::string path = autotune.folder + "/set.svg";
    const Said said = autotune({"report", "--plot", path});
    EXPECT_EQ(said.code, ExitCode::done) << said.err;
    EXPECT_THAT(said.out, AllOf(HasSubstr("2 of 2 winners of gemm on "), HasSubstr("66 SMs"),
                                HasSubstr(", the newest; --op and --device-key choose others\n")));
    EXPECT_THAT(text_of(path), AllOf(HasSubstr("256x256x256"), HasSubstr("128x128x128"), Not(HasSubstr("512x512x512"))));
    EXPECT_THAT(autotune({"report", "--op", "hadd", "--plot", path}).out, HasSubstr("winners of add on "));
}

TEST(Report, RowsWithRivalsComeFirst) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    store_winner(autotune, "256x256x256", "2020-01-01T00:00:00Z", 132, true);
    const std::string page = report_of(autotune);
    EXPECT_LT(page.find(">256x256x256<"), page.find(">512x512x512<"));
    const std::string path = autotune.folder + "/one.html";
    EXPECT_THAT(autotune({"report", "--limit", "1", "--html", path}).out, HasSubstr("1 of 2 winners"));
    EXPECT_THAT(text_of(path), AllOf(HasSubstr("256x256x256"), Not(HasSubstr("512x512x512")),
                                     HasSubstr("Problems with a timed rival come first, then the newest; `autotune report --all` "
                                               "shows all.")));
}

TEST(Report, AllShowsEveryRow) {
    CliBench autotune;
    autotune({"--op", "hadd", "--shape", "1024:51200:1024"});
    const std::string path = autotune.folder + "/all.html";
    EXPECT_THAT(autotune({"report", "--html", path}).out, HasSubstr("40 of 50 winners"));
    EXPECT_THAT(autotune({"report", "--all", "--html", path}).out, HasSubstr("50 of 50 winners"));
}

TEST(Report, NamesItsDimensionsAndWhereARowIsFrom) {
    CliBench autotune;
    const std::string page = page_of(autotune);
    EXPECT_THAT(page, AllOf(HasSubstr("data-title=\"m x n x k\"><a href=\"#p0\">512x512x512<"),
                            HasSubstr("m = 512, n = 512, k = 512; "), HasSubstr("data-title=\"from\">tuned<")));
}

TEST(Report, AShippedRowSaysSo) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    const std::string lines = autotune.file("shipped.jsonl", autotune({"export"}).out);
    autotune.variables["AUTOTUNE_SHIPPED"] = lines;
    autotune.variables["AUTOTUNE_DB"] = autotune.folder + "/empty.db";
    autotune({"--op", "hadd", "--shape", "64"});
    EXPECT_THAT(report_of(autotune), AllOf(HasSubstr("data-title=\"from\">shipped<"), HasSubstr("shipped with autotune"),
                                           HasSubstr("This winner is shipped with autotune: it has no trials in the database.")));
}

TEST(Report, SaysOfAnImportedRowThatItWasImported) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "512x512x512"});
    EXPECT_THAT(report_of(autotune), HasSubstr("The database has no trials of this problem: its winner was imported."));
}

// ---- the result, first ----

db::Winner winner_with(double ratio, double low, double high, double rival_us) {
    db::Winner winner;
    winner.candidate = {"gemm/mma", Config({{"block_m", 128}})};
    winner.timing.median_us = 100;
    winner.evidence.finalists = {{.name = "gemm/mma", .candidate = winner.candidate, .timing = winner.timing},
                                 {.name = "cublaslt", .ratio = 1.5, .ratio_low = 1.4, .ratio_high = 1.6},
                                 {.name = "cublas", .ratio = ratio, .ratio_low = low, .ratio_high = high}};
    winner.evidence.finalists[2].timing.median_us = rival_us;
    return winner;
}

TEST(PhasesText, SaysWhatMoreTimeWouldProbablyGain) {
    EXPECT_EQ(more_time_text({}), "");
    db::Evidence searched;
    searched.expected_gain = 0.0123;
    EXPECT_EQ(more_time_text(searched), "1.2 %");
    EXPECT_THAT(phases_text(searched), HasSubstr("More time would probably gain 1.2 %."));
    searched.expected_gain = 0.0004;
    EXPECT_EQ(more_time_text(searched), "less than 0.1 %");
}

TEST(ResultText, SaysWhichSideIsFaster) {
    EXPECT_EQ(result_text(winner_with(0.95, 0.94, 0.96, 95)),
              "cublas is faster: 95.00 us, 5.0 % less time than the 100.0 us of gemm/mma.");
    EXPECT_EQ(result_text(winner_with(1.1, 1.09, 1.11, 110)),
              "gemm/mma is the fastest: 100.0 us; the fastest rival, cublas, takes 10.0 % longer.");
    EXPECT_EQ(result_text(winner_with(0.99, 0.98, 1.01, 99)), "gemm/mma and cublas are equally fast: 100.0 us and 99.00 us.");
    EXPECT_EQ(result_text(winner_with(0.998, 0.997, 0.999, 99.8)), "gemm/mma and cublas are equally fast: 100.0 us and 99.80 us.")
        << "under half a percent is a tie";
    db::Winner alone = winner_with(1, 1, 1, 1);
    alone.evidence.finalists.resize(1);
    EXPECT_EQ(result_text(alone), "gemm/mma takes 100.0 us; no rival was timed beside it.");
}

TEST(ResultText, OfATuneNamesTheFastestRival) {
    EXPECT_EQ(rival_text(winner_with(0.95, 0.94, 0.96, 95).evidence), "cublas is faster: 95.00 us, 5.0 % less time");
    EXPECT_EQ(rival_text(winner_with(1.1, 1.09, 1.11, 110).evidence), "cublas takes 10.0 % longer");
    EXPECT_EQ(rival_text(winner_with(1, 0.99, 1.01, 100).evidence), "cublas is equally fast");
    EXPECT_EQ(rival_text({}), "");
}

TEST(Explain, AWinnerThatARivalBeatsSaysSoInItsFirstLine) {
    CliBench autotune;
    page_of(autotune);
    const Said said = autotune({"explain", "--op", "hgemm", "--shape", "512x512x512"});
    const std::string first = said.out.substr(0, said.out.find('\n'));
    EXPECT_EQ(first.find("cublas is faster: 100.0 us, 5.0 % less time than the 100.0 us of gemm/"), 0u) << first;
    EXPECT_THAT(said.out, AllOf(HasSubstr("is the fastest of the candidates with 100.0 us"), Not(HasSubstr("wins with"))));
    const auto json = autotune({"explain", "--op", "hgemm", "--shape", "512x512x512", "--json"}).json();
    EXPECT_EQ(json["against_rivals"], "slower");
    EXPECT_EQ(json["result"].get<std::string>().find("cublas is faster: "), 0u);
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
