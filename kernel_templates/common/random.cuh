// The numbers that tensors are filled with. One text for device and host (fill.h), exact in integers and f64 except for one
// addition, so both give the same bits for the same (seed, tensor, batch, row, col).
#pragma once

#ifdef __CUDACC__
#define AUTOTUNE_EVERYWHERE __device__ __forceinline__
#else
#define AUTOTUNE_EVERYWHERE inline
#endif

namespace autotune_random {

using Word = unsigned long long;

// An element's position: its number is a function of this alone.
struct Place {
    Word seed;
    int tensor;
    long long batch;
    long long row;
    long long col;
};

// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit affects every output bit.
AUTOTUNE_EVERYWHERE Word mix(Word x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

AUTOTUNE_EVERYWHERE Word hash(const Place& place) {
    Word x = mix(place.seed + static_cast<Word>(place.tensor) * 0xD1342543DE82EF95ULL);
    x = mix(x ^ static_cast<Word>(place.batch));
    x = mix(x ^ static_cast<Word>(place.row));
    return mix(x ^ static_cast<Word>(place.col));
}

AUTOTUNE_EVERYWHERE int sum_of_fields(Word x) {
    return static_cast<int>((x & 0xFFFF) + ((x >> 16) & 0xFFFF) + ((x >> 32) & 0xFFFF) + (x >> 48));
}

// Close to N(0,1): the sum of 12 uniform 16-bit fields, of variance 1/12 each, in steps of 2^-17. The range is +-6 and the
// kurtosis 2.9. It uses no logarithm or cosine, because their last bits differ between host and device.
AUTOTUNE_EVERYWHERE float normal(const Place& place) {
    const Word first = hash(place);
    const Word second = mix(first);
    const int sum = sum_of_fields(first) + sum_of_fields(second) + sum_of_fields(mix(second));
    return static_cast<float>(2 * sum - 12 * 0xFFFF) * (1.0F / 131072.0F);
}

// Uniform in {low .. high}.
AUTOTUNE_EVERYWHERE long long integer(const Place& place, long long low, long long high) {
    return low + static_cast<long long>(hash(place) % (static_cast<Word>(high - low) + 1));
}

// Uniform in [0, 1), in steps of 2^-16.
AUTOTUNE_EVERYWHERE float fraction(const Place& place) {
    return static_cast<float>(hash(place) & 0xFFFF) * (1.0F / 65536.0F);
}

// 2 to the power of `exponent`, which must be that of a normal double.
AUTOTUNE_EVERYWHERE double power_of_two(long long exponent) {
    double value = 1;
    for (; exponent > 0; --exponent) value *= 2;
    for (; exponent < 0; ++exponent) value *= 0.5;
    return value;
}

// Fill of src/core/op/fill.h: kinds in its order.
enum FillKind { kNormal, kIntegers, kConstant, kNan, kOneHot, kPowers, kUniform, kQuantised, kOffsets };
struct Fill {
    int kind;
    float centre, spread;
    long long low, high;
    long long every;
    long long cols;  // the length of a row, for kOneHot and kOffsets
};

// Whether an element is kept; all others are zero.
AUTOTUNE_EVERYWHERE bool is_kept(const Fill& fill, const Place& place) {
    return fill.every <= 1 || (place.row + place.col) % fill.every == 0;
}

// The number of a kept element, before it is rounded to the tensor's type; the caller handles kNan. A product of two floats is exact in
// f64, so a fused addition changes nothing.
AUTOTUNE_EVERYWHERE double number(const Fill& fill, const Place& place) {
    const double centre = static_cast<double>(fill.centre);
    const double spread = static_cast<double>(fill.spread);
    switch (fill.kind) {
        case kIntegers:
            return static_cast<double>(integer(place, fill.low, fill.high));
        case kConstant:
            return centre;
        case kOneHot: {
            const Place row = {place.seed, place.tensor, place.batch, place.row, 0};
            return integer(row, 0, fill.cols - 1) == place.col ? centre : spread;
        }
        case kPowers:
            return power_of_two(integer(place, fill.low, fill.high));
        case kUniform:
            return centre + spread * static_cast<double>(fraction(place));
        case kOffsets: {
            const Place column = {0, 0, 0, 0, place.col};
            const bool is_end = place.col == 0 || place.col == fill.cols - 1;
            const long long even = fill.high * place.col / (fill.cols > 1 ? fill.cols - 1 : 1);
            return static_cast<double>(even + (is_end ? 0 : integer(column, -fill.low, fill.low)));
        }
        default:
            return centre + spread * static_cast<double>(normal(place));
    }
}

}  // namespace autotune_random
