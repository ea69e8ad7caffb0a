#include "src/dispatch/dispatcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <set>

#include "db/sqlite/schema.h"
#include "db/store/store.h"
#include "src/core/error.h"
#include "src/core/system/read_file.h"
#include "src/dispatch/offers.h"
#include "src/dispatch/rules/legality.h"
#include "src/dispatch/stored/portfolio_choice.h"
#include "src/records/json_line.h"
#include "tests/db/killed_writer.h"
#include "tests/runtime/sample.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::dispatch {
namespace {

using runtime::test::TempFolder;
using runtime::test::winner_of;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class WinnersTest : public ::testing::Test {
  protected:
    WinnersTest() { options_.files.database = folder_ / "autotune.db"; }
    Problem problem(const std::string& shape = "512x512x512", const std::string& beta = "zero") const {
        return catalogue_.problem({"hgemm", shape, {{"beta", beta}}});
    }
    db::Store store() const { return db::Store::open({.path = options_.files.database}); }
    void put(const db::Winner& winner) const { store().put(winner); }
    // The first candidate that a plan tries.
    ResolvedCandidate first(Dispatcher& winners, const Problem& wanted) const {
        if (winners.pin().holds_for(wanted)) return {winners.pin().candidate(wanted, device_), Origin::pinned};
        std::vector<ResolvedCandidate> found = winners.stored().winners(wanted, device_);
        if (found.empty()) found = winners.untuned(wanted, device_);
        return found.empty() ? winners.defaults(wanted, device_).front() : found.front();
    }
    Warn warn() {
        return [this](const std::string& subject, const std::string& message) {
            if (subjects_.insert(subject).second) warnings_.push_back(message);
        };
    }
    ResolvedCandidate first(const Problem& wanted) {
        Dispatcher winners(options_, catalogue_, warn());
        return first(winners, wanted);
    }

    TempFolder folder_;
    Dispatcher::Options options_;
    std::vector<std::string> warnings_;
    std::set<std::string> subjects_;
    const Catalogue& catalogue_ = test::embedded_catalogue();
    Device device_ = *reference_device("sm_90a");
};

TEST_F(WinnersTest, GiveTheExactWinnerFirst) {
    const db::Winner winner = winner_of(catalogue_, problem(), device_);
    put(winner);
    const ResolvedCandidate found = first(problem());
    EXPECT_EQ(found.origin, Origin::exact);
    EXPECT_EQ(found.candidate, winner.candidate);
    EXPECT_EQ(found.nvrtc, "13.0");
}

// Makes a database of a version whose identities did not hash code. The library only reads databases, so the file stays
// unchanged.
TEST_F(WinnersTest, OfAnEarlierVersionAreExactAndStayAsTheyAre) {
    {
        db::Connection connection({.path = options_.files.database});
        db::migrate(connection, db::schema_version());
        connection.run(read_regular_file(AUTOTUNE_TEST_DATA "/db/former_rows.sql", 1 << 20).text.c_str());
    }
    device_.identity.bus_bits = 6144;  // like the scripted driver's card
    const std::string before = read_regular_file(options_.files.database, 1 << 20).text;
    const ResolvedCandidate found = first(problem());
    EXPECT_EQ(found.origin, Origin::exact);
    EXPECT_EQ(found.candidate.family, "gemm/wgmma_nonpersistent");
    EXPECT_TRUE(warnings_.empty()) << warnings_.front();
    EXPECT_TRUE(read_regular_file(options_.files.database, 1 << 20).text == before);
}

// A killed tuner has left an unfinished transaction in the file.
TEST_F(WinnersTest, AreFoundBesideAKilledTuner) {
    const db::Winner winner = winner_of(catalogue_, problem(), device_);
    put(winner);
    for (int m = 1; m <= 100; ++m) put(winner_of(catalogue_, problem(std::to_string(m) + "x512x512"), device_));
    db::test::kill_a_writer_half_way(options_.files.database);
    ASSERT_TRUE(db::test::has_hot_journal(options_.files.database));
    EXPECT_EQ(first(problem()).origin, Origin::exact);
}

TEST_F(WinnersTest, PassOnWhatTheStoreWarnsOfOnce) {
    put(winner_of(catalogue_, problem(), device_));
    ASSERT_EQ(::chmod(options_.files.database.c_str(), 0666), 0);
    Dispatcher winners(options_, catalogue_, warn());
    for (int twice = 0; twice < 2; ++twice) (void)winners.stored().winners(problem(), device_);
    ASSERT_EQ(warnings_.size(), 1U);
    EXPECT_THAT(warnings_.front(), HasSubstr("chmod o-w"));
}

TEST_F(WinnersTest, AreNotThoseInDoubt) {
    db::Winner winner = winner_of(catalogue_, problem(), device_);
    winner.doubt = "it is too fast";
    put(winner);
    EXPECT_EQ(first(problem()).origin, Origin::family_default);
}

TEST_F(WinnersTest, GiveDefaultsWithoutADatabaseAndWithoutAWarning) {
    EXPECT_EQ(first(problem()).origin, Origin::family_default);
    EXPECT_TRUE(warnings_.empty()) << warnings_.front();
}

TEST_F(WinnersTest, PickUpADatabaseThatAppearsLater) {
    Dispatcher winners(options_, catalogue_, warn());
    EXPECT_EQ(first(winners, problem()).origin, Origin::family_default);
    put(winner_of(catalogue_, problem(), device_));
    EXPECT_EQ(first(winners, problem()).origin, Origin::exact);
}

TEST_F(WinnersTest, GiveTheDefaultThatIsPredictedFastest) {
    double best_us = std::numeric_limits<double>::infinity();
    std::string best;
    for (const Family* family : catalogue_.families_of("gemm")) {
        if (family->refuses(problem(), device_)) continue;
        const auto us = family->predict_us(problem(), family->space(problem(), device_).default_config, device_);
        if (us && *us < best_us) best_us = *us, best = family->name();
    }
    EXPECT_EQ(first(problem()).candidate.family, best);
}

// The candidate for a problem without stored winners is chosen for rounded extents. It must be legal for the problem itself and,
// by the cost models, hardly slower than the problem's own best default.
TEST_F(WinnersTest, GiveALikelyDefaultThatIsNearlyTheBest) {
    Dispatcher winners(options_, catalogue_, warn());
    const auto predicted_us = [&](const Problem& wanted, const Candidate& candidate) {
        return *catalogue_.find_family(candidate.family)->predict_us(wanted, candidate.config, device_);
    };
    double worst = 1, logs = 0;
    int count = 0;
    for (const std::int64_t m : {1, 3, 17, 33, 65, 100, 129, 200, 257, 1000, 1100, 2049, 4000, 8191}) {
        for (const char* rest : {"x4096x4096", "x11008x4096", "x1000x72", "x328x13824"}) {
            const Problem wanted = problem(std::to_string(m) + rest);
            const std::vector<ResolvedCandidate> likely = winners.likely_default(wanted, device_);
            const Candidate best = winners.defaults(wanted, device_).front().candidate;
            if (likely.empty()) continue;  // if none is legal here, the problem's own defaults are used
            EXPECT_FALSE(
                catalogue_.find_family(likely[0].candidate.family)->space(wanted, device_).why_not(likely[0].candidate.config));
            const double ratio = predicted_us(wanted, likely[0].candidate) / predicted_us(wanted, best);
            worst = std::max(worst, ratio);
            logs += std::log(ratio);
            ++count;
        }
    }
    std::printf("%d of 56 likely defaults: predicted %.4f of the best default's time, at worst %.3f\n", count,
                std::exp(logs / count), worst);
    EXPECT_GE(count, 45);
    EXPECT_LT(std::exp(logs / count), 1.02);
    EXPECT_LT(worst, 1.25);
}

TEST_F(WinnersTest, OfOtherExtentsAreNear) {
    db::Winner winner = winner_of(catalogue_, problem("512x512x520"), device_);
    winner.candidate = runtime::test::likely_candidate(catalogue_, problem(), device_);
    winner.template_identity = catalogue_.template_identity(*catalogue_.find_family(winner.candidate.family));
    winner.evidence.finalists.front() = {.name = "", .candidate = winner.candidate, .timing = winner.timing};
    put(winner);
    EXPECT_EQ(first(problem()).origin, Origin::near);
}

TEST_F(WinnersTest, OfOtherExtentsGiveWayToWhatIsPredictedFaster) {
    put(winner_of(catalogue_, problem("512x512x520"), device_));  // This is the first legal config of gemm/mma.
    EXPECT_EQ(first(problem()).origin, Origin::family_default);
}

// A class with a portfolio that has every named tile of gemm/wgmma.
class PortfolioTest : public WinnersTest {
  protected:
    PortfolioTest() {
        const Problem any = problem("4096x4096x4096");
        portfolio_ = {"gemm", "sm_90a", any.class_key()};
        for (const char* name : {"gemm/wgmma", "gemm/wgmma_nonpersistent"}) {
            const Family* family = catalogue_.find_family(name);
            for (const char* shape : {"16x4096x4096", "512x512x512", "2048x1024x1024", "4096x4096x4096"}) {
                const Problem at = problem(shape);
                if (family->refuses(at, device_)) continue;
                for (const NamedConfig& each : family->space(at, device_).named)
                    if (portfolio_.candidates.size() < 60) portfolio_.candidates.push_back({name, each.config});
            }
        }
        portfolio_.regret_median = 0.05;
        for (const Candidate& each : portfolio_.candidates)
            portfolio_.templates[each.family] = catalogue_.template_identity(*catalogue_.find_family(each.family));
        options_.files.shipped = shipped_ / ".";
        std::filesystem::create_directory(shipped_ / "portfolio");
        write(db::to_json_line(portfolio_));
    }
    void write(const std::string& line) const {
        std::ofstream(db::portfolio_path(options_.files.shipped), std::ios::app) << line << "\n";
    }

    TempFolder shipped_;
    db::Portfolio portfolio_;
};

TEST_F(PortfolioTest, ServesWhatNobodyTunedByPrediction) {
    Dispatcher winners(options_, catalogue_, warn());
    for (const char* shape : {"3x4096x4096", "100x1000x328", "777x3000x1024", "8192x8192x8192"}) {
        const Problem wanted = problem(shape);
        const std::vector<ResolvedCandidate> found = winners.untuned(wanted, device_);
        ASSERT_FALSE(found.empty()) << shape;
        EXPECT_EQ(found.front().origin, Origin::family_default);
        EXPECT_EQ(found.front().regret, 0.05);
        const Family* family = catalogue_.find_family(found.front().candidate.family);
        EXPECT_TRUE(family->rules(wanted, device_).contains(found.front().candidate.config)) << shape;
        const double chosen = *family->predict_us(wanted, found.front().candidate.config, device_);
        const Candidate likely = runtime::test::likely_candidate(catalogue_, wanted, device_);
        const double standard = *catalogue_.find_family(likely.family)->predict_us(wanted, likely.config, device_);
        EXPECT_LT(chosen, 1.6 * standard) << shape;
    }
}

TEST_F(PortfolioTest, ServesAllRowsOfAWeightWithAtMostElevenInstances) {
    Dispatcher winners(options_, catalogue_, warn());
    std::set<std::string> instances;
    for (std::int64_t m = 1; m <= 8192; m += m < 256 ? 1 : 37) {
        const Problem wanted = problem(std::to_string(m) + "x4096x4096");
        const std::vector<ResolvedCandidate> found = winners.untuned(wanted, device_);
        ASSERT_FALSE(found.empty()) << m;
        instances.insert(instance_key(catalogue_, wanted, device_, found.front().candidate));
    }
    EXPECT_LE(instances.size(), 11U);
    EXPECT_GE(instances.size(), 3U);
    std::set<std::string> warmed;
    for (const WarmupEntry& each : winners.serving(problem("8192x4096x4096"), device_))
        warmed.insert(instance_key(catalogue_, each.problem, device_, each.found.candidate));
    for (const std::string& each : instances) EXPECT_TRUE(warmed.contains(each)) << each;
    EXPECT_LE(warmed.size(), 11U);
}

// The problem gets a twelfth instance for a weight matrix.
TEST_F(PortfolioTest, ServesTheFirstRowsOfAWeightWithTheBestForThose) {
    Dispatcher winners(options_, catalogue_, warn());
    const auto predicted_us = [&](const Problem& of, const std::vector<ResolvedCandidate>& found) {
        const Candidate& chosen = found.at(0).candidate;
        return *catalogue_.find_family(chosen.family)->predict_us(of, chosen.config, device_);
    };
    double most = 0;  // the largest loss with the other instances
    for (const char* shape : {"392x1152x5136", "648x1912x6152", "840x3040x11376", "1392x1136x5136", "1600x2672x1240"}) {
        const Problem of = problem(shape);
        const double first_us = predicted_us(of, winners.untuned_first(of, device_));
        EXPECT_LE(first_us, predicted_us(of, winners.defaults(of, device_))) << shape;
        most = std::max(most, predicted_us(of, winners.untuned(of, device_)) / first_us);
    }
    EXPECT_GT(most, 1.1);
    const Problem wanted = problem("1392x1144x5136");
    const std::vector<ResolvedCandidate> first = winners.untuned_first(wanted, device_);
    EXPECT_EQ(first.front().regret, 0.05);
    EXPECT_TRUE(winners.untuned_first(problem("1400x1144x5136"), device_).empty());
    EXPECT_EQ(winners.untuned_first(wanted, device_).front().candidate, first.front().candidate);
    EXPECT_FALSE(winners.untuned_first(problem("1400x1144x5144"), device_).empty());
    winners.refresh();
    EXPECT_TRUE(winners.untuned_first(problem("1400x1144x5136"), device_).empty());
}

TEST_F(PortfolioTest, HasNoFirstRowsOfAWeightThatIsWarmed) {
    Dispatcher winners(options_, catalogue_, warn());
    winners.serving(problem("512x1144x5136"), device_);
    EXPECT_TRUE(winners.untuned_first(problem("392x1144x5136"), device_).empty());
    EXPECT_TRUE(winners.untuned_first(problem("3920x1144x5136"), device_).empty());
    EXPECT_FALSE(winners.untuned_first(problem("9000x1144x5136"), device_).empty());  // a set of its own
}

TEST_F(PortfolioTest, ChoosesAlikeWhateverWasAskedBefore) {
    Dispatcher one(options_, catalogue_), other(options_, catalogue_);
    const auto chosen = [&](Dispatcher& winners, const char* shape) {
        return winners.untuned(problem(shape), device_).front().candidate;
    };
    const Candidate before = chosen(one, "100x4096x4096");
    chosen(other, "8000x4096x4096");
    chosen(other, "7x4096x4096");
    EXPECT_EQ(chosen(other, "100x4096x4096"), before);
}

TEST_F(PortfolioTest, OfTheMostSimilarClassServesAClassWithoutOne) {
    Dispatcher winners(options_, catalogue_, warn());
    const Problem other = catalogue_.problem({"bgemm", "512x512x512", {{"layout", "tn"}, {"beta", "any"}}});
    const std::vector<db::Portfolio> all = {portfolio_};
    EXPECT_EQ(portfolio_for(all, other.class_key(), "sm_90a"), &all.front());
    EXPECT_EQ(winners.untuned(other, device_).front().regret, -1);  // a portfolio's regret is known only for its own class
    const Problem half_sums = catalogue_.problem({"hgemm_f16acc", "512x512x512", {}});
    EXPECT_EQ(portfolio_for(all, half_sums.class_key(), "sm_90a"), nullptr);
    EXPECT_EQ(winners.untuned(half_sums, device_).front().regret, -1);  // with another accumulator the regret is unknown
}

TEST_F(PortfolioTest, OfUnalignedRowsServesOtherUnalignedRows) {
    const auto of = [&](const char* layout, const char* align) {
        db::Portfolio made = portfolio_;
        made.class_key = std::string("gemm a=f16 b=f16 c=f16 compute=f16 acc=f32 layout=") + layout + " beta=zero align=" + align;
        return made;
    };
    const std::vector<db::Portfolio> all = {of("nn", "16,16,16"), of("nn", "2,2,2"), of("tn", "2,4,4"), of("nn", "16,2,2")};
    const auto chosen = [&](const char* shape) {
        return portfolio_for(all, catalogue_.problem({"bgemm", shape, {{"layout", "nn"}}}).class_key(), "sm_90a");
    };
    EXPECT_EQ(chosen("128x256x256"), &all[0]);
    EXPECT_EQ(chosen("128x258x258"), &all[1]);  // 4,4,4
    EXPECT_EQ(chosen("128x250x256"), &all[3]);  // 16,4,4
}

TEST_F(PortfolioTest, OfAnotherTemplateIsNotUsed) {
    const Problem wanted = problem("100x1000x328");
    for (const std::string identity : {"0123456789abcdef", ""}) {
        db::Portfolio old = portfolio_;
        if (identity.empty())
            old.templates.clear();  // files from before templates were named have none
        else
            for (auto& [family, known] : old.templates) known = identity;
        std::ofstream(db::portfolio_path(options_.files.shipped), std::ios::trunc) << db::to_json_line(old) << "\n";
        Dispatcher winners(options_, catalogue_, warn());
        EXPECT_EQ(winners.untuned(wanted, device_).front().source, Source::family_default);
        EXPECT_EQ(winners.untuned(wanted, device_).front().regret, -1);  // nor its expected regret
        const auto passed_over = winners.stored().portfolio_kernels_passed_over(wanted, device_);
        ASSERT_FALSE(passed_over.empty());
        EXPECT_EQ(passed_over[0].why, identity.empty() ? "the version of gemm/wgmma that they were chosen with is not recorded"
                                                       : "they were chosen with another version of gemm/wgmma");
        EXPECT_GT(passed_over[0].count, 0);
    }
    EXPECT_TRUE(warnings_.empty());
}

// A portfolio from an attacker or a newer version: block_m=0 used to cause a division by zero.
TEST_F(PortfolioTest, WithAValueOutsideItsDomainEndsNoProcess) {
    const Problem wanted = problem("100x1000x328");
    const Candidate sound = portfolio_.candidates.front();
    // One portfolio per value contains a candidate for each parameter, because making a portfolio takes a quarter of a second.
    for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN, INT64_MAX}) {
        portfolio_.candidates.clear();
        for (const auto& [name, value] : sound.config.values()) {
            portfolio_.candidates.push_back(sound);
            portfolio_.candidates.back().config.set(name, wrong);
        }
        std::ofstream(db::portfolio_path(options_.files.shipped), std::ios::trunc) << db::to_json_line(portfolio_) << "\n";
        Dispatcher winners(options_, catalogue_, warn());
        const std::vector<ResolvedCandidate> found = winners.untuned(wanted, device_);
        ASSERT_FALSE(found.empty());
        EXPECT_TRUE(Legality(catalogue_, wanted, device_).allows(found.front().candidate)) << wrong;
    }
    portfolio_.candidates = {sound};
    portfolio_.candidates.front().config.set("block_m", 0);
    std::ofstream(db::portfolio_path(options_.files.shipped), std::ios::trunc) << db::to_json_line(portfolio_) << "\n";
    const auto passed_over = Dispatcher(options_, catalogue_).stored().portfolio_kernels_passed_over(wanted, device_);
    ASSERT_EQ(passed_over.size(), 1U);
    EXPECT_THAT(passed_over[0].why, HasSubstr("block_m=0 is not one of 64, 128"));
}

TEST_F(PortfolioTest, ThatIsAPipeOrADeviceIsAWarning) {
    const std::string path = db::portfolio_path(options_.files.shipped);
    for (const bool is_pipe : {true, false}) {
        std::filesystem::remove(path);
        if (is_pipe)
            ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
        else
            std::filesystem::create_symlink("/dev/zero", path);
        warnings_.clear();
        Dispatcher winners(options_, catalogue_, warn());
        EXPECT_EQ(winners.untuned(problem(), device_).front().source, Source::family_default);
        ASSERT_EQ(warnings_.size(), 1U);
        EXPECT_EQ(warnings_.front(), "portfolios in " + path + " cannot be read (it is a " + (is_pipe ? "pipe" : "device") +
                                         ", not a regular file); they are not used");
    }
}

TEST_F(PortfolioTest, WithALineThatIsNotValidIsAWarningAndTheOthers) {
    write("{\"op\":\"gemm\",\"arch\":\"sm_90a\"}");
    write("not json");
    Dispatcher winners(options_, catalogue_, warn());
    EXPECT_EQ(winners.untuned(problem(), device_).front().regret, 0.05);
    ASSERT_EQ(warnings_.size(), 2U);
    EXPECT_THAT(warnings_.front(), HasSubstr("portfolios.jsonl:2"));
}

TEST_F(WinnersTest, OfOtherBetaLayoutTypeOrAlignmentAreNone) {
    put(winner_of(catalogue_, problem("512x512x512", "any"), device_));
    put(winner_of(catalogue_, catalogue_.problem({"hgemm", "512x512x512", {{"layout", "nt"}}}), device_));
    put(winner_of(catalogue_, catalogue_.problem({"bgemm", "512x512x512", {}}), device_));
    put(winner_of(catalogue_, catalogue_.problem({"hgemm", "512x512x512", {{"align", "8"}}}), device_));
    EXPECT_EQ(first(problem()).origin, Origin::family_default);
}

TEST_F(WinnersTest, OfAnotherDeviceAreNone) {
    db::Winner winner = winner_of(catalogue_, problem(), device_);
    winner.device.sm_count = 108;
    put(winner);
    EXPECT_EQ(first(problem()).origin, Origin::family_default);
}

// If a driver reserves more memory, the card reports less.
TEST_F(WinnersTest, OfThisCardUnderAnotherDriverAnswer) {
    db::Winner winner = winner_of(catalogue_, problem(), device_);
    winner.device.memory_gib = 137;
    put(winner);
    EXPECT_EQ(first(problem()).origin, Origin::exact);
}

TEST_F(WinnersTest, OfACardWithThisChipAreOffersForTheirOwnProblemToo) {
    db::Winner winner = winner_of(catalogue_, problem(), device_);
    winner.candidate = runtime::test::likely_candidate(catalogue_, problem(), device_);
    winner.template_identity = catalogue_.template_identity(*catalogue_.find_family(winner.candidate.family));
    winner.evidence.finalists.clear();
    winner.device.memory_gib = 96;  // as a GH200
    put(winner);
    EXPECT_TRUE([&] { return Dispatcher(options_, catalogue_).stored().winners(problem(), device_).empty(); }());
    const ResolvedCandidate found = first(problem());
    EXPECT_EQ(found.candidate.family, winner.candidate.family);
    EXPECT_EQ(found.origin, Origin::near);
    EXPECT_EQ(found.source, Source::other_card);
    EXPECT_EQ(to_string(found.source), "near (other card)");
    options_.files.database = folder_ / "other.db";
    winner.device.l2_mib = 50;  // another chip
    put(winner);
    EXPECT_EQ(first(problem()).source, Source::family_default);
}

// Values of a pin are also checked before any cost model gets them.
TEST_F(WinnersTest, PinsOutsideOfTheirDomainAreRefused) {
    for (const auto& [pin, why] : std::map<std::string, std::string>{
             {"gemm/mma block_m=0", "block_m=0 is not one of"},
             {"gemm/mma block_m=-128", "block_m=-128 is not one of"},
             {"gemm/mma block_m=9223372036854775807", "is not one of"},
             {"gemm/mma block_m=18446744073709551680", "'block_m=18446744073709551680' is no parameter=value of the family"},
             {"gemm/mma block_m=64.5", "'block_m=64.5' is no parameter=value of the family"},
             {"gemm/mma block_m=1e2", "'block_m=1e2' is no parameter=value of the family"},
             {"gemm/mma block_m=nan", "'block_m=nan' is no parameter=value of the family"},
             {"gemm/mma block_m=+64", "'block_m=+64' is no parameter=value of the family"},
             {"gemm/mma block_m=", "'block_m=' is no parameter=value of the family"},
             {"gemm/mma no_such=1", "'no_such=1' is no parameter=value of the family"}}) {
        options_.pin = pin;
        try {
            (void)first(problem());
            ADD_FAILURE() << pin << " was taken";
        } catch (const Error& failure) {
            EXPECT_THAT(failure.what(), HasSubstr(why)) << pin;
        }
    }
}

// A row of the user's database can be as wrong as a file, because another program may have written it.
TEST_F(WinnersTest, NearOnesOutsideOfTheirDomainEndNoProcess) {
    const db::Winner sound = winner_of(catalogue_, problem("512x512x520"), device_);
    int row = 0;
    for (const auto& [name, value] : sound.candidate.config.values()) {
        for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX}) {
            db::Winner winner = sound;
            winner.extents[2].value = 520 + 8 * row++;
            winner.candidate.config.set(name, wrong);
            winner.evidence.finalists.clear();
            put(winner);
        }
    }
    for (const char* shape : {"512x512x512", "512x512x640", "512x512x720", "512x512x900"}) {
        const ResolvedCandidate found = first(problem(shape));
        EXPECT_TRUE(Legality(catalogue_, problem(shape), device_).allows(found.candidate)) << shape;
    }
}

TEST_F(WinnersTest, OfAnotherTemplateAreNone) {
    db::Winner winner = winner_of(catalogue_, problem(), device_);
    winner.template_identity = "0123456789abcdef";
    put(winner);
    EXPECT_EQ(first(problem()).origin, Origin::family_default);
}

TEST_F(WinnersTest, WithAConfigOutsideTheSpaceAreNone) {
    db::Winner winner = winner_of(catalogue_, problem(), device_);
    winner.candidate.config.set(winner.candidate.config.values().front().first, 12345);
    winner.evidence.finalists.front().candidate = winner.candidate;
    put(winner);
    EXPECT_EQ(first(problem()).origin, Origin::family_default);
}

TEST_F(WinnersTest, ThatAreShippedComeAfterTheUsersOwn) {
    const TempFolder shipped;
    db::Winner winner = winner_of(catalogue_, problem(), device_);
    winner.shipped = true;
    std::ofstream(shipped / "h200.jsonl") << records::to_json_line(winner) << "\n";
    options_.files.shipped = shipped / ".";
    EXPECT_EQ(first(problem()).origin, Origin::shipped);
    put(winner_of(catalogue_, problem(), device_));
    EXPECT_EQ(first(problem()).origin, Origin::exact);
}

TEST_F(WinnersTest, OfABrokenDatabaseAreOneWarningAndNone) {
    std::ofstream(options_.files.database) << std::string(5000, 'x');
    Dispatcher winners(options_, catalogue_, warn());
    for (int i = 0; i < 3; ++i) EXPECT_EQ(first(winners, problem()).origin, Origin::family_default);
    EXPECT_EQ(warnings_.size(), 1U);
    EXPECT_THAT(warnings_.at(0), HasSubstr(options_.files.database));
}

TEST_F(WinnersTest, OfATruncatedDatabaseAreOneWarningAndNone) {
    put(winner_of(catalogue_, problem(), device_));
    std::filesystem::resize_file(options_.files.database, std::filesystem::file_size(options_.files.database) / 2);
    EXPECT_EQ(first(problem()).origin, Origin::family_default);
    EXPECT_EQ(warnings_.size(), 1U);
}

TEST_F(WinnersTest, OfABrokenDatabaseStillHaveTheShippedOnes) {
    const TempFolder shipped;
    db::Winner winner = winner_of(catalogue_, problem(), device_);
    std::ofstream(shipped / "h200.jsonl") << records::to_json_line(winner) << "\n";
    options_.files.shipped = shipped / ".";
    std::ofstream(options_.files.database) << "not a database, but long enough to be read as one";
    EXPECT_EQ(first(problem()).origin, Origin::shipped);
}

TEST_F(WinnersTest, FollowThePin) {
    const Candidate pinned = runtime::test::other_than_default(catalogue_, problem(), device_);
    options_.pin = pinned.to_string();
    const ResolvedCandidate found = first(problem());
    EXPECT_EQ(found.origin, Origin::pinned);
    EXPECT_EQ(found.candidate, pinned);
}

TEST_F(WinnersTest, FillWhatThePinLeavesOutFromTheDefault) {
    options_.pin = "gemm/mma";
    EXPECT_EQ(first(problem()).candidate.config, catalogue_.find_family("gemm/mma")->space(problem(), device_).default_config);
}

TEST_F(WinnersTest, RefuseAPinThatNamesNothing) {
    for (const char* pin : {"gemm/none", "gemm/mma nothing=3", "gemm/mma stages", "gemm/mma stages=", "gemm/mma stages=3x"}) {
        options_.pin = pin;
        EXPECT_THROW(first(problem()), Error) << pin;
    }
}

TEST_F(WinnersTest, OfANarrowedSearchAreNone) {
    db::Winner winner = winner_of(catalogue_, problem(), device_);
    winner.restricted_to = "family=gemm/mma";
    put(winner);
    EXPECT_EQ(first(problem()).origin, Origin::family_default);
    options_.pin = winner.candidate.to_string();  // The user can still pin this candidate.
    EXPECT_EQ(first(problem()).candidate, winner.candidate);
}

// A few rows of a weight matrix: no tile kernel of another class's portfolio reads it as fast as a kernel made for few rows.
TEST_F(PortfolioTest, OfAnotherClassLeavesASingleRowToTheFamiliesForIt) {
    Dispatcher winners(options_, catalogue_, warn());
    const Problem wanted = catalogue_.problem({"hgemm", "1x9691x261", {{"align", "2"}}});
    ASSERT_NE(wanted.class_key(), portfolio_.class_key);
    const std::vector<ResolvedCandidate> found = winners.untuned(wanted, device_);
    ASSERT_FALSE(found.empty());
    EXPECT_THAT(found.front().candidate.family, AnyOf("gemm/gemv", "gemm/dot", "gemm/dot_windows"));
}

// Perhaps no kernel of another class's portfolio is legal, and a default for 32 or 256 rows need not be legal for 64. So each
// pivot has its own default.
TEST_F(PortfolioTest, OfAnotherClassLeavesEveryPivotItsDefaults) {
    Dispatcher winners(options_, catalogue_, warn());
    for (const char* shape : {"64x4096x14336", "128x4096x14336", "512x4096x14336"}) {
        const Problem wanted = catalogue_.problem({"fp8gemm", shape, {{"scale", "block"}}});
        const auto predicted_us = [&](const std::vector<ResolvedCandidate>& found) {
            const Candidate& chosen = found.at(0).candidate;
            return *catalogue_.find_family(chosen.family)->predict_us(wanted, chosen.config, device_);
        };
        EXPECT_LT(predicted_us(winners.untuned(wanted, device_)), 1.05 * predicted_us(winners.defaults(wanted, device_)))
            << shape;
    }
}

// For many extents, twelve instances must serve each nearly as fast as its own default.
TEST_F(PortfolioTest, OfAnotherClassServesSgemmAsItsDefaultsDo) {
    Dispatcher winners(options_, catalogue_, warn());
    for (const char* weight : {"2112x3328", "4096x4096", "640x768"}) {
        for (const int rows : {1, 5, 24, 50, 100, 192, 200, 330, 700, 1000, 1500, 3000, 6000, 8192, 9000, 12300}) {
            const Problem wanted = catalogue_.problem({"sgemm", std::to_string(rows) + "x" + weight, {}});
            const auto predicted_us = [&](const std::vector<ResolvedCandidate>& found) {
                const Candidate& chosen = found.at(0).candidate;
                return *catalogue_.find_family(chosen.family)->predict_us(wanted, chosen.config, device_);
            };
            EXPECT_LT(predicted_us(winners.untuned(wanted, device_)), 1.25 * predicted_us(winners.defaults(wanted, device_)))
                << wanted.key();
        }
    }
}

TEST_F(WinnersTest, AnswerInTimeWhileSomebodyHoldsTheDatabase) {
    put(winner_of(catalogue_, problem(), device_));
    const pid_t holder = ::fork();
    if (holder == 0) {  // the exclusive lock as sqlite3 takes it: a write lock on the pending, reserved and shared bytes
        const int file = ::open(options_.files.database.c_str(), O_RDWR);
        struct flock lock = {};
        lock.l_type = F_WRLCK;
        lock.l_whence = SEEK_SET;
        lock.l_start = 0x40000000;
        lock.l_len = 512;
        ::fcntl(file, F_SETLK, &lock);
        ::sleep(5);
        ::_exit(0);
    }
    ::usleep(200'000);
    const auto start = std::chrono::steady_clock::now();
    const ResolvedCandidate found = first(problem());
    const auto waited = std::chrono::steady_clock::now() - start;
    ::kill(holder, SIGKILL);
    ::waitpid(holder, nullptr, 0);
    EXPECT_EQ(found.origin, Origin::family_default);
    EXPECT_LT(waited, std::chrono::milliseconds(1000));  // it takes 30 ms by itself, and more on a busy machine
    EXPECT_EQ(warnings_.size(), 1U);
}

}  // namespace
}  // namespace autotune::dispatch
