// Conversion between f64 and a number format that is described by data. So kernels that only move and compare values need no code
// for a new element type. Device and host include this file, and harness_format() makes the description of a DType. The bits are
// those of encode() and decode() in src/core/problem/dtype.h.
#pragma once

#ifdef __CUDACC__
#include "common/random.cuh"
#else
#include <kernel_templates/common/random.cuh>
#endif

namespace autotune_number {

using Word = unsigned long long;

// A format in one word, so that it is one kernel parameter: bits | exponent_bits << 8 | mantissa_bits << 16 | has_infinity << 24. Without
// exponent bits it is an integer in two's complement, or one without sign if all of its bits are the mantissa's.
struct Format {
    Word packed;

    AUTOTUNE_EVERYWHERE int bits() const { return static_cast<int>(packed & 0xFF); }
    AUTOTUNE_EVERYWHERE int exponent_bits() const { return static_cast<int>(packed >> 8 & 0xFF); }
    AUTOTUNE_EVERYWHERE int mantissa_bits() const { return static_cast<int>(packed >> 16 & 0xFF); }
    AUTOTUNE_EVERYWHERE bool has_infinity() const { return (packed >> 24 & 1) != 0; }
    AUTOTUNE_EVERYWHERE bool is_integer() const { return exponent_bits() == 0; }
    AUTOTUNE_EVERYWHERE bool is_unsigned() const { return is_integer() && mantissa_bits() == bits(); }
    AUTOTUNE_EVERYWHERE int bias() const { return (1 << (exponent_bits() - 1)) - 1; }
    AUTOTUNE_EVERYWHERE Word sign() const { return Word{1} << (bits() - 1); }
    // The first magnitude above the finite ones: infinity or, without infinity, the only NaN.
    AUTOTUNE_EVERYWHERE Word end_of_finite() const {
        return has_infinity() ? ((Word{1} << exponent_bits()) - 1) << mantissa_bits() : sign() - 1;
    }
};

AUTOTUNE_EVERYWHERE Word bits_of(double value) {
#ifdef __CUDACC__
    return static_cast<Word>(__double_as_longlong(value));
#else
    Word bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits;
#endif
}
AUTOTUNE_EVERYWHERE double double_from(Word bits) {
#ifdef __CUDACC__
    return __longlong_as_double(static_cast<long long>(bits));
#else
    double value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
#endif
}

constexpr Word kSign = Word{1} << 63;
constexpr Word kInfinity = Word{0x7FF} << 52;
constexpr Word kQuietNan = Word{0x7FF8} << 48;

// `value` shifted right by `shift` bits. It is rounded to nearest, ties to even.
AUTOTUNE_EVERYWHERE Word shifted_to_even(Word value, int shift) {
    if (shift <= 0) return value << -shift;
    if (shift > 63) return 0;
    const Word kept = value >> shift;
    const Word rest = value & ((Word{1} << shift) - 1);
    const Word half = Word{1} << (shift - 1);
    return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

AUTOTUNE_EVERYWHERE Word encode_integer(const Format& format, double value) {
    if (value != value) return 0;
    const bool is_negative = value < 0;
    const double magnitude = is_negative ? -value : value;
    const double limit = 2.0 * static_cast<double>(Word{1} << (format.mantissa_bits() - 1));
    const Word most = ~Word{0} >> (64 - format.mantissa_bits());
    const Word mask = ~Word{0} >> (64 - format.bits());
    if (is_negative && format.is_unsigned()) return 0;
    if (magnitude >= (is_negative ? limit : limit - 1)) return is_negative ? format.sign() : most;
    // To nearest, ties to even. Above 2^53 nothing is lost.
    Word whole = static_cast<Word>(magnitude);
    const double rest = magnitude - static_cast<double>(whole);
    if (rest > 0.5 || (rest == 0.5 && (whole & 1) != 0)) ++whole;
    return (is_negative ? ~whole + 1 : whole) & mask;
}

// The largest error of rounding `value` to the format once: half the distance to the next number. 0 if this is too
// small for a double.
AUTOTUNE_EVERYWHERE double half_spacing(const Format& format, double value) {
    if (format.is_integer()) return 0.5;
    const int least = 1 - format.bias();
    const int exponent = static_cast<int>(bits_of(value) >> 52 & 0x7FF) - 1023;
    const int half = (exponent > least ? exponent : least) - format.mantissa_bits() - 1;
    return half < -1022 ? 0.0 : double_from(static_cast<Word>(half + 1023) << 52);
}

// The bits of `value` rounded once to the format. REQUIRES: a floating-point format has at most 52 bits of mantissa and 11 of
// exponent.
AUTOTUNE_EVERYWHERE Word encode(const Format& format, double value) {
    if (format.is_integer()) return encode_integer(format, value);
    const Word bits = bits_of(value);
    if (format.bits() == 64) return bits;
    const Word sign = (bits & kSign) != 0 ? format.sign() : 0;
    const Word magnitude = bits & ~kSign;
    if (magnitude > kInfinity) return format.sign() - 1;
    const Word past_end = format.has_infinity() ? format.end_of_finite() : format.end_of_finite() - 1;
    // Exponent of the leading bit in the format's terms. f64 subnormals are below every narrower format's least number.
    const int exponent = static_cast<int>(magnitude >> 52) - 1023 + format.bias();
    if (exponent > 1 << format.exponent_bits()) return sign | past_end;
    const Word significand = (magnitude & ((Word{1} << 52) - 1)) | (Word{1} << 52);
    const int lost = 52 - format.mantissa_bits();
    // A mantissa that is rounded up to the next power of two carries into the exponent field by itself.
    const Word rounded = exponent >= 1 ? (static_cast<Word>(exponent - 1) << format.mantissa_bits()) + shifted_to_even(significand, lost)
                                       : shifted_to_even(significand, lost + 1 - exponent);
    return sign | (rounded < past_end ? rounded : past_end);
}

// The value of a format's bits. Exact, except for 64-bit integers above 2^53.
AUTOTUNE_EVERYWHERE double decode(const Format& format, Word bits) {
    if (format.is_unsigned()) return static_cast<double>(bits & (~Word{0} >> (64 - format.bits())));
    if (format.is_integer()) {
        const int unused = 64 - format.bits();
        return static_cast<double>(static_cast<long long>(bits << unused) >> unused);
    }
    if (format.bits() == 64) return double_from(bits);
    const Word sign = (bits & format.sign()) != 0 ? kSign : 0;
    const Word magnitude = bits & (format.sign() - 1);
    if (format.has_infinity() && magnitude == format.end_of_finite()) return double_from(sign | kInfinity);
    if (magnitude >= format.end_of_finite()) return double_from(kQuietNan);
    const int exponent = static_cast<int>(magnitude >> format.mantissa_bits());
    const Word mantissa = magnitude & ((Word{1} << format.mantissa_bits()) - 1);
    if (exponent == 0) {  // a multiple of the least number, which is a power of two
        const int least = 1 - format.bias() - format.mantissa_bits();
        const double value = static_cast<double>(mantissa) * double_from(static_cast<Word>(least + 1023) << 52);
        return sign != 0 ? -value : value;
    }
    return double_from(sign | static_cast<Word>(exponent - format.bias() + 1023) << 52 | mantissa << (52 - format.mantissa_bits()));
}

}  // namespace autotune_number
