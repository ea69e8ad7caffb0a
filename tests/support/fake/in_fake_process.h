#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/fake/fake_run.h"

namespace autotune::test {

// Tests of our driver code against the fake: the fake is chosen when a process loads it, so a test runs its body in a process of
// its own. in_fake_process() is called at the head of a test: in the parent it starts this program again for the same test with
// the fakes on the library path, checks that it succeeded, and returns false; in that process it returns true.
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

}  // namespace autotune::test
