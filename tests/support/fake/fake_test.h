#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "tests/support/fake/fake_run.h"

namespace autotune::test {

// A fake is chosen when a process loads it, so a test of code that calls the driver runs in a process of its own: this program
// again for the same test with the fakes on the library path. The parent starts it, checks that it succeeded, and returns false;
// in that process in_fake_process() returns true. For tests that start several such processes; all others call fake_test().
inline bool in_fake_process(fake::Sandbox& sandbox, const fake::RunOptions& options = {}) {
    if (std::getenv("AUTOTUNE_TEST_IN_FAKE") != nullptr) return true;
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = std::string(test->test_suite_name()) + "." + test->name();
    fake::RunOptions inner = options;
    inner.environment.emplace_back("AUTOTUNE_TEST_IN_FAKE", "1");
    inner.environment.emplace_back("GTEST_OUTPUT", "");
    const auto outcome = sandbox.run({std::filesystem::read_symlink("/proc/self/exe").string(), "--gtest_filter=" + name}, inner);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    EXPECT_NE(outcome.out.find("[  PASSED  ] 1 test."), std::string::npos) << outcome.out;
    return false;
}

// The machine of a test: the script of the fakes (README.md in this folder) and the options of the process.
struct FakeMachine {
    FakeMachine(const char* of_script = "", fake::RunOptions of_run = {}) : script(of_script), options(std::move(of_run)) {}
    FakeMachine(std::string of_script, fake::RunOptions of_run = {}) : script(std::move(of_script)), options(std::move(of_run)) {}

    std::string script;
    fake::RunOptions options;
};

// A whole test: `body` in a process of its own, then in this process `checks` on the calls that the fakes received.
inline void fake_test(const FakeMachine& machine, const std::function<void()>& body,
                      const std::function<void(const fake::Sandbox&)>& checks = {}) {
    fake::Sandbox sandbox(machine.script);
    if (in_fake_process(sandbox, machine.options)) {
        body();
    } else if (checks) {
        checks(sandbox);
    }
}

}  // namespace autotune::test
