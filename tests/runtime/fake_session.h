// Shared by the library's tests on the scripted driver: a program's session, its threads, and common names.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "tests/runtime/session.h"
#include "tests/support/fake/fake_test.h"

namespace autotune::runtime::test {

// Runs body(i) on `count` threads at once, each with the session's context.
inline void on_threads(Session& session, int count, const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
        threads.emplace_back([&, i] {
            session.context.make_current();
            body(i);
        });
    }
    for (std::thread& thread : threads) thread.join();
}

// How many elements of a product by tuned_gemm() are wrong, after the stream has finished.
inline int wrong_when_tuned(const Handle& handle, const autotune_gemm_problem& problem, const GemmData& data,
                            const gpu::Stream& stream) {
    tuned_gemm(handle, problem, {data.a(), data.b(), data.c()}, stream.handle());
    stream.synchronize();
    return data.wrong(1, 0);
}

}  // namespace autotune::runtime::test

namespace autotune::runtime {

using autotune::test::fake_test;
using autotune::test::in_fake_process;
using fake::Sandbox;
using test::gemm;
using test::GemmData;
using test::on_threads;
using test::run_tuned;
using test::Session;
using test::status_of;
using test::wrong_when_tuned;
using ::testing::HasSubstr;

}  // namespace autotune::runtime
