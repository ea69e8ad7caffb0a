#include <gtest/gtest.h>

#include <autotune/autotune.hpp>
#include <set>
#include <string>

namespace {

// Tests of the C functions if no handle can be made, or before a handle is used. They need no driver.

TEST(CApi, GivesEveryStatusItsOwnSentence) {
    std::set<std::string> sentences;
    for (int status = AUTOTUNE_OK; status <= AUTOTUNE_INTERNAL_ERROR; ++status)
        sentences.insert(autotune_status_string(static_cast<autotune_status>(status)));
    EXPECT_EQ(sentences.size(), 13U);
    EXPECT_STREQ(autotune_status_string(static_cast<autotune_status>(99)), "unknown status");
}

TEST(CApi, GivesEveryOriginItsWord) {
    EXPECT_STREQ(autotune_origin_string(AUTOTUNE_ORIGIN_EXACT), "exact");
    EXPECT_STREQ(autotune_origin_string(AUTOTUNE_ORIGIN_SHIPPED), "shipped");
    EXPECT_STREQ(autotune_origin_string(AUTOTUNE_ORIGIN_NEAR), "near");
    EXPECT_STREQ(autotune_origin_string(AUTOTUNE_ORIGIN_DEFAULT), "default");
}

TEST(CApi, SaysItsVersion) {
    EXPECT_EQ(autotune_version(), AUTOTUNE_VERSION);
    EXPECT_STREQ(autotune_version_string(), "0.1.0");
}

TEST(CApi, RefusesNullPointers) {
    autotune_plan plan = nullptr;
    autotune_gemm_problem problem = {};
    size_t bytes = 0;
    autotune_origin origin = AUTOTUNE_ORIGIN_EXACT;
    EXPECT_EQ(autotune_create(nullptr, nullptr), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(autotune_gemm_plan(nullptr, &problem, &plan), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(autotune_gemm_plan(nullptr, &problem, nullptr), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(autotune_flush_misses(nullptr), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(autotune_plan_workspace(nullptr, &bytes), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(autotune_plan_workspace_zero(nullptr, &bytes), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(autotune_plan_origin(nullptr, &origin), AUTOTUNE_INVALID_ARGUMENT);
    int outdated = 0;
    EXPECT_EQ(autotune_plan_is_outdated(nullptr, &outdated), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_STREQ(autotune_plan_candidate(nullptr), "");
    EXPECT_EQ(autotune_gemm(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr),
              AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(autotune_tuned_gemm(nullptr, &problem, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
              AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_STRNE(autotune_last_error(nullptr), "");
}

TEST(CApi, LetsNothingBeDestroyed) {
    autotune_destroy(nullptr);
    autotune_plan_destroy(nullptr);
}

TEST(CApi, RefusesOptionsWithoutASizeBeforeItLooksForADriver) {
    autotune_options options = {};
    autotune_handle handle = nullptr;
    EXPECT_EQ(autotune_create(&handle, &options), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(handle, nullptr);
    EXPECT_NE(std::string(autotune_last_error(nullptr)).find("struct_size"), std::string::npos);
}

TEST(CppApi, ThrowsTheStatusWithItsSentence) {
    autotune::Options options;
    options.on_miss = static_cast<autotune_on_miss>(7);
    try {
        const autotune::Handle handle(options);
        FAIL() << "no exception";
    } catch (const autotune::StatusError& error) {
        EXPECT_EQ(error.status(), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_NE(std::string(error.what()).find("on_miss"), std::string::npos);
    }
}

}  // namespace
