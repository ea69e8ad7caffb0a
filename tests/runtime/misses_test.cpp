#include "src/runtime/plan/misses.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "db/store/store.h"
#include "tests/runtime/sample.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::runtime {
namespace {

class MissesTest : public ::testing::Test {
  protected:
    MissesTest() { settings_.database = folder_ / "autotune.db"; }
    db::Store store() const { return db::Store::open({.path = settings_.database}); }

    test::TempFolder folder_;
    Settings settings_;
    Log log_{settings_};
    dispatch::StoredCandidates readers_{{}, autotune::test::embedded_catalogue(), {}};
    Device device_ = *reference_device("sm_90a");
    Problem problem_ = autotune::test::embedded_catalogue().problem({"hgemm", "512x512x512", {{"beta", "zero"}}});
};

TEST_F(MissesTest, AreRecordedOnlyWhenAsked) {
    { Misses(settings_, log_, readers_).note(problem_, device_, dispatch::Source::portfolio); }
    EXPECT_FALSE(std::filesystem::exists(settings_.database));
    settings_.record_misses = true;
    { Misses(settings_, log_, readers_).note(problem_, device_, dispatch::Source::portfolio); }
    const auto misses = store().misses();
    ASSERT_EQ(misses.size(), 1U);
    EXPECT_EQ(misses[0].problem_key, problem_.key());
    EXPECT_EQ(misses[0].origin, "portfolio");
}

// Calls of a plan are counted after a flush too, and those made before the plan is destroyed reach the next flush.
TEST_F(MissesTest, CountTheCallsOfAPlan) {
    settings_.record_misses = true;
    Misses misses(settings_, log_, readers_);
    Misses::Calls calls = misses.note(problem_, device_, dispatch::Source::near);
    ASSERT_NE(calls, nullptr);
    *calls += 9;
    misses.flush();
    EXPECT_EQ(store().misses().at(0).count, 10);
    misses.flush();
    EXPECT_EQ(store().misses().at(0).count, 10);
    *calls += 5;
    calls.reset();
    misses.flush();
    EXPECT_EQ(store().misses().at(0).count, 15);
}

TEST_F(MissesTest, AreWrittenInBatchesBeforeTheEnd) {
    settings_.record_misses = true;
    Misses misses(settings_, log_, readers_);
    for (int i = 0; i < 127; ++i) misses.note(problem_, device_, dispatch::Source::portfolio);
    EXPECT_FALSE(std::filesystem::exists(settings_.database));
    misses.note(problem_, device_, dispatch::Source::portfolio);
    EXPECT_EQ(store().misses().at(0).count, 128);
}

// Otherwise the write and the look-up would conflict in the file, and a look-up that waits longer than kBusyTimeoutMs finds
// nothing.
TEST_F(MissesTest, AreWrittenWhileNobodyReads) {
    std::atomic<bool> is_writing = false;
    std::thread writer([&] {
        readers_.between_reads([&] {
            is_writing = true;
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
            is_writing = false;
        });
    });
    while (!is_writing) std::this_thread::yield();
    EXPECT_TRUE(readers_.winners(problem_, device_).empty());
    EXPECT_FALSE(is_writing);
    writer.join();
}

}  // namespace
}  // namespace autotune::runtime
