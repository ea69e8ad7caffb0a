#pragma once

#include <gtest/gtest.h>

#include <string>

#include "src/core/error.h"

namespace autotune::test {

// The message with which a call is refused as the caller's mistake; empty: it is not refused.
template <class Ask>
std::string refusal_of(const Ask& ask) {
    try {
        ask();
        return "";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage) << error.what();
        return error.what();
    }
}

}  // namespace autotune::test
