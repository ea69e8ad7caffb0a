// Stored rows that are not used are reported with the reason, and so are large numbers of misses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "db/portfolio.h"
#include "db/verdicts.h"
#include "src/records/json_line.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/tools/cli_bench.h"

namespace autotune::cli::passed_over_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> kTune = {"tune", "--op", "hgemm", "--shape", "512x512x512"};
const std::vector<std::string> kExplain = {"explain", "--op", "hgemm", "--shape", "512x512x512"};

std::vector<std::string> with(std::vector<std::string> words, const std::string& last) {
    words.push_back(last);
    return words;
}

// A database with the row of one tune, which a test changes.
class PassedOver : public ::testing::Test {
  protected:
    PassedOver() {
        autotune_(kTune);
        row_ = records::from_json_line(first_line(autotune_({"export"}).out));
        autotune_.variables["AUTOTUNE_DB"] = autotune_.folder + "/other.db";
    }
    static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }
    void put(const db::Winner& winner) { db::open_store({.path = autotune_.folder + "/other.db"})->put(winner); }

    CliBench autotune_;
    db::Winner row_;
};

TEST_F(PassedOver, WinnersOfAnotherTemplateAreCountedByDoctorAndExplain) {
    EXPECT_THAT(autotune_({"doctor"}).out, Not(HasSubstr("are not used")));
    for (const std::int64_t m : {512, 1024, 2048}) {
        row_.extents[0].value = m;
        row_.template_identity = "0123456789abcdef";
        put(row_);
    }
    const std::string why = "it was tuned with another version of " + row_.candidate.family;
    EXPECT_THAT(autotune_({"doctor"}).out,
                AllOf(HasSubstr("winners"), HasSubstr("note"),
                      HasSubstr("3 winners of this card are not used: " + why +
                                " (3); `autotune verify --database-only` lists them, a tune of their problems replaces them")));
    EXPECT_THAT(autotune_(kExplain).out, HasSubstr("1 winner of this problem on this card is not used: " + why + " (1)"));
    const auto json = autotune_(with(kExplain, "--json")).json();
    ASSERT_EQ(json["passed_over"].size(), 1U);
    EXPECT_EQ(json["passed_over"][0]["why_not"], why);
    EXPECT_EQ(json["passed_over"][0]["shape"], "512x512x512");
}

TEST_F(PassedOver, WinnersOfACardWithThisChipAreNamed) {
    row_.device.memory_gib = 96;
    row_.device.name = "NVIDIA GH200";
    row_.provenance.device_name = "NVIDIA GH200";
    put(row_);
    EXPECT_THAT(autotune_(kExplain).out, HasSubstr("near (other card): NVIDIA GH200"));
    const auto json = autotune_(with(kExplain, "--json")).json();
    ASSERT_EQ(json["other_cards"].size(), 1U);
    EXPECT_EQ(json["other_cards"][0]["device"]["name"], "NVIDIA GH200");
    EXPECT_EQ(json["other_cards"][0]["why_not"], nullptr);
    EXPECT_EQ(json["winner"], nullptr);
    EXPECT_THAT(autotune_({"doctor"}).out, HasSubstr("1 winners are of cards with this chip and another memory: NVIDIA GH200"));
}

TEST_F(PassedOver, AWinnerOfThisCardUnderAnotherDriverIsItsWinner) {
    row_.device.memory_gib -= 1;
    put(row_);
    const auto json = autotune_(with(kExplain, "--json")).json();
    EXPECT_EQ(json["winner"]["family"], row_.candidate.family);
    EXPECT_EQ(json["usable"], true);
    EXPECT_EQ(json["device"]["key"], "cc9.0-sm132-l2_60-mem144-bus6016");
    EXPECT_EQ(autotune_({"show", "--json", "--device-key", "cc9.0-sm132-l2_60-mem139-bus6016"}).json()["total"], 1);
}

TEST_F(PassedOver, PortfolioKernelsOfAnotherTemplateAreCounted) {
    const std::string shipped = autotune_.folder + "/winners";
    std::filesystem::create_directories(shipped + "/portfolio");
    db::Portfolio portfolio{"gemm", "sm_90a", row_.class_key, {row_.candidate}};
    portfolio.templates[row_.candidate.family] = "0123456789abcdef";
    std::ofstream(db::portfolio_path(shipped)) << db::to_json_line(portfolio) << "\n";
    autotune_.variables["AUTOTUNE_SHIPPED"] = shipped;
    const std::string why = "they were chosen with another version of " + row_.candidate.family;
    EXPECT_THAT(autotune_({"doctor"}).out, HasSubstr("1 kernels of portfolios are not used: " + why + " (1)"));
    EXPECT_THAT(autotune_(kExplain).out, HasSubstr("1 kernels of portfolios are not used: " + why + " (1)"));
    const auto json = autotune_(with(kExplain, "--json")).json();
    ASSERT_EQ(json["portfolio_passed_over"].size(), 1U);
    EXPECT_EQ(json["portfolio_passed_over"][0]["why"], why);
    EXPECT_EQ(json["portfolio_passed_over"][0]["count"], 1);
}

// ---- misses ----

std::vector<db::Miss> misses_of(int count) {
    const Catalogue& catalogue = test::embedded_catalogue();
    std::vector<db::Miss> misses;
    for (int m = 1; m <= count; ++m)
        misses.push_back({catalogue.problem({"hgemm", std::to_string(m) + "x512x512", {}}), reference_device("sm_90a")->identity,
                          "portfolio", m});
    return misses;
}

TEST(MissesListed, AreShownUpToALimit) {
    CliBench autotune;
    const std::string path = autotune.folder + "/a.db";
    EXPECT_EQ(autotune({"show", "--misses"}).out, "no misses are recorded; programs record them with `record_misses`\n");
    db::open_store({.path = path})->record_misses(misses_of(120));
    const std::string text = autotune({"show", "--misses", "--db", path}).out;
    EXPECT_THAT(text, AllOf(HasSubstr("120x512x512"), HasSubstr("71x512x512"), Not(HasSubstr("70x512x512")),
                            HasSubstr("... and 70 more; --limit 0 shows all\n")));
    EXPECT_THAT(autotune({"show", "--misses", "--db", path, "--limit", "0"}).out,
                AllOf(HasSubstr("70x512x512"), Not(HasSubstr("more;"))));
    const auto json = autotune({"show", "--misses", "--db", path, "--limit", "2", "--json"}).json();
    EXPECT_EQ(json["total"], 120);
    EXPECT_EQ(json["shown"], 2);
    EXPECT_EQ(json["misses"].size(), 2U);
    EXPECT_EQ(json["misses"][0]["count"], 120);
}

TEST(VerdictsListed, NewestFirstAndInDoctor) {
    CliBench autotune;
    const std::string path = autotune.folder + "/a.db";
    EXPECT_EQ(autotune({"show", "--verdicts"}).out, "no verdicts are stored; autotune.torch.tune() in Python stores them\n");
    EXPECT_THAT(autotune({"doctor", "--db", path}).out, Not(HasSubstr("verdicts")));
    std::vector<db::Verdict> verdicts;
    for (int i = 0; i < 60; ++i)
        verdicts.push_back({.problem = "gemm " + std::to_string(i),
                            .device = "a card",
                            .rival = "torch 2.11",
                            .in_stream = i < 20 ? 1.25 : 0.5,
                            .in_graphs = 0.75});
    db::put_verdicts({.path = path}, verdicts);
    const std::string text = autotune({"show", "--verdicts", "--db", path}).out;
    EXPECT_THAT(text, AllOf(HasSubstr("gemm 59"), HasSubstr("gemm 10"), Not(HasSubstr("gemm 9\n")), HasSubstr("0.750"),
                            HasSubstr("... and 10 more; --limit 0 shows all\n")));
    const auto json = autotune({"show", "--verdicts", "--db", path, "--limit", "0", "--json"}).json();
    EXPECT_EQ(json["total"], 60);
    ASSERT_EQ(json["verdicts"].size(), 60U);
    EXPECT_EQ(json["verdicts"][59]["problem"], "gemm 0");
    EXPECT_EQ(json["verdicts"][59]["in_stream"], 1.25);
    EXPECT_THAT(autotune({"doctor", "--db", path}).out,
                HasSubstr("against torch 2.11: ours wins 20 of 60. `autotune show --verdicts` lists them"));
}

// A version that compared each problem with all earlier ones did not finish 10,000 in two minutes.
TEST(MissesSwept, AreTakenInSecondsHoweverMany) {
    CliBench autotune;
    const std::string path = autotune.folder + "/a.db";
    db::open_store({.path = path})->record_misses(misses_of(10'000));
    const auto begun = std::chrono::steady_clock::now();
    const auto json = autotune({"sweep", "--misses", "--db", path, "--dry-run", "--json"}).json();
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
    EXPECT_EQ(json["problems"].size(), 10'000U);
    EXPECT_EQ(json["problems"][0]["shape"], "10000x512x512");
}

}  // namespace
}  // namespace autotune::cli::passed_over_test
