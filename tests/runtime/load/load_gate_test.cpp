#include "src/runtime/load/load_gate.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace autotune::runtime {
namespace {

using Clock = std::chrono::steady_clock;

TEST(LoadGate, HoldsATurnBackWhileACallIsOnItsWay) {
    LoadGate gate(true);
    std::optional<LoadGate::Call> call(std::in_place, gate);
    std::atomic<bool> has_turn = false;
    const auto begun = Clock::now();
    std::thread loader([&] {
        const LoadGate::Turn turn(gate);
        has_turn = true;
    });
    std::this_thread::sleep_for(LoadGate::kMostWait / 4);
    const bool is_early = has_turn;
    const auto watched = Clock::now() - begun;
    call.reset();
    loader.join();
    EXPECT_FALSE(is_early && watched < LoadGate::kMostWait);  // a busy machine may have slept for longer
    EXPECT_TRUE(has_turn);
}

TEST(LoadGate, GivesATurnThoughCallsNeverEnd) {
    LoadGate gate(true);
    const LoadGate::Call call(gate);
    const auto begun = Clock::now();
    const LoadGate::Turn turn(gate);
    EXPECT_GE(Clock::now() - begun, LoadGate::kMostWait);
}

TEST(LoadGate, GivesOneTurnAtATime) {
    LoadGate gate(true);
    std::atomic<int> inside = 0, most = 0;
    const auto load = [&] {
        for (int i = 0; i < 200; ++i) {
            const LoadGate::Turn turn(gate);
            most = std::max(most.load(), ++inside);
            std::this_thread::yield();
            --inside;
        }
    };
    std::thread a(load), b(load);
    a.join();
    b.join();
    EXPECT_EQ(most, 1);
}

TEST(LoadGate, ThatIsNotUsedHoldsNothingBack) {
    LoadGate gate(false);
    const LoadGate::Turn first(gate), second(gate);
}

}  // namespace
}  // namespace autotune::runtime
