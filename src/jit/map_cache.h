#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "src/gpu/driver/driver.h"

namespace autotune::jit {

// Caches the tensor maps of one argument by address: a call with a known address needs no driver call. The table has a fixed
// size, so that neither a hit nor a miss allocates; entries replace each other. Thread-safe: a reader that meets a writer counts
// as a miss, and a writer that meets another stores nothing.
class MapCache {
  public:
    std::optional<gpu::TensorMap> find(gpu::DeviceAddress address) const noexcept {
        const Entry& entry = entries_[slot_of(address)];
        const std::uint32_t before = entry.sequence.load(std::memory_order_acquire);
        if ((before & 1) != 0 || before == 0) return std::nullopt;
        if (entry.address.load(std::memory_order_relaxed) != address) return std::nullopt;
        gpu::TensorMap map;
        for (std::size_t i = 0; i < map.words.size(); ++i) map.words[i] = entry.words[i].load(std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (entry.sequence.load(std::memory_order_relaxed) != before) return std::nullopt;
        return map;
    }

    void put(gpu::DeviceAddress address, const gpu::TensorMap& map) noexcept {
        Entry& entry = entries_[slot_of(address)];
        std::uint32_t before = entry.sequence.load(std::memory_order_relaxed);
        if ((before & 1) != 0) return;
        if (!entry.sequence.compare_exchange_strong(before, before + 1, std::memory_order_acquire)) return;
        std::atomic_thread_fence(std::memory_order_release);
        entry.address.store(address, std::memory_order_relaxed);
        for (std::size_t i = 0; i < map.words.size(); ++i) entry.words[i].store(map.words[i], std::memory_order_relaxed);
        entry.sequence.store(before + 2, std::memory_order_release);
    }

  private:
    static constexpr std::size_t kEntries = 16;

    struct Entry {
        std::atomic<std::uint32_t> sequence{0};  // odd while it is being written, 0 while empty
        std::atomic<gpu::DeviceAddress> address{0};
        std::array<std::atomic<std::uint64_t>, 16> words{};
    };

    // Addresses are multiples of 256 bytes, and larger operands lie far apart: the upper bits are hashed by multiplication.
    static std::size_t slot_of(gpu::DeviceAddress address) noexcept {
        return static_cast<std::size_t>(((address >> 4) * 0x9e3779b97f4a7c15U) >> 60);
    }

    std::array<Entry, kEntries> entries_;
};

}  // namespace autotune::jit
