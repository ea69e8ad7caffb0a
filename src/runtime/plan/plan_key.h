#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace autotune::runtime {

// Key of a plan: the context and everything in the caller's problem that may require another kernel, as plain words.
struct PlanKey {
    std::array<std::uint64_t, 12> words{};

    bool operator==(const PlanKey&) const = default;
    std::size_t hash() const noexcept {
        std::uint64_t hash = 0x9e3779b97f4a7c15U;
        for (const std::uint64_t word : words) {
            hash ^= word;
            hash *= 0xff51afd7ed558ccdU;
            hash ^= hash >> 32;
        }
        return static_cast<std::size_t>(hash);
    }
    struct Hash {
        std::size_t operator()(const PlanKey& key) const noexcept { return key.hash(); }
    };
};

}  // namespace autotune::runtime
