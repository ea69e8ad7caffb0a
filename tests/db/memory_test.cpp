#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "db/text/shipped.h"
#include "tests/db/sample.h"
#include "tests/support/interposer/interposer.h"

namespace autotune::db {
namespace {

using namespace test;
using autotune::test::fail_from;
using autotune::test::stop_failing;
using ::testing::SizeIs;

// Refuses every allocation of a call, one by one, and then every one from the n-th on. The call throws std::bad_alloc or SQLite's
// error, or succeeds without the memory. The program continues, and the same object works again once there is memory.

class OutOfMemory : public ::testing::TestWithParam<long> {
  protected:
    void SetUp() override {
        if (!autotune::test::kCanCount) GTEST_SKIP() << "a sanitizer has an allocator of its own";
        ASSERT_TRUE(autotune::test::interposer_is_loaded());
    }
    // This many allocations are refused from the n-th on.
    static long most() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Memory, OutOfMemory, ::testing::Values(1, LONG_MAX), [](const auto& parameter) {
    return std::string(parameter.param == 1 ? "OneAllocation" : "EveryAllocationFromOneOn");
});

struct Case {
    std::function<void()> prepare;
    std::function<std::size_t()> call;  // returns how many rows it has found
    std::size_t expected = 0;
    std::function<void()> after = [] {};  // there is memory again
};

// Runs the call with fewer and fewer refusals until none hits it. Returns how often it ran out of memory.
int refuse_every_allocation(long most, const Case& what) {
    int times = 0;
    for (long n = 0;; ++n) {
        what.prepare();
        std::optional<std::size_t> found;
        bool sqlites = true;
        fail_from(n, most);
        try {
            found = what.call();
        } catch (const std::bad_alloc&) {
            ++times;
        } catch (const DatabaseError& error) {  // SQLite's own
            ++times;
            sqlites = sqlites && std::string_view(error.what()).find("want of memory") != std::string_view::npos;
        }
        const long refused = stop_failing();
        EXPECT_TRUE(sqlites) << n;
        EXPECT_EQ(found.value_or(what.expected), what.expected) << n;
        EXPECT_EQ(what.call(), what.expected) << n;
        what.after();
        if (refused == 0 || ::testing::Test::HasFailure()) return times;
    }
}

std::string line_of(std::int64_t m) {
    return records::to_json_line(sample_winner(sample_problem(m))) + "\n";
}

// The shipped layer over a folder of two files with four rows, one line that is not a row and one that is invalid.
class Layer {
  public:
    Layer() {
        std::string bad = line_of(7);
        bad.replace(bad.find("\"stages\":3"), 10, "\"stages\":x");
        write_file(folder_ / "a.jsonl", line_of(1) + line_of(2) + "garbage\n");
        write_file(folder_ / "b.jsonl", line_of(3) + bad + line_of(4));
        reopen();
    }
    void reopen() {
        shipped_.reset();
        log_.emplace(nullptr);
        shipped_.emplace(std::vector<std::string>{folder_.path()}, FormerTemplates{}, *log_);
    }
    Shipped& shipped() { return *shipped_; }
    const WarningLog& log() const { return *log_; }

  private:
    TempFolder folder_;
    std::optional<WarningLog> log_;
    std::optional<Shipped> shipped_;
};

TEST_P(OutOfMemory, OfReadingAShippedRowLeavesTheLayerWhole) {
    Layer layer;
    const ProblemKey subject = problem_key_of(sample_problem(3), sample_device());
    const int times = refuse_every_allocation(most(), {.prepare = [&] { layer.reopen(); },
                                                       .call = [&] { return layer.shipped().find(subject).size(); },
                                                       .expected = 1,
                                                       .after = [&] { EXPECT_THAT(layer.shipped().list({}), SizeIs(4)); }});
    EXPECT_GE(times, 100);
}

TEST_P(OutOfMemory, OfReadingAWholeClassLeavesTheLayerWhole) {
    Layer layer;
    const ProblemKey subject = problem_key_of(sample_problem(9), sample_device());
    const int times = refuse_every_allocation(most(), {.prepare = [&] { layer.reopen(); },
                                                       .call = [&] { return layer.shipped().nearest(subject, 9).size(); },
                                                       .expected = 4,
                                                       .after = [&] { EXPECT_THAT(layer.log().all(), SizeIs(2)); }});
    EXPECT_GE(times, 400);
}

// Counting does not parse. It lists the folder and reads the files.
TEST_P(OutOfMemory, OfListingTheFolderLeavesTheLayerWhole) {
    Layer layer;
    const int times =
        refuse_every_allocation(most(), {.prepare = [&] { layer.reopen(); },
                                         .call = [&] { return static_cast<std::size_t>(layer.shipped().count({})); },
                                         .expected = 5,
                                         .after = [&] { EXPECT_THAT(layer.log().all(), SizeIs(1)); }});
    EXPECT_GE(times, 10);
}

TEST_P(OutOfMemory, OfALineIsNoVerdictOnTheLine) {
    const std::string good = line_of(1);
    std::string unknown = good;
    unknown.replace(unknown.find("\"timing\""), 8, "\"timinG\"");
    for (const std::string& line : {good, unknown, good.substr(0, good.size() / 2), std::string("[[[[[[[[[[[[")}) {
        const std::string refusal = database_error_of([&] { records::from_json_line(line); });
        const int times = refuse_every_allocation(most(), {.prepare = [] {},
                                                           .call = [&]() -> std::size_t {
                                                               try {
                                                                   records::from_json_line(line);
                                                                   return 1;
                                                               } catch (const Error& error) {
                                                                   return error.what() == refusal ? 0 : 2;
                                                               }
                                                           },
                                                           .expected = refusal.empty() ? 1U : 0U});
        EXPECT_GE(times, 3) << line;
    }
}

TEST_P(OutOfMemory, OfOpeningLeavesTheFileToTheNextTry) {
    const TempFolder folder;
    const std::string path = folder / "autotune.db";
    Store::open({.path = path}).put(sample_winner());
    const auto open_and_count = [&] { return static_cast<std::size_t>(open_store({.path = path})->count({})); };
    EXPECT_GE(refuse_every_allocation(most(), {.prepare = [] {}, .call = open_and_count, .expected = 1}), 100);
}

TEST_P(OutOfMemory, OfPuttingStoresAllOrNothing) {
    const TempFolder folder;
    const std::string path = folder / "autotune.db";
    std::optional<Store> store = Store::open({.path = path});
    const Winner first = sample_winner(sample_problem(1)), second = sample_winner(sample_problem(2));
    // The next call after a failure must cope with the state that the failed one left.
    const auto put_both = [&]() -> std::size_t {
        const std::int64_t rows = store->count({});
        if (rows != 0 && rows != 2) return 0;
        store->put_all(std::array<Winner, 2>{first, second});
        return 1;
    };
    const auto empty = [&] {
        store = Store::open({.path = path});
        store->remove({});
    };
    EXPECT_GE(refuse_every_allocation(most(), {.prepare = empty, .call = put_both, .expected = 1}), 100);
}

// Rows of a database and of the shipped layer.
TEST_P(OutOfMemory, OfFindingAndOfNearLeavesTheStoreUsable) {
    const TempFolder folder;
    const std::string path = folder / "autotune.db";
    write_file(folder / "rows.jsonl", line_of(1) + line_of(2));
    Store::open({.path = path}).put(sample_winner(sample_problem(2)));
    std::optional<Store> store;
    const auto open = [&] { store = Store::open({.path = path, .read_only = true, .shipped = {folder / "rows.jsonl"}}); };
    const auto ask = [&] {
        return store->find(sample_problem(2), sample_device()).size() + store->near(sample_problem(2), sample_device(), 8).size();
    };
    EXPECT_GE(refuse_every_allocation(most(), {.prepare = open, .call = ask, .expected = 3}), 400);
}

}  // namespace
}  // namespace autotune::db

int main(int argc, char** argv) {
    if (autotune::test::kCanCount && !autotune::test::interposer_is_loaded()) {
        ::setenv("LD_PRELOAD", AUTOTUNE_INTERPOSER, 1);
        ::execv("/proc/self/exe", argv);
        return 127;
    }
    ::testing::InitGoogleMock(&argc, argv);
    return RUN_ALL_TESTS();
}
