#include "src/runtime/memory/recent_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "src/dispatch/remembered.h"

namespace autotune::runtime::recent_map_test {
namespace {

struct Number {
    int value = 0;
    bool operator==(const Number&) const = default;
    std::size_t hash() const { return static_cast<std::size_t>(value % 7); }  // collides on purpose
};

std::atomic<int> alive{0};

struct Text {
    explicit Text(int given, bool is_wanted = false) : value(std::make_unique<int>(given)), stays(is_wanted) { ++alive; }
    Text(Text&& other) noexcept : value(std::move(other.value)), stays(other.stays) { ++alive; }
    ~Text() {
        if (value) *value = -1;
        --alive;
    }
    std::size_t bytes() const { return 1000; }
    bool must_stay() const { return stays; }
    std::unique_ptr<int> value;
    bool stays;
};

using Map = RecentMap<Number, Text>;

int value_in(const Map& map, int key) {
    const Reading reading;
    const Text* const found = map.find({key}, reading);
    return found == nullptr ? 0 : *found->value;
}

TEST(RecentMap, FindsWhatWasAssigned) {
    Map map(1 << 20);
    for (int i = 1; i <= 300; ++i) map.assign({i}, Text(i * 3));
    for (int i = 1; i <= 300; ++i) ASSERT_EQ(value_in(map, i), i * 3);
    EXPECT_EQ(value_in(map, 301), 0);
    EXPECT_EQ(map.size(), 300U);
}

TEST(RecentMap, ReplacesAValueAndFreesTheOldOne) {
    const int before = alive;
    Map map(1 << 20);
    for (int i = 0; i < 100; ++i) map.assign({1}, Text(i + 5));
    EXPECT_EQ(value_in(map, 1), 104);
    EXPECT_EQ(map.size(), 1U);
    EXPECT_LE(alive - before, 2);
}

TEST(RecentMap, KeepsWhatIsReadUntilTheReaderLeaves) {
    Map map(1 << 20);
    map.assign({1}, Text(10));
    {
        const Reading reading;
        const Text* const old = map.find({1}, reading);
        for (int i = 0; i < 20; ++i) map.assign({1}, Text(20 + i));
        EXPECT_EQ(*old->value, 10);
    }
    const int held = alive;
    map.assign({1}, Text(50));
    EXPECT_LT(alive, held);
}

TEST(RecentMap, StaysBelowItsBytesAndLetsTheOldestGo) {
    Map map(100'000);
    for (int i = 0; i < 10'000; ++i) {
        map.assign({i}, Text(i));
        EXPECT_EQ(value_in(map, 0), 0) << "asked for at every step";
        ASSERT_LE(map.bytes(), 100'000U);
    }
    EXPECT_EQ(value_in(map, 9'999), 9'999);
    EXPECT_GE(map.size(), 50U);
    const Reading reading;
    EXPECT_NE(map.find({0}, reading), nullptr);
    EXPECT_EQ(map.find({1}, reading), nullptr);
}

TEST(RecentMap, KeepsWhatMustStay) {
    Map map(100'000);
    for (int i = 1; i < 1'000; ++i) map.assign({i}, Text(i, i % 2 == 0));
    for (int i = 2; i < 1'000; i += 2) ASSERT_EQ(value_in(map, i), i);
}

TEST(RecentMap, IsReadByManyThreadsWhileEntriesLeave) {
    Map map(50'000);
    map.assign({0}, Text(0, true));
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 6; ++t) {
        readers.emplace_back([&, t] {
            for (int round = 0; !stop; ++round) {
                const Reading reading;
                const int key = (round * 7 + t) % 400;
                const Text* const found = map.find({key}, reading);
                if (found != nullptr && *found->value != key) ++wrong;
                if (map.find({0}, reading) == nullptr) ++wrong;
            }
        });
    }
    for (int round = 0; round < 20; ++round)
        for (int i = 1; i < 400; ++i) map.assign({i}, Text(i));
    stop = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0);
}

// Threads start and end, like those of a server: their records are reused.
TEST(RecentMap, IsReadByThreadsThatEnd) {
    Map map(50'000);
    for (int i = 0; i < 200; ++i) {
        std::thread([&] { value_in(map, i); }).join();
        map.assign({i}, Text(i));
    }
    EXPECT_LE(map.bytes(), 50'000U);
}

TEST(Remembered, ForgetsTheHalfThatWasAskedForLongestAgo) {
    dispatch::Remembered<int> all(100);
    for (int i = 0; i < 1000; ++i) {
        all.add(std::to_string(i), i);
        ASSERT_NE(all.find("0"), nullptr) << i;
    }
    EXPECT_LE(all.size(), 100U);
    EXPECT_NE(all.find("999"), nullptr);
    EXPECT_EQ(all.find("500"), nullptr);
    EXPECT_EQ(all.add("999", 5), 999) << "what is known stays";
}

}  // namespace
}  // namespace autotune::runtime::recent_map_test
