#include "tuner/search/strategy_thread.h"

#include <gmock/gmock.h>
#include <poll.h>

#include <semaphore>

#include "src/core/error.h"

namespace autotune::tuner::test::strategy_thread_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Report = std::pair<std::size_t, std::optional<double>>;

// Records the calls of a strategy, and controls when it answers.
struct Script {
    std::vector<Report> heard;
    std::counting_semaphore<> leave{0};
    std::size_t points = 3;
    std::vector<std::size_t> compiled{};
};

// Returns 0, 1, 2 and waits for permission before each answer.
class Scripted final : public Strategy {
  public:
    explicit Scripted(Script& script) : script_(script) {}
    std::string_view name() const override { return "scripted"; }
    std::vector<std::size_t> ask(std::size_t count) override {
        script_.leave.acquire();
        if (script_.heard.size() == 2) throw Error(ErrorCode::internal, "no more after two reports");
        std::vector<std::size_t> points;
        while (points.size() < count && next_ < script_.points) points.push_back(next_++);
        return points;
    }
    std::vector<std::size_t> ask_compiled(std::size_t /*count*/) override {
        script_.leave.acquire();
        return std::exchange(script_.compiled, {});
    }
    void report(std::size_t point, std::optional<double> time_us) override { script_.heard.emplace_back(point, time_us); }
    bool exhausted() const override { return next_ == script_.points; }

  private:
    Script& script_;
    std::size_t next_ = 0;
};

bool is_ready(const StrategyThread& strategy, int limit_ms) {
    pollfd fd{strategy.ready_fd(), POLLIN, 0};
    return ::poll(&fd, 1, limit_ms) == 1;
}

std::vector<std::size_t> wait_and_take(StrategyThread& strategy) {
    EXPECT_TRUE(is_ready(strategy, 10'000));
    return strategy.take();
}

class StrategyOnAThread : public ::testing::Test {
  protected:
    Script script_;
    StrategyThread strategy_{[this] { return std::make_unique<Scripted>(script_); }};
};

TEST_F(StrategyOnAThread, NobodyWaitsWhileItThinks) {
    strategy_.ask(2);
    EXPECT_TRUE(strategy_.asking());
    EXPECT_FALSE(strategy_.may_ask());
    EXPECT_THAT(strategy_.take(), IsEmpty());
    EXPECT_FALSE(is_ready(strategy_, 0));
    script_.leave.release();
    EXPECT_THAT(wait_and_take(strategy_), ElementsAre(0, 1));
    EXPECT_FALSE(strategy_.asking());
    EXPECT_FALSE(is_ready(strategy_, 0)) << "what was taken wakes nobody";
}

TEST_F(StrategyOnAThread, HasNoMoreCompiledPointsUntilAReportButOthers) {
    script_.compiled = {42};
    script_.leave.release(4);
    strategy_.ask_compiled(1);
    EXPECT_THAT(wait_and_take(strategy_), ElementsAre(42));
    ASSERT_TRUE(strategy_.may_ask_compiled());
    strategy_.ask_compiled(1);
    EXPECT_THAT(wait_and_take(strategy_), IsEmpty());
    EXPECT_FALSE(strategy_.may_ask_compiled());
    ASSERT_TRUE(strategy_.may_ask()) << "that says nothing about points that must be compiled";
    strategy_.ask(1);
    EXPECT_THAT(wait_and_take(strategy_), ElementsAre(0));
    EXPECT_FALSE(strategy_.may_ask_compiled());
    strategy_.report(0, 12.5);
    EXPECT_TRUE(strategy_.may_ask_compiled());
}

TEST_F(StrategyOnAThread, AnAskKnowsOfEveryReportBeforeIt) {
    strategy_.ask(1);
    script_.leave.release();
    wait_and_take(strategy_);
    strategy_.report(0, 12.5);
    strategy_.ask(1);
    strategy_.report(7, std::nullopt);  // not of this one
    script_.leave.release();
    EXPECT_THAT(wait_and_take(strategy_), ElementsAre(1));
    EXPECT_THAT(script_.heard, ElementsAre(Pair(0, std::optional(12.5))));
}

TEST_F(StrategyOnAThread, AfterAnEmptyAnswerOnlyAReportMayBringMore) {
    script_.points = 0;
    strategy_.ask(1);
    script_.leave.release();
    EXPECT_THAT(wait_and_take(strategy_), IsEmpty());
    EXPECT_FALSE(strategy_.may_ask());
    strategy_.report(0, 1.0);
    EXPECT_TRUE(strategy_.may_ask());
}

TEST_F(StrategyOnAThread, AReportDuringTheThoughtThatFoundNothingMayBringMore) {
    script_.points = 0;
    strategy_.ask(1);
    strategy_.report(0, 1.0);
    script_.leave.release();
    EXPECT_THAT(wait_and_take(strategy_), IsEmpty());
    EXPECT_TRUE(strategy_.may_ask());
}

TEST_F(StrategyOnAThread, WhatItThrowsComesOutOfTheAnswer) {
    strategy_.report(0, 1.0);
    strategy_.report(1, 1.0);
    strategy_.ask(1);
    script_.leave.release();
    EXPECT_TRUE(is_ready(strategy_, 10'000));
    EXPECT_THROW(strategy_.take(), Error);
}

TEST(StrategyThread, WhatMakingItThrowsComesOutToo) {
    StrategyThread strategy([]() -> std::unique_ptr<Strategy> { throw Error(ErrorCode::usage, "no such strategy"); });
    strategy.ask(1);
    EXPECT_TRUE(is_ready(strategy, 10'000));
    EXPECT_THROW(strategy.take(), Error);
}

TEST(StrategyThread, EndsWithoutHavingBeenAsked) {
    Script script;
    const StrategyThread strategy([&] { return std::make_unique<Scripted>(script); });
}

}  // namespace
}  // namespace autotune::tuner::test::strategy_thread_test
