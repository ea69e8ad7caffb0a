#include "tuner/session/tune/recall.h"

#include <gmock/gmock.h>

#include "tests/runtime/sample.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/memory_store.h"
#include "tuner/session/tune/candidates.h"

namespace autotune::tuner::recall_test {
namespace {

using ::testing::HasSubstr;

// The winner that a tune finds before it searches. The store is in memory, because the code above it decides which rows may be
// served.
class Recall : public ::testing::Test {
  protected:
    TuneServices services() {
        return {.catalogue = catalogue_,
                .store = &store_,
                .device = device_,
                .device_uuid = "",
                .provenance = today().provenance,
                .workers = {}};
    }
    // The winner as a tune of today stores it.
    Winner today() const {
        Winner winner = runtime::test::winner_of(catalogue_, problem_, device_);
        winner.provenance.method = "stream-2 l2=cold data=normal";
        return winner;
    }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    Device device_ = *reference_device("sm_90a");
    Problem problem_ = catalogue_.problem({"hgemm", "512x512x512", {{"beta", "zero"}}});
    test::MemoryStore store_;
};

TEST_F(Recall, FindsNothingInAnEmptyStoreAndWithoutOne) {
    EXPECT_FALSE(valid_winner(problem_, services()));
    TuneServices none = services();
    none.store = nullptr;
    EXPECT_FALSE(valid_winner(problem_, none));
}

TEST_F(Recall, SaysWhyAWinnerIsStale) {
    Winner old = today();
    old.provenance.driver = "550.1";
    store_.put(old);
    const auto result = recall(problem_, services());
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->stale);
    EXPECT_THAT(result->stale_because, HasSubstr("550.1"));
}

TEST_F(Recall, AFreshWinnerGoesBeforeAStaleOneThatIsNewer) {
    Winner stale = today();
    stale.provenance.driver = "550.1";
    store_.put(today());
    stale.candidate.family = "gemm/wmma";
    stale.candidate.config = catalogue_.find_family("gemm/wmma")->default_config(problem_, device_);
    stale.template_identity = catalogue_.template_identity(*catalogue_.find_family("gemm/wmma"));
    store_.put(stale);
    const auto result = recall(problem_, services());
    ASSERT_TRUE(result);
    EXPECT_FALSE(result->stale);
    EXPECT_EQ(result->winner.candidate.family, "gemm/mma");
}

TEST_F(Recall, ARowOfAnotherTemplateAnswersNothing) {
    Winner other = today();
    other.template_identity = "0123456789abcdef";
    store_.put(other);
    EXPECT_FALSE(recall(problem_, services()));
}

// The result of `--family gemm/mma` is not the problem's winner, but is served to the next request for that family.
TEST_F(Recall, AWinnerOfANarrowedSearchAnswersThoseWhoAskForTheSame) {
    const Choice same{.families = {"gemm/mma"}, .pins = {}, .named = ""},
        other{.families = {"gemm/wmma"}, .pins = {}, .named = ""};
    Winner narrowed = today();
    narrowed.restricted_to = restriction_of(same, catalogue_, problem_, device_);
    EXPECT_EQ(narrowed.restricted_to, "family=gemm/mma");
    store_.put(narrowed);
    EXPECT_FALSE(recall(problem_, services()));
    EXPECT_FALSE(recall(problem_, services(), other));
    ASSERT_TRUE(recall(problem_, services(), same));
    store_.put(today());  // of all families
    EXPECT_EQ(recall(problem_, services())->winner.restricted_to, "");
    EXPECT_FALSE(recall(problem_, services(), other));
}

TEST_F(Recall, ARestrictionNamesWhatWasLeftOutAlone) {
    std::vector<std::string> all;
    for (const Family* family : catalogue_.families_of("gemm"))
        if (!family->refuses(problem_, device_)) all.emplace_back(family->name());
    Config pins;
    pins.set("stages", 3);
    const auto of = [&](const Choice& choice) { return restriction_of(choice, catalogue_, problem_, device_); };
    EXPECT_EQ(of({}), "");
    EXPECT_EQ(of({.families = all, .pins = {}, .named = ""}), "");
    EXPECT_EQ(of({.families = {"gemm/wmma", "gemm/mma"}, .pins = pins, .named = ""}),
              "family=gemm/mma family=gemm/wmma stages=3");
    EXPECT_EQ(of({.families = {}, .pins = {}, .named = "mma_best"}), "config=mma_best");
}

TEST_F(Recall, ARowInDoubtAnswersNothing) {
    Winner doubted = today();
    doubted.doubt = "its time is under the launch's";
    store_.put(doubted);
    EXPECT_FALSE(recall(problem_, services()));
}

}  // namespace
}  // namespace autotune::tuner::recall_test
