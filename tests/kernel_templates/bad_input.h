#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/support/refusal.h"

namespace autotune::test {

// A request that an op refuses, and the text that its message must contain.
struct BadInput {
    const char* name;
    const char* shape;
    std::map<std::string, std::string> options;
    const char* culprit;
    const char* remedy;
};

class BadInputTest : public ::testing::TestWithParam<BadInput> {
  protected:
    // `parse` makes a problem of a shape and options.
    template <class Parse>
    static void expect_refusal(const Parse& parse) {
        const BadInput& bad = GetParam();
        EXPECT_THAT(refusal_of([&] { parse(bad.shape, bad.options); }),
                    ::testing::AllOf(::testing::HasSubstr(bad.culprit), ::testing::HasSubstr(bad.remedy)));
    }
};

}  // namespace autotune::test
