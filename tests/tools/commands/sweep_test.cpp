#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using State = tuner::SweepItem::State;

TEST(Sweep, TakesAFileWithWordsPerLine) {
    CliBench autotune;
    const std::string path = autotune.file("shapes.txt", "8x8x8\n16x16x16 op=bgemm layout=nt\n");
    const auto json = autotune({"sweep", "--op", "hgemm", "--shapes", path, "--json"}).json();
    const auto& items = json["items"];
    ASSERT_THAT(items, SizeIs(2));
    EXPECT_EQ(items[0]["problem"]["traits"]["a"], "f16");
    EXPECT_EQ(items[1]["problem"]["traits"]["a"], "bf16");
    EXPECT_EQ(items[1]["problem"]["traits"]["layout"], "nt");
    EXPECT_EQ(json["summary"]["tuned"], 2);
}

TEST(Sweep, TakesRanges) {
    CliBench autotune;
    EXPECT_THAT(autotune({"sweep", "--op", "hgemm", "--shapes", "8:32:8x8x8", "--json"}).json()["items"], SizeIs(4));
}

TEST(Sweep, ABadLineIsNamedBeforeAnythingIsTuned) {
    CliBench autotune;
    const std::string path = autotune.file("shapes.txt", "8x8x8\n8x8\n");
    const Said said = autotune({"sweep", "--op", "hgemm", "--shapes", path});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, HasSubstr("shapes.txt:2"));
}

TEST(Sweep, SomeFailedIsExit7) {
    CliBench autotune;
    autotune.services.sweep_states = {State::tuned, State::failed};
    const Said said = autotune({"sweep", "--op", "hgemm", "--shapes", "8,16x8x8"});
    EXPECT_EQ(said.code, ExitCode::some_failed);
    EXPECT_THAT(said.out, HasSubstr("1 failed"));
}

TEST(Sweep, InterruptedIsExit130AndSaysHowManyAreLeft) {
    CliBench autotune;
    autotune.services.sweep_states = {State::tuned, State::interrupted, State::interrupted};
    const Said said = autotune({"sweep", "--op", "hgemm", "--shapes", "8,16,24x8x8"});
    EXPECT_EQ(said.code, ExitCode::interrupted);
    EXPECT_THAT(said.err, AllOf(HasSubstr("1 winners are kept"), HasSubstr("other 2")));
}

// Each problem takes its budget plus its blocks, and a problem that began before the end is finished.
TEST(Sweep, ADryRunSaysHowLongItTakesAtMost) {
    CliBench autotune;
    const std::vector<std::string> line{"sweep",    "--op", "hgemm",     "--shapes", "8,16,24x8x8",
                                        "--budget", "10s",  "--dry-run", "--json"};
    EXPECT_DOUBLE_EQ(autotune(line).json()["seconds_at_most"].get<double>(), 33.6);
    std::vector<std::string> limited = line;
    limited.insert(limited.end(), {"--total-budget", "20s"});
    EXPECT_DOUBLE_EQ(autotune(limited).json()["seconds_at_most"].get<double>(), 31.2);
}

TEST(Sweep, BudgetsReachTheTuner) {
    CliBench autotune;
    autotune({"sweep", "--op", "hgemm", "--shapes", "8x8x8", "--budget", "3s", "--total-budget", "2m"});
    EXPECT_DOUBLE_EQ(autotune.services.sweep_options.each.budget.seconds, 3);
    EXPECT_DOUBLE_EQ(autotune.services.sweep_options.total_seconds, 120);
}

TEST(Sweep, ProgressIsForTerminalsOnly) {
    CliBench autotune;
    EXPECT_EQ(autotune({"sweep", "--op", "hgemm", "--shapes", "8x8x8"}).err, "");
    autotune.terminal = true;
    EXPECT_THAT(autotune({"sweep", "--op", "hgemm", "--shapes", "8x8x8"}).err, HasSubstr("1/1"));
}

}  // namespace
}  // namespace autotune::cli
