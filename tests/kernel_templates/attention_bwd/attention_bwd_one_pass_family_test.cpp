#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "kernel_templates/attention/device/mask.cuh"
#include "kernel_templates/attention_bwd/one_pass/key_order.cuh"
#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::attention_bwd_one_pass_family_test {
namespace {

class AttentionBwdOnePassFamily : public testing::Test {
  protected:
    Problem problem(const std::string& shape, std::map<std::string, std::string> options = {}) const {
        options.emplace("dtype", "bf16");
        return catalogue_.problem({.op = "attention_bwd", .shape = shape, .options = std::move(options)});
    }
    LaunchPlan usual(const Problem& problem) const {
        return family_.plan(problem, family_.default_config(problem, device_), device_);
    }

    const Catalogue& catalogue_ = test::embedded_catalogue();
    const Family& family_ = *catalogue_.find_family("attention_bwd/one_pass");
    Device device_ = *reference_device("sm_90a");
};

TEST_F(AttentionBwdOnePassFamily, HasHundredsOfLegalConfigs) {
    for (const char* shape : {"4x16x4096x128", "1x16x13312x64"})
        for (const char* deterministic : {"yes", "any"})
            EXPECT_GE(
                family_.space(problem(shape, {{"mask", "causal"}, {"deterministic", deterministic}}), device_).count().legal,
                100U)
                << shape << " " << deterministic;
}

TEST_F(AttentionBwdOnePassFamily, EveryProblemThatItTakesHasADefault) {
    for (const char* d : {"40", "48", "64", "72", "96", "104", "128", "192", "256"})
        for (const char* dv : {"8", "64", "128", "192"})
            for (const char* kv_len : {"1", "64", "65", "1000"}) {
                const Problem one = problem(std::string("1x2x100x") + d, {{"dv", dv}, {"kv-len", kv_len}});
                if (family_.refuses(one, device_)) continue;
                EXPECT_TRUE(family_.space(one, device_).contains(family_.default_config(one, device_))) << one.key();
            }
}

TEST_F(AttentionBwdOnePassFamily, OnlyAnOrderOfAddsGivesTheSameBits) {
    const Problem same = problem("4x16x4096x128"), any = problem("4x16x4096x128", {{"deterministic", "any"}});
    EXPECT_TRUE(usual(same).deterministic);
    EXPECT_FALSE(usual(any).deterministic);
    Config config = family_.default_config(any, device_);
    EXPECT_EQ(family_.space(same, device_).why_not(config),
              "dQ is added in no fixed order although the problem is deterministic");
}

// Logarithms, deltas and counters lie in dQ itself until dQ is written.
TEST_F(AttentionBwdOnePassFamily, TheWorkspaceIsDqInF32) {
    for (const char* deterministic : {"yes", "any"})
        for (const char* order : {"bhsd", "bshd"}) {
            const LaunchPlan plan = usual(problem("4x16x4096x128", {{"deterministic", deterministic}, {"order", order}}));
            EXPECT_EQ(plan.workspace_bytes, std::size_t{4} * 16 * 4096 * 128 * 4) << deterministic << " " << order;
            EXPECT_EQ(plan.workspace_zero_bytes, 0U);
        }
}

// 4096 queries are 51.2 tiles of 80.
TEST_F(AttentionBwdOnePassFamily, TheWorkspaceEndsWithTheRowsWhereTilesDoNot) {
    for (const char* deterministic : {"yes", "any"}) {
        const Problem one = problem("4x16x4096x128", {{"deterministic", deterministic}});
        Config config = family_.default_config(one, device_);
        config.set("block_q", 80), config.set("early_dv", 0);
        ASSERT_TRUE(family_.space(one, device_).contains(config));
        EXPECT_EQ(family_.plan(one, config, device_).workspace_bytes, std::size_t{4} * 16 * 4096 * 128 * 4) << deterministic;
    }
}

TEST_F(AttentionBwdOnePassFamily, ADqWithoutRoomForThemLeavesThemToTheWorkspace) {
    const LaunchPlan few_rows = usual(problem("4x16x1x128"));
    const std::size_t sums = std::size_t{4} * 16 * 64 * 128 * 4, vectors = std::size_t{4} * 16 * 256 * 8;
    EXPECT_GE(few_rows.workspace_bytes, sums + vectors);
}

TEST_F(AttentionBwdOnePassFamily, ADqInPiecesKeepsNothingElse) {
    Problem pieces = problem("4x16x4096x128");
    Tensor& dq = pieces.tensors[6];
    ASSERT_EQ(dq.name, "dq");
    dq.dims[0].stride += 1024;
    const std::size_t sums = std::size_t{4} * 16 * 4096 * 128 * 4, vectors = std::size_t{4} * 16 * (4096 + 128) * 8;
    EXPECT_GE(usual(pieces).workspace_bytes, sums + vectors);
}

// ---- which tiles meet, and the order of additions, checked with every pair of a query and a key ----

template <bool has_low, bool has_high>
void check_meetings(const attention_bwd::TileMeetings<has_low, has_high>& meetings) {
    const int key_tiles = (meetings.mask.kv_len + meetings.block_k - 1) / meetings.block_k;
    const int query_tiles = (meetings.q_len + meetings.block_q - 1) / meetings.block_q;
    for (int n = 0; n < query_tiles; ++n) {
        std::vector<int> adders;
        for (int tile = 0; tile < key_tiles; ++tile) {
            bool sees = false;
            for (int row = n * meetings.block_q; row < std::min((n + 1) * meetings.block_q, meetings.q_len); ++row)
                for (int key = tile * meetings.block_k; key < std::min((tile + 1) * meetings.block_k, meetings.mask.kv_len);
                     ++key)
                    sees = sees || meetings.mask.sees(row, key);
            const attention_bwd::TileRange range = meetings.of_keys(tile);
            ASSERT_EQ(n >= range.first && n < range.end, sees) << "queries " << n << " keys " << tile;
            if (sees) adders.push_back(tile);
        }
        const attention_bwd::TileRange met = meetings.of_queries(n);
        ASSERT_EQ(met.end - met.first, static_cast<int>(adders.size())) << "queries " << n;
        for (int i = 0; i < static_cast<int>(adders.size()); ++i) {
            const int tile = adders[static_cast<std::size_t>(i)];
            ASSERT_EQ(meetings.turn(n, tile, false), i);
            ASSERT_EQ(meetings.turn(n, tile, true), static_cast<int>(adders.size()) - 1 - i);
        }
    }
}

TEST(AttentionBwdTileMeetings, AreThoseOfAQueryThatSeesAKeyAndTurnsCountThem) {
    for (const int q_len : {1, 15, 16, 17, 40, 64, 65})
        for (const int kv_len : {1, 8, 31, 32, 33, 70})
            for (const int offset : {-40, -3, 0, 1, 7, kv_len - q_len}) {
                SCOPED_TRACE(std::to_string(q_len) + " " + std::to_string(kv_len) + " " + std::to_string(offset));
                check_meetings<false, false>({{0, 0, kv_len}, q_len, 16, 32});
                check_meetings<false, true>({{0, offset, kv_len}, q_len, 16, 32});
                check_meetings<true, true>({{offset - 9, offset + 2, kv_len}, q_len, 16, 32});
                check_meetings<true, false>({{offset, 0, kv_len}, q_len, 48, 16});
            }
}

}  // namespace
}  // namespace autotune::attention_bwd_one_pass_family_test
