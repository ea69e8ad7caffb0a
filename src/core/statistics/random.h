#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>

namespace autotune {

// Pseudo-random numbers that are the same on every platform and standard library; those of std's distributions are not.
// SplitMix64 (Steele, Lea, Flood 2014): 64 bits of state, passes BigCrush, any seed is good. Not for secrets.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15u;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }

    // Uniform in [0, bound). REQUIRES: 0 < bound < 2^32. The bias of the multiplication is below 2^-32.
    std::size_t below(std::size_t bound) { return static_cast<std::size_t>(((next() >> 32) * bound) >> 32); }
    // Uniform in [0, 1).
    double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
    double normal() {
        const double radius = std::sqrt(-2 * std::log(1 - uniform()));
        return radius * std::cos(2 * std::numbers::pi * uniform());
    }
    bool chance(double probability) { return uniform() < probability; }

    template <typename T>
    void shuffle(std::span<T> items) {
        for (std::size_t left = items.size(); left > 1; --left) std::swap(items[left - 1], items[below(left)]);
    }

  private:
    std::uint64_t state_;
};

}  // namespace autotune
