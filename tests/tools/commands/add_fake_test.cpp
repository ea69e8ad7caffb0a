// The program with an op that is not a gemm, on the scripted driver: no code between the shell and the kernels may depend on the
// op.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/fake/fake_run.h"

namespace autotune::add_fake_test {
namespace {

using fake::Outcome;
using fake::RunOptions;
using fake::Sandbox;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kPatience_s = 110;

Outcome run(const Sandbox& machine, const std::vector<std::string>& words) {
    RunOptions options;
    options.timeout_s = kPatience_s;
    return machine.autotune(words, options);
}

json json_of(const Outcome& outcome) {
    return json::parse(outcome.out, nullptr, false);
}

// A machine that has tuned the length 1048576 once.
class AddProduct : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        machine_ = new Sandbox;
        tuned_ = new Outcome(run(*machine_, {"--op", "add", "--shape", "1048576", "--budget", "10s,6t", "--json"}));
    }
    static void TearDownTestSuite() {
        delete tuned_;
        delete machine_;
    }
    void SetUp() override { ASSERT_EQ(tuned_->exit_code, 0) << tuned_->err; }

    static Sandbox* machine_;
    static Outcome* tuned_;
};
Sandbox* AddProduct::machine_ = nullptr;
Outcome* AddProduct::tuned_ = nullptr;

TEST_F(AddProduct, TunesAndTellsARateInBytes) {
    const json said = json_of(*tuned_);
    EXPECT_EQ(said["tuned"], true);
    EXPECT_EQ(said["origin"], "exact");
    EXPECT_GT(said["winner"]["gb_per_s"].get<double>(), 0);
    EXPECT_LE(said["evidence"]["max_error"].get<double>(), 1);
}

TEST_F(AddProduct, RecallsTheLengthAndTheMatrixOfAsManyElements) {
    for (const char* shape : {"1048576", "1024x1024"}) {
        const json said = json_of(run(*machine_, {"--op", "sadd", "--shape", shape, "--json"}));
        EXPECT_EQ(said["tuned"], false) << shape;
        EXPECT_EQ(said["origin"], "exact") << shape;
    }
}

TEST_F(AddProduct, ShowsAndExplainsIt) {
    EXPECT_EQ(json_of(run(*machine_, {"show", "--op", "add", "--json"}))["total"], 1);
    const Outcome told = run(*machine_, {"explain", "--op", "add", "--shape", "1048576", "--full"});
    ASSERT_EQ(told.exit_code, 0) << told.err;
    EXPECT_THAT(told.out, AllOf(HasSubstr("GB/s"), HasSubstr("add/vector"), HasSubstr("an access is wider than a run")));
}

TEST_F(AddProduct, VerifiesIt) {
    const Outcome verified = run(*machine_, {"verify"});
    EXPECT_EQ(verified.exit_code, 0) << verified.err;
    EXPECT_THAT(verified.out, HasSubstr("right"));
}

TEST_F(AddProduct, CarriesItToAnotherDatabase) {
    const std::string file = (machine_->folder() / "winners.jsonl").string();
    const std::string other = (machine_->folder() / "other.db").string();
    ASSERT_EQ(run(*machine_, {"export", "--op", "add", "--out", file}).exit_code, 0);
    const Outcome imported = run(*machine_, {"import", file, "--db", other});
    ASSERT_EQ(imported.exit_code, 0) << imported.err;
    const json said = json_of(run(*machine_, {"--op", "add", "--shape", "1048576", "--db", other, "--json"}));
    EXPECT_EQ(said["tuned"], false);
    EXPECT_EQ(said["winner"]["median_us"], json_of(*tuned_)["winner"]["median_us"]);
}

// The problems are small enough for the scripted driver to compute them, and include every length around that of the tile.
TEST(AddProductFaults, AWrongSumIsNeverAWinner) {
    const Sandbox machine("rule symbol=^add_ do=wrong how=element\n");
    const Outcome tuned = run(machine, {"--op", "hadd", "--shape", "1000", "--budget", "5s,3t"});
    EXPECT_EQ(tuned.exit_code, 4) << tuned.err;
    EXPECT_THAT(tuned.err, HasSubstr("wrong"));
}

TEST(AddProductFaults, NothingIsTunedForALengthOfZero) {
    const Sandbox machine;
    const Outcome tuned = run(machine, {"--op", "add", "--shape", "0"});
    EXPECT_EQ(tuned.exit_code, 2);
    EXPECT_THAT(tuned.err, AllOf(HasSubstr("add dtype=f32 align=16,16,16 0"), HasSubstr("larger shape")));
}

TEST(AddProductFaults, AVendorThatOnlyMultipliesIsNoRival) {
    const Sandbox machine;
    const Outcome compared = run(machine, {"bench", "--op", "add", "--shape", "1048576", "--against", "cublas"});
    EXPECT_THAT(compared.out + compared.err, AllOf(HasSubstr("cublas"), Not(HasSubstr("internal"))));
}

}  // namespace
}  // namespace autotune::add_fake_test
