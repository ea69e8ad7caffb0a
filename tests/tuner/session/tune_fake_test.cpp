// Whole tunes by the command on a scripted driver: all parts together, faults, resumption. Kernels are not tested here.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "db/sqlite/schema.h"
#include "db/store/store.h"
#include "src/catalogue/catalogue.h"
#include "src/core/system/file_descriptor.h"
#include "src/core/system/read_file.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/tuner/session/fake_tune.h"

namespace autotune::tune_fake_test {
namespace {

using fake::Outcome;
using fake::Sandbox;
using std::chrono::milliseconds;
using test::Json;
using test::no_orphans_soon;
using test::result_of;
using test::with_pins;
using test::with_words;

const test::Words kWide = test::wide_tune();
const test::Words kTune = test::small_tune();
// One of the six, as a rule of the script.
const std::string kCulprit = "symbol=^gemm_simt_ block_m=64 block_n=64 thread_m=4 thread_n=8 ";

int failures_of(const Json& result, const std::string& status) {
    return result.at("evidence").at("failures").value(status, 0);
}

TEST(TuneOnFake, FindsAWinnerThenAnswersFromTheDatabase) {
    Sandbox sandbox;
    const Json first = result_of(sandbox.autotune(kTune));
    EXPECT_TRUE(first.at("tuned"));
    EXPECT_GE(first.at("evidence").at("rounds"), 10);
    sandbox.clear_calls();
    const Json second = result_of(sandbox.autotune(kTune));
    EXPECT_FALSE(second.at("tuned"));
    EXPECT_EQ(second.at("origin"), "exact");
    EXPECT_EQ(second.at("winner").at("config"), first.at("winner").at("config"));
    EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 0);
    EXPECT_EQ(sandbox.count_calls("PrimaryCtxRetain"), 0);
    EXPECT_TRUE(no_orphans_soon(sandbox));
}

// Holds the lock of the sandbox's one GPU, like another tuner.
class OtherTuner {
  public:
    explicit OtherTuner(const Sandbox& sandbox) {
        for (const auto& entry : std::filesystem::directory_iterator(sandbox.folder() / "state/autotune"))
            if (entry.path().extension() == ".lock") file_ = FileDescriptor(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
        EXPECT_EQ(::flock(file_.get(), LOCK_EX | LOCK_NB), 0);
    }
    void lets_go() { file_ = FileDescriptor(-1); }

  private:
    FileDescriptor file_{-1};
};

// Tunes a problem whose winner another tuner stores while this one waits for the GPU.
Json tune_while_another_stores(const test::Words& words, std::string* said) {
    Sandbox sandbox;
    result_of(sandbox.autotune(kTune));
    const auto data = sandbox.folder() / "data/autotune";
    const db::Winner winner = db::Store::open({.path = data / "autotune.db"}).list({}).at(0);
    std::filesystem::remove_all(data);
    std::filesystem::remove_all(sandbox.folder() / "cache");
    sandbox.clear_calls();
    OtherTuner other(sandbox);
    fake::Running running = sandbox.start_autotune(words);
    // waits until the library has looked the problem up
    for (int i = 0; i < 3000 && sandbox.count_calls("nvrtcCompileProgram") == 0; ++i)
        std::this_thread::sleep_for(milliseconds(20));
    db::Store::open({.path = data / "autotune.db"}).put(winner);
    other.lets_go();
    const Outcome outcome = running.wait();
    if (said != nullptr) *said = outcome.err;
    EXPECT_TRUE(no_orphans_soon(sandbox));
    return result_of(outcome);
}

TEST(TuneOnFake, OfTwoTunesOfOneProblemTheSecondTakesTheWinnerOfTheFirst) {
    std::string said;
    const Json second = tune_while_another_stores(kTune, &said);
    EXPECT_FALSE(second.at("tuned"));
    EXPECT_EQ(second.at("origin"), "exact");
    EXPECT_THAT(said, testing::HasSubstr("another tuner is timing on this GPU"));
}

TEST(TuneOnFake, OfTwoTunesWithRetuneBothSearch) {
    EXPECT_TRUE(tune_while_another_stores(with_words(kTune, {"--retune"}), nullptr).at("tuned"));
}

TEST(TuneOnFake, ASweepThatWaitedCallsWhatAnotherStoredFresh) {
    test::Words words = kTune;
    words.front() = "sweep";
    const Json swept = tune_while_another_stores(words, nullptr);
    EXPECT_EQ(swept.at("items").at(0).at("state"), "fresh");
    EXPECT_EQ(swept.at("summary").at("tuned"), 0);
}

// Here a kernel with programmatic dependent launch takes 1 us more, but overlaps by 3 us with a launch of itself. So in a stream
// of other kernels it is slower.
TEST(TuneOnFake, TheWinnerIsTheFastestInAStreamOfOtherKernels) {
    Sandbox sandbox("model noise=0.001 pdl_us=1 overlap_us=3\n");
    test::Words problem = {"--op", "sadd", "--shape", "1048576", "--family", "add/vector"};
    for (const char* pin :
         {"vec=4", "access_bytes=16", "unroll=1", "threads=256", "load_hint=0", "store_hint=0", "grid_stride=0", "waves=0"})
        problem.insert(problem.end(), {"--param", pin});
    const Json result = result_of(sandbox.autotune(with_words(with_words({"tune"}, problem), {"--budget", "10s", "--json"})));
    EXPECT_EQ(result.at("winner").at("config").at("pdl"), 0);
    const Json& winner = result.at("evidence").at("finalists").at(0);
    EXPECT_NEAR(winner.at("after_itself_us").get<double>(), winner.at("median_us").get<double>(), 0.1);
    const auto pinned = [&](const char* pdl, const test::Words& flags) {
        const test::Words short_race = {"--param", pdl, "--rounds", "5", "--warm", "0.01", "--json"};
        return result_of(sandbox.autotune(with_words(with_words(with_words({"bench"}, problem), short_race), flags)));
    };
    const auto ratio_of_pdl = [&](const std::string& after) {
        const Json early = pinned("pdl=1", {"--after", after}), late = pinned("pdl=0", {"--after", after});
        EXPECT_EQ(early.at("after"), after);
        return early.at("rows").at(0).at("median_us").get<double>() / late.at("rows").at(0).at("median_us").get<double>();
    };
    EXPECT_GT(ratio_of_pdl("filler"), 1);
    EXPECT_LT(ratio_of_pdl("itself"), 1);
    EXPECT_LT(ratio_of_pdl("trigger"), 1);
    const Json off = pinned("pdl=1", {"--no-pdl", "--after", "itself"}).at("rows").at(0);
    EXPECT_NEAR(off.at("after_itself_us").get<double>(), off.at("after_filler_us").get<double>(), 0.1);
}

// Kernels and memsets that change streams make every later launch slower: ours stay on one stream, unless more are requested.
TEST(TuneOnFake, MeasuringStaysOnOneStream) {
    Sandbox sandbox("model noise=0.001 streams_us=2\n");
    const test::Words bench = {"bench", "--op", "sadd", "--shape", "1048576", "--family", "add/vector", "--rounds", "5"};
    const auto median_us = [&](const char* streams) {
        const Json result = result_of(sandbox.autotune(with_words(bench, {"--warm", "0.01", "--streams", streams, "--json"})));
        EXPECT_EQ(std::to_string(result.at("streams").get<int>()), streams);
        return result.at("rows").at(0).at("median_us").get<double>();
    };
    EXPECT_NEAR(median_us("2") - median_us("1"), 2, 0.5);
}

TEST(TuneOnFake, AWinnerSaysThatKernelsRanOnTwoStreams) {
    Sandbox sandbox("model noise=0.001 streams_us=2\n");
    const Json one = result_of(sandbox.autotune(test::small_tune()));
    const Json two = result_of(sandbox.autotune(test::small_tune("20s", {"--streams", "2", "--retune"})));
    const auto median_us = [](const Json& result) {
        return result.at("evidence").at("finalists").at(0).at("median_us").get<double>();
    };
    const auto method = [](const Json& result) { return result.at("winner").at("provenance").at("method").get<std::string>(); };
    EXPECT_NEAR(median_us(two) - median_us(one), 2, 0.5);
    EXPECT_THAT(method(two), testing::EndsWith(" streams=2"));
    EXPECT_THAT(method(one), testing::Not(testing::HasSubstr("streams")));
}

// A kernel that needs more energy is slower alone, but not in rounds, where all share one clock.
TEST(TuneOnFake, AtThePowerLimitTheFasterOneForLongWins) {
    const auto tuned = [](const std::string& script) {
        const Sandbox sandbox(script);
        return result_of(sandbox.autotune(test::small_tune("8s,12t")));
    };
    const auto rule_for = [](const Json& finalist, const std::string& what) {
        std::string rule = "rule symbol=^gemm_simt_";
        for (const char* name : {"thread_m", "thread_n"})
            rule += std::string(" ") + name + "=" + finalist.at("config").at(name).dump();
        return rule + " do=slow " + what + "\n";
    };
    const Json finalists = tuned("").at("evidence").at("finalists");
    const Json &hot = finalists.at(0), &cool = finalists.at(1);
    const double nearer = 1.01 / cool.at("ratio").get<double>();
    const std::string rules = rule_for(hot, "factor=1.5 after_us=100000") + rule_for(cool, "factor=" + std::to_string(nearer));
    EXPECT_EQ(tuned(rules).at("winner").at("config"), hot.at("config")) << "nothing holds its clock down";
    const Json judged = tuned("nvml throttle=4\n" + rules);
    EXPECT_EQ(judged.at("winner").at("config"), cool.at("config"));
    EXPECT_THAT(judged.at("evidence").at("decided_by").get<std::string>(),
                testing::HasSubstr("faster for long at the power limit"));
}

// A card that has cooled down during fillers is faster at first: the contestant that runs first must not benefit.
TEST(TuneOnFake, BlocksBeginOnceTheCardHasSettled) {
    Sandbox sandbox("model noise=0.001 rested_factor=0.5 rested_s=0.9\n");
    test::Words bench = {"bench",      "--op",     "sadd", "--shape",  "1048576", "--family",
                         "add/vector", "--blocks", "1",    "--rounds", "5"};
    for (const char* candidate : {"vector unroll=1", "vector unroll=2"}) bench.insert(bench.end(), {"--candidate", candidate});
    const Json rows = result_of(sandbox.autotune(with_words(bench, {"--warm", "0.01", "--json"}))).at("rows");
    ASSERT_GE(rows.size(), 2U);
    for (const Json& row : rows)
        EXPECT_NEAR(row.at("sustained_us").get<double>() / row.at("median_us").get<double>(), 1, 0.03) << row;
}

TEST(TuneOnFake, TimesOfAnotherMethodAreMeasuredAgain) {
    Sandbox sandbox;
    test::Words tune = {"tune", "--op", "sadd", "--shape", "1048576", "--family", "add/vector", "--budget", "20s", "--json"};
    for (const char* pin : {"vec=4", "access_bytes=16", "load_hint=0", "store_hint=0", "grid_stride=0", "waves=0", "pdl=0"})
        tune.insert(tune.end(), {"--param", pin});
    const std::string first = sandbox.folder() / "first.db";
    const Json all = result_of(sandbox.autotune(with_words(tune, {"--db", first})));
    const db::Store known = db::Store::open({.path = first, .read_only = true});
    const Problem problem = test::embedded_catalogue().problem({"sadd", "1048576", {}});
    const DeviceIdentity device = known.list({}).at(0).device;
    const auto tried_with = [&](const std::string& method) {
        const std::string path = sandbox.folder() / (method.empty() ? "old.db" : "new.db");
        {
            db::Store store = db::Store::open({.path = path});
            for (db::StoredTrial trial : known.trials(problem, device)) {
                if (method.empty()) trial.method.clear();
                store.record(problem, device, trial);
            }
        }
        return result_of(sandbox.autotune(with_words(tune, {"--db", path}))).at("evidence").at("tried").get<int>();
    };
    const int tried = all.at("evidence").at("tried").get<int>();
    ASSERT_GT(tried, 16);  // 16 of the known candidates are always measured again
    EXPECT_EQ(tried_with("the same"), 16);
    EXPECT_EQ(tried_with(""), tried);
}

TEST(TuneOnFake, ABudgetOfTrialsEndsTheSearch) {
    Sandbox sandbox;
    const Json evidence = result_of(sandbox.autotune(with_words(kTune, {"--trials", "3"}))).at("evidence");
    EXPECT_EQ(evidence.at("tried"), 3);
    EXPECT_EQ(evidence.at("stopped_by"), "budget");
}

TEST(TuneOnFake, PatienceEndsTheSearch) {
    Sandbox sandbox;
    const Json evidence = result_of(sandbox.autotune(with_words(kWide, {"--patience", "2"}))).at("evidence");
    EXPECT_EQ(evidence.at("stopped_by"), "no better one in 2 trials");
}

// A search of two dozen configs tries all of them, so this test requests the model.
TEST(TuneOnFake, ASearchEndsWhenGoingOnIsExpectedToGainTooLittle) {
    Sandbox sandbox;
    const auto tuned_with = [&](const char* target_gain) {
        return result_of(sandbox.autotune(with_words(kWide, {"--strategy", "model", "--retune", "--target-gain", target_gain})))
            .at("evidence");
    };
    const Json soon = tuned_with("90%");
    EXPECT_EQ(soon.at("stopped_by"), "expected gain");
    EXPECT_LT(soon.at("expected_gain"), 0.9);
    const Json late = tuned_with("0");
    EXPECT_EQ(late.at("stopped_by"), "space exhausted");
    EXPECT_GT(late.at("tried"), soon.at("tried"));
}

// Ten candidates are too few if there is time for more.
TEST(TuneOnFake, AShortBudgetIsUsedForMoreThanTheFirstTen) {
    Sandbox sandbox;
    const Json evidence = result_of(sandbox.autotune(test::wide_tune("4s"))).at("evidence");
    EXPECT_GT(evidence.at("tried"), 10);
}

std::vector<CostCorrection> learned_in(const Sandbox& sandbox) {
    db::Store store = db::Store::open({.path = sandbox.folder() / "data/autotune/autotune.db"});
    const auto winners = store.list({});
    return winners.empty() ? std::vector<CostCorrection>() : store.corrections(winners.front().device.key(), "");
}

TEST(TuneOnFake, WhatTrialsSayOfTheCostModelIsLearnedForTheNextProblem) {
    Sandbox sandbox;
    result_of(sandbox.autotune(kWide));
    const auto first = learned_in(sandbox);
    ASSERT_EQ(first.size(), 1u);
    EXPECT_EQ(first[0].family, "gemm/simt");
    EXPECT_EQ(first[0].problems, 1);
    EXPECT_GT(first[0].trials, 0);
    EXPECT_FALSE(first[0].effects.empty());
    std::vector<std::string> other = kWide;
    *std::find(other.begin(), other.end(), "256x256x256") = "256x512x256";
    result_of(sandbox.autotune(other));
    EXPECT_EQ(learned_in(sandbox).at(0).problems, 2);
    const Outcome doctor = sandbox.autotune({"doctor"});
    EXPECT_THAT(doctor.out,
                testing::HasSubstr("trials on this card correct the order in which cost models put candidates: gemm/simt "
                                   "from 2 problems"));
    EXPECT_THAT(doctor.out, testing::HasSubstr("'DELETE FROM learning'"));
    EXPECT_THAT(sandbox.autotune({"export"}).out, testing::Not(testing::HasSubstr("learning")));
}

TEST(TuneOnFake, WithoutLearningNothingIsLearned) {
    Sandbox sandbox;
    result_of(sandbox.autotune(with_words(kWide, {"--no-learning"})));
    EXPECT_TRUE(learned_in(sandbox).empty());
}

TEST(TuneOnFake, ATargetThatIsReachedEndsTheSearch) {
    Sandbox sandbox;
    const Json evidence = result_of(sandbox.autotune(with_words(kTune, {"--target", "1000ms"}))).at("evidence");
    EXPECT_EQ(evidence.at("stopped_by"), "target reached");
    EXPECT_EQ(evidence.at("tried"), 1);
}

TEST(TuneOnFake, WinnersOfNearShapesAndOfOtherDevicesAreTriedFirst) {
    Sandbox sandbox;
    const Json first = result_of(sandbox.autotune(kTune)).at("winner");
    std::vector<std::string> near = with_words(kTune, {"--trials", "1"});
    *std::find(near.begin(), near.end(), "256x256x256") = "256x512x256";
    EXPECT_EQ(result_of(sandbox.autotune(near)).at("winner").at("config"), first.at("config"));
    sandbox.script("device name=other sms=100\n");
    EXPECT_EQ(result_of(sandbox.autotune(with_words(kTune, {"--trials", "1"}))).at("winner").at("config"), first.at("config"));
}

// A copy of the product's templates.
std::filesystem::path copied_templates(const Sandbox& sandbox) {
    const std::filesystem::path templates = sandbox.folder() / "templates";
    std::filesystem::copy(std::filesystem::path(AUTOTUNE_TEST_DATA) / "../../kernel_templates", templates,
                          std::filesystem::copy_options::recursive);
    return templates;
}

// Changes the comment at the end of every line of the device texts below a folder, where a comment is possible.
void reword_comments(const std::filesystem::path& folder) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        if (entry.path().extension() != ".cuh") continue;
        std::ifstream file(entry.path());
        std::string text, line;
        while (std::getline(file, line)) {
            const std::size_t comment = line.find("//");
            const bool is_words = line.find('"') == std::string::npos && line != "// ---- end of parameters ----";
            if (comment != std::string::npos && is_words && !line.ends_with('\\')) line.resize(comment);
            if (!line.ends_with('\\') && line != "// ---- end of parameters ----") line += "  // other words";
            text += line + (line.ends_with('\\') ? "\n" : "\n\n");
        }
        file.close();
        std::ofstream(entry.path()) << text;
    }
}

TEST(TuneOnFake, RewordedCommentsKeepRowsAndCubinsAndAChangedConstantDoesNot) {
    Sandbox sandbox;
    const std::filesystem::path templates = copied_templates(sandbox);
    const test::Words folder = {"--templates", templates.string()};
    const test::Words tune = with_words(kTune, folder);
    const test::Words compile = with_words(
        with_pins({"compile", "--op", "hgemm", "--shape", "256x256x256", "--family", "gemm/simt", "--count", "1"}), folder);
    const test::Words explain = with_words({"explain", "--op", "hgemm", "--shape", "256x256x256"}, folder);
    const Json first = result_of(sandbox.autotune(tune));
    EXPECT_TRUE(first.at("tuned"));
    EXPECT_EQ(sandbox.autotune(compile).exit_code, 0);

    reword_comments(templates);
    sandbox.clear_calls();
    const Json reworded = result_of(sandbox.autotune(tune));
    EXPECT_FALSE(reworded.at("tuned"));
    EXPECT_EQ(reworded.at("origin"), "exact");
    EXPECT_EQ(reworded.at("winner").at("template_identity"), first.at("winner").at("template_identity"));
    EXPECT_EQ(sandbox.autotune(compile).exit_code, 0);
    EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 0);
    EXPECT_THAT(sandbox.autotune(explain).out, testing::Not(testing::HasSubstr("another version")));

    std::ofstream(templates / "gemm/simt/kernel.cuh", std::ios::app) << "constexpr int one_more = 1;\n";
    const Outcome why = sandbox.autotune(explain);
    EXPECT_THAT(why.out + why.err, testing::HasSubstr("it was tuned with another version of gemm/simt"));
    EXPECT_EQ(sandbox.autotune(compile).exit_code, 0);
    EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 1);
    EXPECT_TRUE(result_of(sandbox.autotune(tune)).at("tuned"));
}

// A database from before identities hashed code, modified by `change`.
void make_former_database(const Sandbox& sandbox, const char* change = "") {
    const std::filesystem::path folder = sandbox.folder() / "data/autotune";
    std::filesystem::create_directories(folder);
    db::Connection connection({.path = folder / "autotune.db"});
    db::migrate(connection, db::schema_version());
    connection.run(read_regular_file(AUTOTUNE_TEST_DATA "/db/former_rows.sql", 1 << 20).text.c_str());
    connection.run(change);
}

TEST(TuneOnFake, ADatabaseOfAnEarlierVersionAnswersOnceItIsRewritten) {
    Sandbox sandbox;
    make_former_database(sandbox);
    const Outcome first = sandbox.autotune({"tune", "--op", "hgemm", "--shape", "512x512x512", "--json"});
    const Json exact = result_of(first);
    EXPECT_FALSE(exact.at("tuned"));
    EXPECT_EQ(exact.at("origin"), "exact");
    EXPECT_EQ(exact.at("winner").at("family"), "gemm/wgmma_nonpersistent");
    EXPECT_THAT(first.err,
                testing::HasSubstr("has 3 winners and 9 trials of an earlier version, whose kernels are the same today; "
                                   "they are kept under today's names; what the file was before is in "));
    const Outcome narrowed =
        sandbox.autotune({"tune", "--op", "hgemm", "--shape", "256x256x256", "--family", "gemm/simt", "--json"});
    EXPECT_FALSE(result_of(narrowed).at("tuned"));
    EXPECT_EQ(narrowed.err, "");
    EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 0);
}

TEST(TuneOnFake, ARowOfAnEarlierVersionThatIsNotKnownIsListed) {
    Sandbox sandbox;
    make_former_database(sandbox, "UPDATE template SET identity = '00000000deadbeef' WHERE family = 'gemm/simt'");
    EXPECT_FALSE(result_of(sandbox.autotune({"tune", "--op", "hgemm", "--shape", "512x512x512", "--json"})).at("tuned"));
    EXPECT_THAT(sandbox.autotune({"show"}).out, testing::ContainsRegex("another[[:space:]]+version of this[[:space:]]+kernel"));
    const Outcome why = sandbox.autotune({"explain", "--op", "hgemm", "--shape", "256x256x256"});
    EXPECT_THAT(why.out + why.err, testing::HasSubstr("it was tuned with another version of gemm/simt"));
}

// After a change of its template a winner is the first candidate to try: it is not served, but there is no better guess.
TEST(TuneOnFake, AWinnerOfAnotherTextOfItsTemplateIsTriedFirst) {
    Sandbox sandbox;
    const std::filesystem::path templates = copied_templates(sandbox);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(templates)) {
        if (entry.path().filename() == "kernel.cuh") std::ofstream(entry.path(), std::ios::app) << "namespace another_text {}\n";
    }
    const Json first = result_of(sandbox.autotune(with_words(kTune, {"--templates", templates.string()}))).at("winner");
    const Json again = result_of(sandbox.autotune(with_words(kTune, {"--trials", "1"})));
    EXPECT_TRUE(again.at("tuned"));
    EXPECT_NE(again.at("winner").at("template_identity"), first.at("template_identity"));
    EXPECT_EQ(again.at("winner").at("config"), first.at("config"));
}

TEST(TuneOnFake, SaysWhereTheTimeWent) {
    Sandbox sandbox;
    const Json phases = result_of(sandbox.autotune(kTune)).at("phases");
    double sum_s = 0;
    for (const char* one : {"start_s", "setup_s", "search_s", "second_rung_s", "warm_s", "rounds_s", "neighbours_s"}) {
        EXPECT_GT(phases.at(one), 0) << one;
        sum_s += phases.at(one).get<double>();
    }
    EXPECT_LE(sum_s, phases.at("total_s"));
    EXPECT_GT(sum_s, 0.8 * phases.at("total_s").get<double>());
    EXPECT_GT(phases.at("first_verified_s"), phases.at("setup_s"));
}

// A product limited by the tensor cores, and one that takes two microseconds, with a slow compiler: only one, because many
// processors would have compiled all five before the card is ready.
TEST(TuneOnFake, TheCardStaysUnderLoadWhileNothingIsReady) {
    const auto phases_of = [](const std::string& shape) {
        Sandbox sandbox("nvrtc delay_ms=600\n");
        const test::Words words{"tune",     "--op",     "hgemm", "--shape", shape, "--family",
                                "gemm/mma", "--trials", "5",     "--jobs",  "1",   "--json"};
        return result_of(sandbox.autotune(words)).at("phases");
    };
    const Json large = phases_of("4096x4096x2048"), small = phases_of("256x256x256");
    EXPECT_GT(large.at("loaded_s"), 0.1);
    EXPECT_LE(large.at("loaded_s"), large.at("starved_s"));
    EXPECT_GT(small.at("starved_s"), 0.1);
    EXPECT_EQ(small.at("loaded_s"), 0);
}

// A candidate that is right when verified and timed, and kills the worker after 200 launches, which it reaches even on a busy
// machine. One slow compiler, as above: the first candidates compile before the card is ready, and without them there would be no
// load.
TEST(TuneOnFake, WhoDiesUnderThatLoadIsChargedAndDoesNotWin) {
    Sandbox sandbox("nvrtc delay_ms=600\nrule symbol=^gemm_mma_ block_m=128 from=200 do=crash how=kill\n");
    const Json result = result_of(sandbox.autotune({"tune", "--op", "hgemm", "--shape", "4096x4096x2048", "--family", "gemm/mma",
                                                    "--trials", "24", "--jobs", "1", "--json"}));
    EXPECT_GE(failures_of(result, "crashed"), 1);
    EXPECT_NE(result.at("winner").at("config").at("block_m"), 128);
}

TEST(TuneOnFake, ARecordedSpaceHasEveryPointAndReplays) {
    Sandbox sandbox("rule " + kCulprit + "do=return code=700\n");
    const std::string file = (sandbox.folder() / "space.json").string();
    const std::vector<std::string> record =
        with_pins({"record", "--op", "hgemm", "--shape", "256x256x256", "--family", "gemm/simt", "--out", file, "--json"},
                  {"--param", "block_m=64"});
    const Json recorded = result_of(sandbox.autotune(record));
    EXPECT_EQ(recorded.at("points"), 6);
    std::ifstream written(file);
    const std::string text((std::istreambuf_iterator<char>(written)), {});
    EXPECT_NE(text.find("crashed"), std::string::npos) << text;
    const Json replayed = result_of(sandbox.autotune({"simulate", file, "--strategy", "greedy", "--json"}));
    EXPECT_EQ(replayed.at("points"), 6);
    EXPECT_EQ(replayed.at("failed_points"), recorded.at("failed_points"));
    EXPECT_EQ(replayed.at("strategies").at(0).at("runs_solved_1pct"), 30);
}

TEST(TuneOnFake, TheDriverSeesNoMisuse) {
    Sandbox sandbox;
    result_of(sandbox.autotune(kTune));
    for (const std::string& call : sandbox.calls()) EXPECT_EQ(call.find("BUG"), std::string::npos) << call;
}

TEST(TuneOnFake, ACandidateThatCrashesCostsItselfAlone) {
    Sandbox sandbox("rule " + kCulprit + "do=return code=700\n");
    const Json result = result_of(sandbox.autotune(kTune));
    EXPECT_GE(failures_of(result, "crashed"), 1) << result.dump(2);
    EXPECT_TRUE(no_orphans_soon(sandbox));
}

TEST(TuneOnFake, ACandidateThatHangsIsKilledAndChargedTwice) {
    Sandbox sandbox("rule " + kCulprit + "do=hang seconds=60\n");
    const Outcome outcome = sandbox.autotune(kTune);
    const Json result = result_of(outcome);
    EXPECT_GE(failures_of(result, "timed_out"), 1) << result.dump(2);
    EXPECT_TRUE(no_orphans_soon(sandbox));
}

TEST(TuneOnFake, ABudgetThatEndsDuringAHangStillSaysWhatHung) {
    Sandbox sandbox("rule symbol=^gemm_simt_ do=hang seconds=60\n");
    std::vector<std::string> hasty = kTune;
    *std::find(hasty.begin(), hasty.end(), "20s") = "1s";
    const Outcome outcome = sandbox.autotune(hasty);
    EXPECT_EQ(outcome.exit_code, 4) << outcome.err << outcome.out;
    EXPECT_NE(outcome.err.find("timed_out"), std::string::npos) << outcome.err;
    EXPECT_TRUE(no_orphans_soon(sandbox));
}

TEST(TuneOnFake, AWrongAnswerDoesNotWin) {
    Sandbox sandbox("rule " + kCulprit + "do=wrong how=element\n");
    const Json result = result_of(sandbox.autotune(kTune));
    EXPECT_GE(failures_of(result, "wrong_result"), 1) << result.dump(2);
}

// Otherwise it would win with 0.010 us, the least time that the meter returns, and import would refuse the stored row.
TEST(TuneOnFake, AKernelThatSeemsToTakeNoTimeDoesNotWin) {
    Sandbox sandbox("rule " + kCulprit + "do=slow us=0\n");
    const Json result = result_of(sandbox.autotune(kTune));
    EXPECT_GE(result["winner"]["median_us"], 0.05) << result.dump(2);
    EXPECT_GE(failures_of(result, "rejected"), 1) << result.dump(2);
}

TEST(TuneOnFake, AWriteOutsideIsFound) {
    Sandbox sandbox("rule " + kCulprit + "do=out_of_bounds bytes=64\n");
    const Json result = result_of(sandbox.autotune(kTune));
    EXPECT_GE(failures_of(result, "wrong_result"), 1) << result.dump(2);
}

TEST(TuneOnFake, CompilersThatFailDieOrLoopCostACandidateEach) {
    Sandbox sandbox("rule on=compile " + kCulprit + "do=fail message=refused\n" +
                    "rule on=compile symbol=^gemm_simt_ thread_m=8 thread_n=4 do=crash how=segv\n");
    const Json result = result_of(sandbox.autotune(kTune));
    EXPECT_EQ(failures_of(result, "compile_failed"), 2) << result.dump(2);
}

TEST(TuneOnFake, EverythingWrongIsExitFourWithCounts) {
    Sandbox sandbox("rule symbol=^gemm_simt_ do=wrong how=garbage\n");
    const Outcome outcome = sandbox.autotune(kTune);
    EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
    EXPECT_NE((outcome.err + outcome.out).find("wrong_result"), std::string::npos) << outcome.err;
}

TEST(TuneOnFake, ADriverThatVanishesIsExitEight) {
    Sandbox sandbox("rule symbol=^gemm_simt_ nth=8 do=vanish code=999 persist=1\n");
    const Outcome outcome = sandbox.autotune(kTune);
    EXPECT_EQ(outcome.exit_code, 8) << outcome.err << outcome.out;
    EXPECT_TRUE(no_orphans_soon(sandbox));
}

TEST(TuneOnFake, KilledAtAnyMomentItResumesAndLeavesNobodyBehind) {
    Sandbox sandbox;
    int killed = 0;
    for (int attempt = 0; attempt < 6; ++attempt) {
        auto running = sandbox.start_autotune(kWide);
        std::this_thread::sleep_for(milliseconds(60 + 170 * attempt));
        running.signal(SIGKILL);
        killed += running.wait().signal == SIGKILL ? 1 : 0;
        EXPECT_TRUE(no_orphans_soon(sandbox));
    }
    EXPECT_GT(killed, 0);
    const Json result = result_of(sandbox.autotune(kWide));
    EXPECT_TRUE(result.at("winner").contains("config"));
}

TEST(TuneOnFake, AFailureOfAnEarlierRunIsNotTriedAgain) {
    Sandbox sandbox("rule " + kCulprit + "do=return code=700\n");
    result_of(sandbox.autotune(kTune));
    sandbox.script("");
    std::vector<std::string> again = kTune;
    again.push_back("--retune");
    // final rounds between close candidates use all the time that they are allowed
    *std::find(again.begin(), again.end(), "20s") = "6s";
    const Json second = result_of(sandbox.autotune(again));
    const Json& winner = second.at("winner").at("config");
    EXPECT_FALSE(winner.value("thread_m", 0) == 4 && winner.value("thread_n", 0) == 8);
    EXPECT_LT(second.at("evidence").at("tried"), 6);
}

TEST(TuneOnFake, InterruptedItKeepsWhatItHas) {
    Sandbox sandbox("nvrtc delay_ms=30\n");
    auto running = sandbox.start_autotune(kWide);
    std::this_thread::sleep_for(milliseconds(700));
    running.signal(SIGINT);
    const Outcome outcome = running.wait();
    EXPECT_EQ(outcome.exit_code, 130) << outcome.err;
    EXPECT_LT(outcome.wall_s, 6);
    EXPECT_TRUE(no_orphans_soon(sandbox));
}

TEST(TuneOnFake, ASweepKilledHalfWayTunesNothingTwice) {
    Sandbox sandbox("nvrtc delay_ms=5\n");
    const std::vector<std::string> sweep = with_pins(
        {"sweep", "--op", "hgemm", "--shapes", "256:768:256x256x256", "--family", "gemm/simt", "--budget", "6s", "--json"});
    {
        auto running = sandbox.start_autotune(sweep);
        std::this_thread::sleep_for(milliseconds(2500));
        running.signal(SIGKILL);
        running.wait();
    }
    const Outcome second = sandbox.autotune(sweep);
    EXPECT_EQ(second.exit_code, 0) << second.err << second.out;
    sandbox.clear_calls();
    const Outcome third = sandbox.autotune(sweep);
    EXPECT_EQ(third.exit_code, 0) << third.err;
    EXPECT_EQ(sandbox.count_calls("PrimaryCtxRetain"), 0);
}

}  // namespace
}  // namespace autotune::tune_fake_test
