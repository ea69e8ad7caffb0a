#pragma once

#include <cstdint>

#include "src/core/problem/dtype.h"

namespace autotune {

// How a tensor is filled before a test, as data: kernel_templates/common/random.cuh generates the same numbers from it on the
// device and on the host. A value depends only on (seed, tensor, element) and is rounded once to the tensor's type.
struct Fill {
    enum class Kind : std::uint8_t {
        normal,     // close to N(centre, spread^2)
        integers,   // uniform in {low .. high}
        constant,   // centre
        nan,        // NaN everywhere: for data that must not be read
        one_hot,    // in each row, one random column holds `centre` and all others hold `spread`
        powers,     // 2 to the power of an integer in {low .. high}: scales with which exact sums stay exact
        uniform,    // centre + u * spread with u in [0, 1) in steps of 2^-16
        quantised,  // as normal, but rounded to `through` first: values that a narrower type holds exactly
        // All rows are equal and ascend from 0 in the first column to `high` in the last. A value differs by at most `low` from
        // what equal steps would give.
        offsets,
    };

    Kind kind = Kind::normal;
    std::int64_t low = -2, high = 2;
    float centre = 0, spread = 1;
    DType through = DType::f32;
    // Keeps the elements with (row + column) % every == 0 and sets the rest to zero; 1 keeps all. Row and column are the indices
    // in the last two dimensions.
    std::int64_t every = 1;

    static Fill normal(float mean = 0, float deviation = 1) { return {.centre = mean, .spread = deviation}; }
    // REQUIRES: low <= high.
    static Fill integers(std::int64_t low = -2, std::int64_t high = 2, std::int64_t every = 1) {
        return {.kind = Kind::integers, .low = low, .high = high, .every = every};
    }
    // Indices into `count` things, such as pages. REQUIRES: count > 0.
    static Fill indices(std::int64_t count) { return integers(0, count - 1); }
    // Fills with offsets that divide `total` rows into `parts` parts: the first row of each part, and `total` at the end, which
    // are parts + 1 columns. No part is longer than `longest`. REQUIRES: longest <= total <= parts * longest.
    static Fill offsets(std::int64_t total, std::int64_t parts, std::int64_t longest) {
        const std::int64_t most = (total + parts - 1) / parts, least = total / parts;
        const std::int64_t reach = (longest - most < least ? longest - most : least) / 2;
        return {.kind = Kind::offsets, .low = reach, .high = total};
    }
    static Fill constant(float value) { return {.kind = Kind::constant, .centre = value}; }
    static Fill nan() { return {.kind = Kind::nan}; }
    static Fill one_hot(float hot, float cold = 0) { return {.kind = Kind::one_hot, .centre = hot, .spread = cold}; }
    static Fill powers(std::int64_t low, std::int64_t high) { return {.kind = Kind::powers, .low = low, .high = high}; }
    // Positive scales that are not powers of two: uniform(0.5F, 1.5F) is [0.5, 2).
    static Fill uniform(float from, float width) { return {.kind = Kind::uniform, .centre = from, .spread = width}; }
    static Fill quantised(DType through, float deviation = 1) {
        return {.kind = Kind::quantised, .spread = deviation, .through = through};
    }
};

}  // namespace autotune
