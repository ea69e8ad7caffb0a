// The program with an op that has two outputs, one of them optional, on the scripted driver, which does not compute it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/fake/fake_run.h"

namespace autotune::softmax_fake_test {
namespace {

using fake::Outcome;
using fake::RunOptions;
using fake::Sandbox;
using nlohmann::json;
using testing::HasSubstr;

Outcome run(const Sandbox& machine, const std::vector<std::string>& words) {
    RunOptions options;
    options.timeout_s = 110;
    return machine.autotune(words, options);
}

// It is pinned to few configs, because the result does not depend on their number.
const std::vector<std::string> kTuneSoftmax = {
    "--op",    "softmax",     "--shape", "16384x2048",         "--dtype",  "f16",    "--lse", "yes", "--family", "softmax/rows",
    "--param", "threads=128", "--param", "threads_per_row=32", "--budget", "10s,6t", "--json"};

TEST(SoftmaxProduct, IsTunedVerifiedAndAnsweredFromTheDatabase) {
    const Sandbox machine;
    const Outcome tuned = run(machine, kTuneSoftmax);
    ASSERT_EQ(tuned.exit_code, 0) << tuned.err << tuned.out;
    const json first = json::parse(tuned.out);
    EXPECT_TRUE(first.at("tuned"));
    EXPECT_EQ(first.at("winner").at("family"), "softmax/rows");
    EXPECT_EQ(first.at("winner").at("config").at("threads_per_row"), 32);
    const Outcome again = run(machine, kTuneSoftmax);
    ASSERT_EQ(again.exit_code, 0) << again.err;
    EXPECT_FALSE(json::parse(again.out).at("tuned"));
    EXPECT_EQ(json::parse(again.out).at("winner").at("config"), first.at("winner").at("config"));
}

TEST(SoftmaxProduct, WantsRowsTimesColumns) {
    const Outcome refused = run(Sandbox(), {"--op", "softmax", "--shape", "4096"});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("RxC"));
}

TEST(SoftmaxProduct, HelpListsItsOptions) {
    const Outcome help = run(Sandbox(), {"tune", "--help"});
    EXPECT_EQ(help.exit_code, 0);
    for (const char* option : {"--lse", "--scale", "--ldx"}) EXPECT_THAT(help.out, HasSubstr(option));
}

}  // namespace
}  // namespace autotune::softmax_fake_test
