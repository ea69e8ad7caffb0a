#include "src/runtime/memory/insert_only_map.h"

#include <gtest/gtest.h>

#include <thread>

namespace autotune::runtime {
namespace {

struct Number {
    int value = 0;
    bool operator==(const Number&) const = default;
    std::size_t hash() const { return static_cast<std::size_t>(value % 7); }  // collides on purpose
};

TEST(InsertOnlyMap, FindsWhatWasAssigned) {
    InsertOnlyMap<Number, int> map;
    for (int i = 0; i < 1000; ++i) map.assign({i}, i * 3);
    for (int i = 0; i < 1000; ++i) {
        const int* found = map.find({i});
        ASSERT_NE(found, nullptr) << i;
        EXPECT_EQ(*found, i * 3);
    }
    EXPECT_EQ(map.size(), 1000U);
}

TEST(InsertOnlyMap, FindsNothingElse) {
    InsertOnlyMap<Number, int> map;
    map.assign({1}, 1);
    EXPECT_EQ(map.find({8}), nullptr);
}

TEST(InsertOnlyMap, ReplacesAValueAndKeepsTheOldOneAlive) {
    InsertOnlyMap<Number, std::string> map;
    const std::string* old = map.assign({1}, "old");
    map.assign({1}, "new");
    EXPECT_EQ(*map.find({1}), "new");
    EXPECT_EQ(*old, "old");
    EXPECT_EQ(map.size(), 1U);
}

TEST(InsertOnlyMap, IsReadWhileItGrows) {
    InsertOnlyMap<Number, int> map;
    map.assign({0}, 0);
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 3; ++t) {
        readers.emplace_back([&] {
            while (!stop) {
                for (int i = 0; i < 600; i += 7) {
                    const int* found = map.find({i});
                    if (found != nullptr && *found != i) ++wrong;
                }
                if (map.find({0}) == nullptr) ++wrong;
            }
        });
    }
    for (int i = 1; i < 600; ++i) map.assign({i}, i);
    stop = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace autotune::runtime
