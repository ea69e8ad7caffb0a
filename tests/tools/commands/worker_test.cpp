#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"
#include "tools/cli/input/instant.h"

namespace autotune::cli::worker_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::int64_t seconds_of(const std::string& text) {
    const auto since = parse_instant(text, "--until").time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

TEST(Instant, IsAMomentWithItsTimeZone) {
    EXPECT_EQ(seconds_of("1970-01-01T00:00:00Z"), 0);
    EXPECT_EQ(seconds_of("2026-11-28T20:05:00Z"), 1795896300);
    EXPECT_EQ(seconds_of("2026-11-28t21:35:00.25+01:30"), 1795896300);
    EXPECT_EQ(seconds_of("2026-11-28 15:05:00-05:00"), 1795896300);
}

TEST(Instant, OthersAreRefused) {
    for (const char* text : {"", "tomorrow", "2026-11-28", "2026-11-28T20:05:00", "2026-11-28T20:05Z", "2026-02-30T00:00:00Z",
                             "2026-13-01T00:00:00Z", "2026-11-28T24:00:00Z", "2026-11-28T20:60:00Z", "2026-11-28T20:05:00+25:00",
                             "2026-11-28T20:05:00.Z", "2026-11-28T20:05:00Zulu", "1795896300", "٢٠٢٦-11-28T20:05:00Z"}) {
        EXPECT_THAT([&] { parse_instant(text, "--until"); },
                    ThrowsMessage<Error>(
                        std::string("--until is a moment with its time zone such as 2026-11-28T20:05:00Z, not '") + text + "'"))
            << text;
    }
}

TEST(Worker, RefusesWhatCannotBeMeantBeforeItLooksForAGpu) {
    CliBench autotune;
    autotune.services.has_driver = false;
    const auto said = [&](std::vector<std::string> words) {
        words.insert(words.begin(), "worker");
        const Said answer = autotune(words);
        EXPECT_EQ(answer.code, ExitCode::usage);
        return answer.err;
    };
    EXPECT_THAT(said({"--idle", "soon"}), HasSubstr("--idle (30s, 5m; 0: do not look)"));
    EXPECT_THAT(said({"--idle", "-3s"}), HasSubstr("--idle"));
    EXPECT_THAT(said({"--exit-when-idle", "0"}), HasSubstr("--exit-when-idle"));
    EXPECT_THAT(said({"--budget", "soon"}), HasSubstr("soon"));
    EXPECT_THAT(said({"--until", "20:05"}), HasSubstr("--until is a moment with its time zone"));
    EXPECT_THAT(said({"--until", "2026-11-28T20:05:00Z", "--budget", "200t"}),
                HasSubstr("--until needs a time in --budget, such as 10s: a count of trials may take any time"));
    EXPECT_THAT(said({"once"}), HasSubstr("once"));
}

TEST(Worker, NeedsAGpuNvmlAndAPlaceForWinners) {
    CliBench autotune;
    autotune.services.has_driver = false;
    EXPECT_EQ(autotune({"worker"}).code, ExitCode::no_gpu);
    autotune.services.has_driver = true;
    autotune.services.no_nvml = "libnvidia-ml.so.1 is missing";
    Said said = autotune({"worker"});
    EXPECT_EQ(said.code, ExitCode::no_gpu);
    EXPECT_THAT(said.err,
                HasSubstr("autotune worker sees by NVML whether a GPU is idle, and it cannot be used: libnvidia-ml.so.1 is "
                          "missing; --idle 0 takes GPUs as they are\n"));
    EXPECT_EQ(autotune({"worker", "--idle", "0"}).code, ExitCode::done);
    autotune.services.no_nvml.clear();
    said = autotune({"worker", "--db", ""});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, HasSubstr("--db is empty; give FILE"));
    EXPECT_EQ(autotune({"worker", "--db", "/dev/null/a.db"}).code, ExitCode::database);
}

TEST(Worker, SearchesForTenSecondsUnlessItIsTold) {
    CliBench autotune;
    EXPECT_EQ(autotune({"worker"}).code, ExitCode::done);
    EXPECT_DOUBLE_EQ(autotune.services.worker_each.budget.seconds, 10);
    EXPECT_EQ(autotune({"worker", "--budget", "3s,50t"}).out, "0 tuned, 0 tuned before, 0 failed, 0 given back\n");
    EXPECT_DOUBLE_EQ(autotune.services.worker_each.budget.seconds, 3);
    EXPECT_EQ(autotune.services.worker_each.budget.trials, 50);
    EXPECT_EQ(autotune({"worker", "--json"}).out, "{\"summary\":{\"tuned\":0,\"fresh\":0,\"failed\":0,\"given_back\":0}}\n");
}

}  // namespace
}  // namespace autotune::cli::worker_test
