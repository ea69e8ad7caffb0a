// Many processes use one file: nothing is lost, no process fails, the file passes its checks. A few seconds here;
// AUTOTUNE_LOAD_SECONDS=600 is the soak.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>

#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using Clock = std::chrono::steady_clock;

constexpr int kWriters = 16;
constexpr int kReaders = 64;
constexpr std::int64_t kRowsOfAWriter = 1000;

double seconds_wanted() {
    const char* text = std::getenv("AUTOTUNE_LOAD_SECONDS");
    return text == nullptr ? 3 : std::atof(text);
}

pid_t start(const std::function<bool()>& act) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    bool held = false;
    try {
        held = act();
    } catch (...) {
    }
    ::_exit(held ? 0 : 1);
}

// Writer w has the extents 1000 w to 1000 w + 999. One row stores how many it has put.
bool write_until(const std::string& path, int writer, Clock::time_point end) {
    Store store = Store::open({.path = path, .busy_timeout_ms = 60'000});
    for (std::int64_t count = 1; Clock::now() < end; ++count) {
        const Problem problem = sample_problem(kRowsOfAWriter * (writer + 1) + count % kRowsOfAWriter);
        store.put(sample_winner(problem, 1.0 + static_cast<double>(count)));
        if (store.find(problem, sample_device()).size() != 1) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
}

bool read_until(const std::string& path, int reader, Clock::time_point end) {
    const Store store = Store::open({.path = path, .read_only = true, .busy_timeout_ms = 60'000});
    std::size_t least = 0;
    while (Clock::now() < end) {
        const Problem problem = sample_problem(kRowsOfAWriter * (reader % kWriters + 1) + 1);
        const std::size_t found = store.find(problem, sample_device()).size();
        if (found < least || !store.warnings().empty()) return false;
        least = found;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return true;
}

TEST(Load, SixteenWritersAndSixtyFourReadersLoseNothing) {
    const TempFolder folder;
    const std::string path = folder / "a.db";
    Store::open({.path = path});
    const auto end = Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * seconds_wanted()));
    std::vector<pid_t> children;
    for (int writer = 0; writer < kWriters; ++writer) children.push_back(start([&] { return write_until(path, writer, end); }));
    for (int reader = 0; reader < kReaders; ++reader) children.push_back(start([&] { return read_until(path, reader, end); }));
    for (const pid_t child : children) {
        int status = 0;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    const Store store = Store::open({.path = path});
    EXPECT_EQ(store.verify_integrity(), "");
    EXPECT_GE(store.count({}), kWriters);
    RecordProperty("winners", std::to_string(store.count({})));
}

}  // namespace
}  // namespace autotune::db
