#include "src/jit/map_cache.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace autotune::jit {
namespace {

gpu::TensorMap map_of(std::uint64_t value) {
    gpu::TensorMap map;
    map.words.fill(value);
    return map;
}

TEST(MapCache, FindsNothingAtFirst) {
    const MapCache cache;
    EXPECT_FALSE(cache.find(0));
    EXPECT_FALSE(cache.find(0x1000));
}

TEST(MapCache, FindsWhatWasPutForThatAddressAlone) {
    MapCache cache;
    cache.put(0x1000, map_of(7));
    ASSERT_TRUE(cache.find(0x1000));
    EXPECT_EQ(cache.find(0x1000)->words, map_of(7).words);
    EXPECT_FALSE(cache.find(0x2000));
}

TEST(MapCache, ReplacesWhatStandsInTheWay) {
    MapCache cache;
    for (gpu::DeviceAddress address = 0x1000; address < 0x100000; address += 0x1000) {
        cache.put(address, map_of(address));
        ASSERT_TRUE(cache.find(address));
        EXPECT_EQ(cache.find(address)->words[15], address);
    }
}

TEST(MapCache, NeverGivesAMixOfTwoMaps) {
    MapCache cache;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint64_t i = 0; i < 20'000; ++i) {
                const gpu::DeviceAddress address = 0x1000 * (1 + (i + t) % 40);
                cache.put(address, map_of(address));
                const auto found = cache.find(address);
                if (found && found->words != map_of(address).words) ++wrong;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace autotune::jit
