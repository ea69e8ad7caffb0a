// The program itself, started as from a shell, on a scripted driver and compiler: all parts together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "tests/support/fake/fake_run.h"

namespace autotune::product_fake_test {
namespace {

using fake::Outcome;
using fake::RunOptions;
using fake::Sandbox;
using fake::Use;
using nlohmann::json;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

// It is small enough for the scripted driver to compute every result, and has few trials, so that a tune takes seconds.
const std::vector<std::string> kTune = {"--op", "hgemm", "--shape", "128x128x64", "--family", "gemm/simt", "--budget", "5s,4t"};
const std::vector<std::string> kAsk = {"--op", "hgemm", "--shape", "128x128x64"};
// For tests that need a winner and run several commands with it.
const std::vector<std::string> kSmallTune = {"--op",     "hgemm",     "--shape",  "64x64x32",
                                             "--family", "gemm/simt", "--budget", "4s,4t"};
const std::vector<std::string> kSmallAsk = {"--op", "hgemm", "--shape", "64x64x32"};

std::vector<std::string> plus(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// A loaded machine runs these twenty times slower than an idle one; only a hang should reach the limit.
constexpr double kPatience_s = 110;

Outcome run(const Sandbox& machine, const std::vector<std::string>& words, RunOptions options = {}) {
    options.timeout_s = kPatience_s;
    return machine.autotune(words, options);
}

int winners_in(const Sandbox& machine) {
    const Outcome shown = run(machine, {"show", "--json"});
    return shown.exit_code == 0 ? json::parse(shown.out)["total"].get<int>() : -1;
}

// The log has entries of the command and of its workers, which may not write files, with one line per entry.
TEST(Product, LogsWhatItsWorkersDo) {
    Sandbox machine;
    const std::string file = machine.folder() / "log";
    const Outcome done = run(machine, plus(kSmallTune, {"--log-level", "trace", "--log-file", file}));
    ASSERT_EQ(done.exit_code, 0) << done.err;
    EXPECT_EQ(done.err, "");
    std::ifstream in(file);
    std::string whole;
    for (std::string line; std::getline(in, line); whole += line + "\n") {
        EXPECT_THAT(line,
                    testing::ContainsRegex("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z (trace|debug|info|warning|error) +[A-Za-z]+"));
    }
    EXPECT_THAT(whole, testing::ContainsRegex("info +autotune: 0[.][0-9.]+, command tune\n"));
    EXPECT_THAT(whole, testing::ContainsRegex("debug +GPU worker [0-9]+: has a context on "));
    EXPECT_THAT(whole, testing::ContainsRegex("trace +GPU worker [0-9]+: open slot [0-9]+: ok, "));
    EXPECT_THAT(whole, testing::ContainsRegex("debug +compile worker [0-9]+: gemm_simt_[0-9a-f]+: [0-9]+ bytes of cubin\n"));
    EXPECT_THAT(whole, testing::ContainsRegex("debug +tune: gemm/simt .*: ok, [0-9.]+ us"));
    EXPECT_THAT(whole, testing::ContainsRegex("info +tune: winner gemm/simt "));
    EXPECT_THAT(whole, testing::ContainsRegex("info +autotune: exit code 0\n$"));
}

// The operand on wgmma's N side must lie along K: if neither A nor B does, one is transposed first, and rows that are not aligned
// are copied. C is small, because the scripted driver computes it for every set of buffers.
TEST(Product, VerifiesProductsWhoseOperandsAreArrangedFirst) {
    const std::vector<std::vector<std::string>> cases = {
        {"--op", "tf32gemm", "--layout", "tn", "--family", "gemm/wgmma_tf32"},
        {"--op", "sgemm_tc", "--layout", "nn", "--align", "4", "--family", "gemm/wgmma_tf32x3"}};
    for (const std::vector<std::string>& words : cases) {
        Sandbox machine;
        const Outcome timed = run(machine, plus({"bench", "--shape", "9x10x276", "--rounds", "3", "--burst", "--json"}, words));
        ASSERT_EQ(timed.exit_code, 0) << timed.err;
        for (const json& row : json::parse(timed.out)["rows"]) EXPECT_EQ(row["status"], "ok") << row;
    }
}

TEST(Product, TunesVerifiesAndRemembers) {
    Sandbox machine;
    const Outcome first = run(machine, plus(kTune, {"--json"}));
    ASSERT_EQ(first.exit_code, 0) << first.err;
    const json said = json::parse(first.out);
    EXPECT_EQ(said["tuned"], true);
    EXPECT_EQ(said["origin"], "exact");
    EXPECT_GT(said["winner"]["median_us"].get<double>(), 0);
    EXPECT_LE(said["evidence"]["max_error"].get<double>(), 1);
    EXPECT_EQ(winners_in(machine), 1);
}

TEST(Product, AnswersTheSecondTimeWithoutContextOrCompiler) {
    Sandbox machine;
    ASSERT_EQ(run(machine, plus(kAsk, {"--budget", "8s,3t"})).exit_code, 0);
    machine.clear_calls();
    const Outcome second = run(machine, plus(kAsk, {"--json"}));
    ASSERT_EQ(second.exit_code, 0) << second.err;
    EXPECT_EQ(json::parse(second.out)["origin"], "exact");
    EXPECT_EQ(json::parse(second.out)["tuned"], false);
    EXPECT_EQ(machine.count_calls("nvrtcCompileProgram"), 0);
    EXPECT_EQ(machine.count_calls("cuDevicePrimaryCtxRetain"), 0);
    EXPECT_EQ(machine.count_calls("cuCtxCreate"), 0);
    EXPECT_EQ(machine.count_calls("execute"), 0);
}

TEST(Product, ACandidateThatCrashesCostsOnlyItself) {
    Sandbox machine("rule symbol=^gemm_ nth=1 once do=return code=700\n");
    const Outcome tuned = run(machine, plus(kTune, {"--json"}));
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err;
    EXPECT_GT(json::parse(tuned.out)["winner"]["median_us"].get<double>(), 0);
}

TEST(Product, WhenEveryAnswerIsWrongThereIsNoWinner) {
    Sandbox machine("rule family=simt do=wrong how=garbage\n");
    const Outcome tuned = run(machine, kTune);
    EXPECT_EQ(tuned.exit_code, 4) << tuned.err;
    EXPECT_THAT(tuned.err, HasSubstr("wrong"));
    EXPECT_EQ(winners_in(machine), 0);
}

TEST(Product, AStubDriverIsExit3) {
    Sandbox machine("driver init=34\n");
    const Outcome tuned = run(machine, kTune);
    EXPECT_EQ(tuned.exit_code, 3);
    EXPECT_EQ(run(machine, {"doctor"}).exit_code, 3);
    EXPECT_EQ(run(machine, {"show"}).exit_code, 0) << "the database needs no GPU";
}

TEST(Product, ADriverThatVanishesEndsWithItsCodeAndKeepsTheDatabase) {
    Sandbox machine("rule symbol=^gemm_simt from=2 do=vanish code=999 persist=1\n");
    const Outcome tuned = run(machine, kTune);
    EXPECT_THAT(tuned.exit_code, AnyOf(3, 8)) << tuned.err;
    machine.script("");
    EXPECT_EQ(run(machine, {"verify", "--database-only"}).exit_code, 0);
}

TEST(Product, WithoutADriverItCompilesForRealAndTimesNothing) {
    Sandbox machine;
    RunOptions options;
    options.driver = Use::none;
    options.nvrtc = Use::real;
    options.nvml = Use::none;
    // One kernel only: next to other tests the compile workers, which have low priority, get a tenth of a core.
    const std::vector<std::string> ask = {"--op",   "hgemm",    "--shape",   "256x256x256", "--arch",  "sm_80",
                                          "--json", "--family", "gemm/simt", "--config",    "sliced_k"};
    const Outcome said = run(machine, ask, options);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const json answer = json::parse(said.out);
    EXPECT_EQ(answer["timed"], false);
    EXPECT_EQ(answer["arch"], "sm_80");
    ASSERT_FALSE(answer["candidates"].empty());
    EXPECT_GT(answer["candidates"][0]["registers"].get<int>(), 0);
    EXPECT_EQ(json::parse(run(machine, ask, options).out)["candidates"][0]["from_cache"], true);
}

TEST(Product, ARankedListHasEachInstanceOnce) {
    Sandbox machine;
    const Outcome said = run(machine, {"compile", "--op", "hgemm", "--shape", "4096x4096x2048", "--arch", "sm_80", "--family",
                                       "gemm/mma", "--count", "12", "--json"});
    ASSERT_EQ(said.exit_code, 0) << said.err;
    std::set<std::string> instances;
    const json rows = json::parse(said.out)["candidates"];
    for (const json& row : rows) {
        json config = row["config"];
        for (const char* passed_at_launch : {"split_k", "raster", "swizzle_stride"}) config.erase(passed_at_launch);
        instances.insert(config.dump());
    }
    EXPECT_EQ(rows.size(), 12U);
    EXPECT_EQ(instances.size(), 12U);
}

TEST(Product, WithoutADriverWhatTimesIsExit3) {
    Sandbox machine;
    RunOptions options;
    options.driver = Use::none;
    EXPECT_EQ(run(machine, plus({"bench"}, kAsk), options).exit_code, 3);
    EXPECT_EQ(run(machine, {"verify"}, options).exit_code, 3);
    EXPECT_EQ(run(machine, plus(kAsk, {"--require-gpu"}), options).exit_code, 3);
}

TEST(Product, ControlCKeepsWhatWasMeasuredAndTheSameCommandGoesOn) {
    Sandbox machine("rule symbol=^gemm_simt from=3 do=hang seconds=0.2\n");
    fake::Running running = machine.start_autotune(
        {"--op", "hgemm", "--shape", "128x128x64", "--family", "gemm/simt", "--budget", "100s", "--retune"});
    for (int i = 0; i < 1200 && machine.count_calls("execute gemm_simt") < 4; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    running.signal(SIGINT);
    const Outcome stopped = running.wait();
    EXPECT_EQ(stopped.exit_code, 130) << stopped.out << stopped.err;
    EXPECT_THAT(stopped.err, HasSubstr("again"));
    machine.script("");
    EXPECT_EQ(run(machine, {"verify", "--database-only"}).exit_code, 0);
    EXPECT_EQ(run(machine, kTune).exit_code, 0);
}

TEST(Product, TheTieGapSaysFromWhichLeadTheFasterOneWins) {
    Sandbox machine;
    const auto decided_by = [&](const char* percent) {
        const Outcome said = run(machine, plus(kTune, {"--retune", "--json", "--tie-gap", percent}));
        EXPECT_EQ(said.exit_code, 0) << said.err;
        return json::parse(said.out)["evidence"]["decided_by"].get<std::string>();
    };
    EXPECT_EQ(decided_by("0.001"), "faster");
    EXPECT_EQ(decided_by("100000"), "tie: previous winner");
}

TEST(Product, ASweepThatIsKilledGoesOnWithoutTuningTwice) {
    Sandbox machine;
    const std::vector<std::string> sweep = {"sweep",    "--op",      "hgemm",    "--shapes", "16,32,48,64x32x32",
                                            "--family", "gemm/simt", "--trials", "3",        "--json"};
    fake::Running running = machine.start_autotune(sweep);
    for (int i = 0; i < 1200 && winners_in(machine) < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    running.signal(SIGKILL);
    running.wait();
    const int kept = winners_in(machine);
    ASSERT_GE(kept, 2);
    const Outcome resumed = run(machine, sweep);
    ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
    const json summary = json::parse(resumed.out)["summary"];
    EXPECT_EQ(summary["fresh"], kept);
    EXPECT_EQ(summary["tuned"], 4 - kept);
    EXPECT_EQ(winners_in(machine), 4);
}

TEST(Product, BenchPutsTheWinnerBesideANamedConfig) {
    Sandbox machine;
    ASSERT_EQ(run(machine, plus(kAsk, {"--budget", "8s,3t"})).exit_code, 0);
    const Outcome said = run(machine, plus({"bench"}, plus(kAsk, {"--json", "--rounds", "5", "--burst"})));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const json rows = json::parse(said.out)["rows"];
    ASSERT_FALSE(rows.empty());
    EXPECT_TRUE(rows[0].contains("median_us"));
    EXPECT_TRUE(rows[0].contains("tflops"));
}

TEST(Product, BenchUntunedPutsTheLibrarysChoiceBesideTheWinnerAndARival) {
    Sandbox machine;
    ASSERT_EQ(run(machine, plus(kSmallAsk, {"--budget", "8s,3t"})).exit_code, 0);
    const Outcome said = run(
        machine, plus({"bench", "--untuned", "--against", "cublas"}, plus(kSmallAsk, {"--json", "--rounds", "3", "--burst"})));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const json table = json::parse(said.out);
    ASSERT_EQ(table["rows"].size(), 3u);
    EXPECT_EQ(table["rows"][0]["name"], "winner");
    EXPECT_EQ(table["rows"][1]["name"], "untuned");
    EXPECT_EQ(table["rows"][2]["name"], "cublas");
    EXPECT_EQ(table["untuned"]["config"], table["rows"][1]["config"]);
    EXPECT_TRUE(table["untuned"]["regret"].is_number());
}

// The best of one family is not the problem's winner: it is stored in a row of its own, and served to requests for that family.
TEST(Product, ANarrowedTuneLeavesTheWinnerOfTheProblemAlone) {
    Sandbox machine;
    const json narrowed = json::parse(run(machine, plus(kSmallTune, {"--json"})).out);
    EXPECT_EQ(narrowed["winner"]["restricted_to"], "family=gemm/simt");
    const json again = json::parse(run(machine, plus(kSmallTune, {"--json"})).out);
    EXPECT_EQ(again["tuned"], false);
    EXPECT_EQ(again["winner"]["restricted_to"], "family=gemm/simt");
    const json whole = json::parse(run(machine, plus(kSmallAsk, {"--budget", "8s,3t", "--json"})).out);
    EXPECT_EQ(whole["tuned"], true);
    EXPECT_TRUE(whole["winner"]["restricted_to"].is_null());
    EXPECT_EQ(winners_in(machine), 2);
    const json told = json::parse(run(machine, plus({"explain", "--json"}, kSmallAsk)).out);
    EXPECT_TRUE(told["winner"]["restricted_to"].is_null());
    EXPECT_EQ(told["winner"]["config"], whole["winner"]["config"]);
}

TEST(Product, BenchNamedGoesFromThePlainestFamilyToTheWinnerAndTheRivals) {
    Sandbox machine;
    ASSERT_EQ(run(machine, plus(kTune, {"--family", "mma"})).exit_code, 0);
    const Outcome said =
        run(machine, plus({"bench", "--named", "--racers", "2", "--against", "cublas"},
                          plus(kAsk, {"--family", "simt", "--family", "mma", "--json", "--rounds", "3", "--burst"})));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const json table = json::parse(said.out);
    const json& rows = table["rows"];
    ASSERT_GT(rows.size(), 4u);
    EXPECT_EQ(table["surveyed"], rows.size() - 2);
    EXPECT_EQ(table["first"], "winner");
    EXPECT_EQ(rows[0]["family"], "gemm/simt");
    EXPECT_EQ(rows[rows.size() - 3]["family"], "gemm/mma");
    EXPECT_EQ(rows[rows.size() - 2]["name"], "winner");
    EXPECT_EQ(rows[rows.size() - 1]["name"], "cublas");
    EXPECT_EQ(rows[0]["sample_values"].size(), 2u);
    const auto interleaved = std::count_if(rows.begin(), rows.end(), [](const json& row) { return row["measured"] == "rounds"; });
    EXPECT_LE(interleaved, 3) << "two racers and the winner";
}

TEST(Product, BenchOfTheWinnerOnlyHasNoDefaults) {
    Sandbox machine;
    ASSERT_EQ(run(machine, plus(kTune, {"--family", "mma"})).exit_code, 0);
    const Outcome said = run(machine, plus({"bench", "--winner-only", "--against", "cublas", "--rounds", "3", "--burst"},
                                           plus(kAsk, {"--family", "simt", "--family", "mma", "--json"})));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const json rows = json::parse(said.out)["rows"];
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(rows[0]["name"], "winner");
    EXPECT_EQ(rows[1]["name"], "cublas");
}

TEST(Product, BestOfFamilySurveysAllOnceAndThenThreeOfEachFamily) {
    Sandbox machine;
    const Outcome said = run(machine, {"bench", "--op", "hgemm", "--shape", "64x64x32", "--shape", "64x64x16", "--family", "simt",
                                       "--best-of-family", "--json", "--rounds", "3", "--burst"});
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const json tables = json::parse(said.out);
    ASSERT_EQ(tables.size(), 2u);
    EXPECT_GT(tables[0]["surveyed"], 3);
    EXPECT_EQ(tables[1]["surveyed"], 3);
    for (const json& table : tables) EXPECT_EQ(table["rows"].size(), 1u);
}

TEST(Product, ANamedConfigThatIsWrongStandsInTheTableWithItsReason) {
    Sandbox machine("rule family=simt thread_m=4 do=wrong how=element\n");
    const Outcome said = run(machine, {"bench", "--op", "hgemm", "--shape", "64x64x32", "--family", "simt", "--named", "--racers",
                                       "2", "--json", "--rounds", "3", "--burst"});
    EXPECT_EQ(said.exit_code, 6) << said.err;
    const json table = json::parse(said.out);
    int wrong = 0;
    for (const json& row : table["rows"]) {
        if (row["status"] != "wrong_result") continue;
        ++wrong;
        EXPECT_TRUE(row["median_us"].is_null());
        EXPECT_THAT(row["detail"].get<std::string>(), HasSubstr("wrong, the first at"));
    }
    EXPECT_GT(wrong, 0);
}

TEST(Product, VerifyRunsStoredWinnersAgain) {
    Sandbox machine;
    ASSERT_EQ(run(machine, kTune).exit_code, 0);
    EXPECT_EQ(run(machine, {"verify"}).exit_code, 0);
    machine.script("rule family=simt do=wrong how=element\n");
    EXPECT_EQ(run(machine, {"verify"}).exit_code, 6);
}

// The next problem compiles while this problem is on the GPU.
TEST(Product, ASweepsNextProblemFailsAloneWhenItsReferenceDoesNotCompile) {
    Sandbox machine("rule on=compile a_type=bf16 do=fail message=\"error: no\"\n");
    const std::string shapes = (machine.folder() / "shapes.txt").string();
    std::ofstream(shapes) << "64x64x32 op=hgemm\n64x64x32 op=bgemm\n96x64x32 op=hgemm\n";
    const Outcome swept = run(machine, {"sweep", "--shapes", shapes, "--family", "gemm/simt", "--budget", "4s,3t", "--json"});
    EXPECT_EQ(winners_in(machine), 2) << swept.out << swept.err;
    EXPECT_THAT(swept.out, HasSubstr("error: no"));
}

TEST(Product, VerifyGoesOnAfterAWinnerThatIsWrong) {
    Sandbox machine;
    const std::vector<std::string> two = {"sweep",    "--op",     "hgemm",     "--shape",  "64x64x32", "--shape",
                                          "64x63x31", "--family", "gemm/simt", "--budget", "4s,3t"};
    ASSERT_EQ(run(machine, two).exit_code, 0);
    machine.script("rule family=simt align_b=2 do=wrong how=element\n");
    const Outcome verified = run(machine, {"verify", "--json"});
    EXPECT_EQ(verified.exit_code, 6);
    const json rows = json::parse(verified.out)["rows"];
    ASSERT_EQ(rows.size(), 2) << verified.out;
    for (const json& row : rows) EXPECT_EQ(row["verdict"], row["shape"] == "64x64x32" ? "right" : "wrong_result") << row;
}

// A rule of the script that applies only to a winner's instance.
std::string rule_for(const json& winner, const std::string& what) {
    std::string rule = "rule family=simt";
    for (const auto& [name, value] : winner["config"].items()) rule += " " + name + "=" + value.dump();
    return rule + " " + what + "\n";
}

json explained(const Sandbox& machine) {
    return json::parse(run(machine, plus({"explain", "--json"}, kSmallAsk)).out);
}

TEST(Product, AnotherDriverMakesAWinnerStaleUntilVerifyHasRacedItAgain) {
    Sandbox machine;
    ASSERT_EQ(run(machine, kSmallTune).exit_code, 0);
    EXPECT_EQ(explained(machine)["stale"], false);
    machine.script("nvml driver=590.9\n");
    EXPECT_EQ(explained(machine)["stale"], true);
    const Outcome raced = run(machine, {"verify", "--rounds", "5", "--json"});
    ASSERT_EQ(raced.exit_code, 0) << raced.err;
    EXPECT_EQ(json::parse(raced.out)["rows"].back()["verdict"], "confirmed") << raced.out;
    EXPECT_EQ(explained(machine)["stale"], false);
    EXPECT_EQ(explained(machine)["winner"]["provenance"]["driver"], "590.9");
}

TEST(Product, AWinnerThatANewDriverMakesSlowIsDemotedForAnother) {
    Sandbox machine;
    ASSERT_EQ(run(machine, kSmallTune).exit_code, 0);
    const json before = explained(machine)["winner"];
    machine.script("nvml driver=590.9\n" + rule_for(before, "do=slow factor=5"));
    const Outcome raced = run(machine, {"verify", "--rounds", "5", "--json"});
    ASSERT_EQ(raced.exit_code, 0) << raced.err;
    const json said = json::parse(raced.out)["rows"];
    ASSERT_EQ(said.size(), 2u) << raced.out;
    EXPECT_EQ(said[0]["verdict"], "demoted");
    EXPECT_EQ(said[1]["verdict"], "promoted");
    EXPECT_NE(explained(machine)["winner"]["config"], before["config"]);
}

TEST(Product, AWinnerThatANewDriverMakesWrongIsDemotedWithItsReason) {
    Sandbox machine;
    ASSERT_EQ(run(machine, kSmallTune).exit_code, 0);
    const json before = explained(machine)["winner"];
    machine.script("nvml driver=590.9\n" + rule_for(before, "do=wrong how=element"));
    const json said = json::parse(run(machine, {"verify", "--rounds", "5", "--json"}).out)["rows"];
    ASSERT_EQ(said.size(), 2u);
    EXPECT_EQ(said[0]["verdict"], "demoted");
    EXPECT_THAT(said[0]["detail"].get<std::string>(), HasSubstr("wrong_result"));
    EXPECT_NE(explained(machine)["winner"]["config"], before["config"]);
}

TEST(Product, AReportOfATuneIsOnePage) {
    Sandbox machine;
    ASSERT_EQ(run(machine, kSmallTune).exit_code, 0);
    const std::string path = (machine.folder() / "report.html").string();
    const Outcome said = run(machine, {"report", "--html", path});
    ASSERT_EQ(said.exit_code, 0) << said.err;
    std::ifstream file(path);
    const std::string page((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(page, AllOf(HasSubstr("Search progress"), HasSubstr("Final rounds"), Not(HasSubstr("<script"))));
}

TEST(Product, ADatabaseThatIsNoDatabaseIsExit5BeforeAnyGpuWork) {
    Sandbox machine;
    const std::string path = (machine.folder() / "notes.db").string();
    std::ofstream(path) << std::string(5000, 'n');
    const Outcome said = run(machine, plus(kTune, {"--db", path}));
    EXPECT_EQ(said.exit_code, 5);
    EXPECT_THAT(said.err, HasSubstr("notes.db"));
    EXPECT_EQ(machine.count_calls("cuDevicePrimaryCtxRetain"), 0);
}

TEST(Product, TheVariableMayNameADatabaseThatIsYetToBeMade) {
    Sandbox machine;
    const std::string later = (machine.folder() / "later.db").string();
    RunOptions options;
    options.environment = {{"AUTOTUNE_DB", later}};
    EXPECT_EQ(run(machine, {"show"}, options).exit_code, 0);
    const Outcome named = run(machine, {"show", "--db", later});
    EXPECT_EQ(named.exit_code, 5);
    EXPECT_THAT(named.err, HasSubstr("later.db does not exist; tune or import something first"));
}

TEST(Product, WithoutHomeDoctorSaysWhereThingsGo) {
    Sandbox machine;
    RunOptions options;
    options.environment = {{"HOME", ""},           {"XDG_DATA_HOME", ""}, {"XDG_CACHE_HOME", ""},
                           {"XDG_STATE_HOME", ""}, {"AUTOTUNE_DB", ""},   {"AUTOTUNE_CACHE_DIR", ""}};
    EXPECT_THAT(run(machine, {"doctor"}, options).out, AllOf(HasSubstr("HOME is not set"), HasSubstr("/tmp/autotune-")));
}

TEST(Product, ProgressStaysOffAPipe) {
    Sandbox machine;
    const Outcome said = run(machine, kTune);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_THAT(said.err, Not(HasSubstr("\r")));
    EXPECT_THAT(said.out, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace autotune::product_fake_test
