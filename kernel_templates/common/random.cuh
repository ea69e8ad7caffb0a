// The numbers that operands are filled with. One text for device and host (fill.h), exact in integers and f32 without any
// rounding, so both give the same bits for the same (seed, operand, batch, row, col).
#pragma once

#ifdef __CUDACC__
#define AUTOTUNE_EVERYWHERE __device__ __forceinline__
#else
#define AUTOTUNE_EVERYWHERE inline
#endif

namespace autotune_random {

using Word = unsigned long long;

// Where an element stands: its number is a function of this alone.
struct Place {
    Word seed;
    int operand;
    long long batch;
    long long row;
    long long col;
};

// Finaliser of SplitMix64 (Steele, Lea, Flood 2014): every input bit reaches every output bit.
AUTOTUNE_EVERYWHERE Word mix(Word x) {
    x += 0x9E3779B97F4A7C15ULL;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
}

AUTOTUNE_EVERYWHERE Word hash(const Place& place) {
    Word x = mix(place.seed + static_cast<Word>(place.operand) * 0xD1342543DE82EF95ULL);
    x = mix(x ^ static_cast<Word>(place.batch));
    x = mix(x ^ static_cast<Word>(place.row));
    return mix(x ^ static_cast<Word>(place.col));
}

AUTOTUNE_EVERYWHERE int sum_of_fields(Word x) {
    return static_cast<int>((x & 0xFFFF) + ((x >> 16) & 0xFFFF) + ((x >> 32) & 0xFFFF) + (x >> 48));
}

// Close to N(0,1): the sum of 12 uniform 16-bit fields, of variance 1/12 each, in steps of 2^-17. The range is +-6 and the
// kurtosis 2.9. No logarithm or cosine: their last bits differ between host and device.
AUTOTUNE_EVERYWHERE float normal(const Place& place) {
    const Word first = hash(place);
    const Word second = mix(first);
    const int sum = sum_of_fields(first) + sum_of_fields(second) + sum_of_fields(mix(second));
    return static_cast<float>(2 * sum - 12 * 0xFFFF) * (1.0F / 131072.0F);
}

// Uniform in {-2, -1, 0, 1, 2}.
AUTOTUNE_EVERYWHERE float small_integer(const Place& place) {
    return static_cast<float>(static_cast<int>(hash(place) % 5) - 2);
}

}  // namespace autotune_random
