#include "db/store/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "db/sqlite/schema.h"
#include "db/store/matching.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A database in memory that has winners of one class with the given extents.
class NearestTest : public ::testing::Test {
  protected:
    NearestTest() { prepare_schema(connection_); }

    void put(const std::vector<Problem>& problems) {
        Transaction transaction(connection_);
        for (const Problem& problem : problems) write_winner(connection_, sample_winner(problem));
        transaction.commit();
    }
    std::vector<double> distances(const Problem& wanted, std::size_t count) {
        std::vector<double> found;
        for (const NearRow& row : nearest_rows(connection_, problem_key_of(wanted, sample_device()), count))
            found.push_back(row.distance);
        return found;
    }

    Connection connection_{{.path = ":memory:"}};
};

// Extents from 1 to 4096, with more small ones than large ones.
std::vector<Problem> scattered(int count) {
    std::vector<Problem> problems;
    unsigned seed = 7;
    const auto next = [&seed] {
        seed = seed * 1664525U + 1013904223U;
        const unsigned bits = (seed >> 8) % 12;
        return std::int64_t{1} + (seed >> 12) % (2U << bits);
    };
    for (int i = 0; i < count; ++i) problems.push_back(sample_problem(next(), next(), next()));
    return problems;
}

TEST_F(NearestTest, FindsWhatALookAtAllRowsFinds) {
    std::vector<Problem> problems = scattered(600);
    put(problems);
    std::sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) { return a.key() < b.key(); });
    problems.erase(std::unique(problems.begin(), problems.end(), [](const auto& a, const auto& b) { return a.key() == b.key(); }),
                   problems.end());
    for (const Problem& wanted : scattered(40)) {
        std::vector<double> all;
        for (const Problem& each : problems)
            if (each.extents != wanted.extents) all.push_back(log_distance(each.extents, wanted.extents));
        std::sort(all.begin(), all.end());
        all.resize(8);
        std::vector<double> found = distances(wanted, 8);
        ASSERT_GE(found.size(), 8U);
        found.resize(8);
        EXPECT_THAT(found, ::testing::Pointwise(::testing::DoubleNear(1e-9), all)) << wanted.key();
    }
}

TEST_F(NearestTest, FindsFewWhereThereAreFew) {
    put({sample_problem(1, 1, 1), sample_problem(1 << 30, 1 << 30, 1 << 30)});
    EXPECT_THAT(distances(sample_problem(64, 64, 64), 8), SizeIs(2));
    EXPECT_THAT(distances(sample_problem(1, 1, 1), 8), SizeIs(1));
}

TEST_F(NearestTest, FindsNoneInAClassOrOnADeviceThatIsNotKnown) {
    EXPECT_THAT(distances(sample_problem(), 8), IsEmpty());
    put({sample_problem(64)});
    EXPECT_THAT(nearest_rows(connection_, problem_key_of(sample_problem(), other_device()), 8), IsEmpty());
}

TEST_F(NearestTest, PutsTheNewestFirstAmongEquallyDistant) {
    Winner winner = sample_winner(sample_problem(2048));
    Transaction transaction(connection_);
    for (const char* identity : {"aaaaaaaa", "bbbbbbbb", "cccccccc"}) {
        winner.template_identity = identity;
        write_winner(connection_, winner);
    }
    transaction.commit();
    const auto found = nearest_rows(connection_, problem_key_of(sample_problem(4096), sample_device()), 2);
    ASSERT_THAT(found, SizeIs(3));
    EXPECT_GT(found[0].id, found[1].id);
    EXPECT_GT(found[1].id, found[2].id);
}

// The first extent has more values than a search may visit, and all of them are nearer than any row.
TEST_F(NearestTest, FindsNearOnesWhereItCannotLookAtAll) {
    std::vector<Problem> problems;
    for (std::int64_t m = 0; m < 1500; ++m) problems.push_back(sample_problem(100'000 + m, 64, 64));
    put(problems);
    const std::vector<double> found = distances(sample_problem(100'750, 4096, 64), 8);
    ASSERT_GE(found.size(), 8U);
    EXPECT_NEAR(found.front(), std::log(64), 0.01);
    EXPECT_NEAR(found.back(), std::log(64), 0.02);
}

}  // namespace
}  // namespace autotune::db
