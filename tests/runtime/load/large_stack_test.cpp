#include "src/runtime/load/large_stack.h"

#include <gtest/gtest.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>

#include <stdexcept>
#include <string>

namespace autotune::runtime {
namespace {

// Uses four megabytes of its stack.
void use_stack() {
    volatile char bytes[4 << 20];
    for (std::size_t at = 0; at < sizeof(bytes); at += 1024) bytes[at] = 1;
}

TEST(LargeStack, HasRoomWhereItsCallerHasNone) {
    pthread_attr_t attributes;
    ASSERT_EQ(::pthread_attr_init(&attributes), 0);
    ASSERT_EQ(::pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + (64 << 10)), 0);
    pthread_t thread{};
    bool is_done = false;
    const auto body = [](void* done) -> void* {
        run_with_large_stack(use_stack);
        *static_cast<bool*>(done) = true;
        return nullptr;
    };
    ASSERT_EQ(::pthread_create(&thread, &attributes, body, &is_done), 0);
    ::pthread_join(thread, nullptr);
    ::pthread_attr_destroy(&attributes);
    EXPECT_TRUE(is_done);
}

TEST(LargeStack, ThrowsWhatTheWorkThrows) {
    try {
        run_with_large_stack([] { throw std::runtime_error("mine"); });
        FAIL() << "no exception";
    } catch (const std::runtime_error& error) {
        EXPECT_EQ(std::string(error.what()), "mine");
    }
}

TEST(LargeStack, LeavesSignalsToItsCaller) {
    sigset_t inside, before, after;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
    run_with_large_stack([&] { ::pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
    ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
    EXPECT_TRUE(::sigismember(&inside, SIGINT));
    EXPECT_TRUE(::sigismember(&inside, SIGTERM));
    EXPECT_EQ(::sigismember(&after, SIGINT), ::sigismember(&before, SIGINT));
}

}  // namespace
}  // namespace autotune::runtime
