#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "src/core/op/schema.h"

namespace autotune::test {

// Reduces text to letters, digits and underscores, which a test's name may have: "70x90x33_layout_tn".
inline std::string as_name(std::string text) {
    for (char& c : text) {
        const bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!is_plain) c = '_';
    }
    return text;
}

inline std::string words_of(const char* text) {
    return text;
}
inline std::string words_of(const std::string& text) {
    return text;
}
inline std::string words_of(int number) {
    return std::to_string(number);
}
inline std::string words_of(const ProblemRequest& request) {
    std::string words = request.op + " " + request.shape;
    for (const auto& [name, value] : request.options) words += " " + name + " " + value;
    return words;
}
template <class First, class Second>
std::string words_of(const std::tuple<First, Second>& pair) {
    return words_of(std::get<0>(pair)) + " " + words_of(std::get<1>(pair));
}

// The last argument of INSTANTIATE_TEST_SUITE_P: tests are named after their parameters.
struct NamedByParameter {
    template <class Parameter>
    std::string operator()(const ::testing::TestParamInfo<Parameter>& info) const {
        return as_name(words_of(info.param));
    }
};

}  // namespace autotune::test
