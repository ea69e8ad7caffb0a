#include "src/records/evidence_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "src/records/measuring_method.h"

namespace autotune {
namespace {

constexpr double kRounding = 1e-6;  // Texts and databases store doubles, and averages of samples may differ in the last bits.
constexpr double kLeastPossible_us = 0.05;
constexpr std::string_view kTooShort = "too short to measure";
constexpr double kLeastPlausible_us = 0.3;  // an empty launch takes about 1 us of a stream
constexpr double kPossibleFlopShare = 2;
// Cards of one architecture differ in their clocks, so a share slightly above 1 is plausible.
constexpr double kPlausibleFlopShare = 1.1;
constexpr double kPossibleByteShare = 16;
constexpr double kPlausibleByteShare = 1.1;
constexpr double kMostClock_mhz = 3500;
constexpr int kFewestSamples = 3;

std::string number(double value) {
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%.4g", value);
    return text.data();
}

// Returns nullopt if no interval is recorded.
std::optional<std::string> flaw_of(const Timing& timing, const std::string& whose) {
    if (timing.low_us == 0 && timing.high_us == 0) return std::nullopt;
    const double slack = timing.median_us * kRounding;
    if (timing.low_us <= timing.median_us + slack && timing.median_us <= timing.high_us + slack &&
        timing.min_us <= timing.median_us + slack) {
        return std::nullopt;
    }
    return whose + " median of " + number(timing.median_us) + " us is outside its interval, " + number(timing.low_us) + " to " +
           number(timing.high_us) + " us with a least of " + number(timing.min_us) + " us";
}

// FLOP per microsecond with the narrowest type of the problem. Consumer cards run f16 accumulation at 1024 per clock and SM,
// twice the rate with f32 accumulation that the device reports.
double peak_flop_per_us(const Winner& winner, const Problem& problem, const Device& device) {
    std::size_t narrowest_bytes = 2;
    for (const Tensor& tensor : problem.tensors) narrowest_bytes = std::min(narrowest_bytes, size_bytes(tensor.dtype));
    const double flop_per_clock_sm = std::max(device.tensor_flop_per_clock_sm(), 1024.0);
    const double recorded_mhz = std::min<double>(winner.evidence.conditions.sm_clock_mhz.value_or(0), kMostClock_mhz);
    const double clock_mhz = std::max(device.clock_mhz, recorded_mhz);
    return flop_per_clock_sm * 2 / static_cast<double>(std::max<std::size_t>(narrowest_bytes, 1)) * winner.device.sm_count *
           clock_mhz;
}

// Bytes per microsecond: the bandwidth of the well-known card, scaled by the width of the memory bus.
double peak_bytes_per_us(const Winner& winner, const Device& device) {
    const auto card = reference_device(device.arch());
    if (!card || card->identity.bus_bits == 0) return 0;
    return card->memory_gb_per_s * 1e3 * winner.device.bus_bits / card->identity.bus_bits;
}

struct Shares {
    double flops = 0;  // The share of the peak rate, or 0 if it is unknown.
    double bytes = 0;
};

Shares shares_of(const Winner& winner, const Op& op, const Problem& problem, const Device& device) {
    Shares shares;
    const double flop_peak = peak_flop_per_us(winner, problem, device), byte_peak = peak_bytes_per_us(winner, device);
    if (flop_peak > 0) shares.flops = op.flops(problem) / winner.timing.median_us / flop_peak;
    if (byte_peak > 0) shares.bytes = op.bytes(problem) / winner.timing.median_us / byte_peak;
    return shares;
}

std::string too_fast(const Winner& winner, double share, const char* what) {
    return "median_us of " + number(winner.timing.median_us) + " is " + number(share) + " times the " + what +
           " of the device's data sheet";
}

// Whether the data is too large for the cache, so that it must come from device memory.
bool exceeds_cache(const Winner& winner, const Op& op, const Problem& problem) {
    return !MeasuringMethod::of(winner.provenance.method).l2_warm && op.bytes(problem) > 4.0 * (1 << 20) * winner.device.l2_mib;
}

}  // namespace

std::optional<std::string> why_unmeasured(double median_us) {
    if (median_us >= kLeastPossible_us) return std::nullopt;
    return std::string(kTooShort) + ": " + number(median_us) + " us, and no kernel takes less than " + number(kLeastPossible_us) +
           " us";
}

bool says_unmeasured(std::string_view detail) {
    return detail.starts_with(kTooShort);
}

std::optional<std::string> why_impossible(const Winner& winner) {
    const std::optional<double>& error = winner.evidence.max_error;
    if (error && !(*error >= 0 && *error <= 1)) return "max_error is " + number(*error) + ", and 1 is what is allowed";
    if (!(winner.timing.median_us > 0)) return "median_us is " + number(winner.timing.median_us);
    if (auto why = flaw_of(winner.timing, "its")) return why;
    for (const Finalist& finalist : winner.evidence.finalists) {
        if (auto why = flaw_of(finalist.timing, "a finalist's")) return why;
    }
    return std::nullopt;
}

std::optional<std::string> why_impossible(const Winner& winner, const Op& op, const Problem& problem, const Device& device) {
    if (auto why = why_impossible(winner)) return why;
    if (auto why = why_unmeasured(winner.timing.median_us)) return "its median_us is " + *why;
    const Shares shares = shares_of(winner, op, problem, device);
    if (shares.flops > kPossibleFlopShare) return too_fast(winner, shares.flops, "arithmetic rate");
    if (shares.bytes > kPossibleByteShare) return too_fast(winner, shares.bytes, "memory rate");
    return std::nullopt;
}

std::string why_doubtful(const Winner& winner, const Op& op, const Problem& problem, const Device& device) {
    if (winner.timing.median_us < kLeastPlausible_us)
        return "median_us of " + number(winner.timing.median_us) + " is less than a launch takes";
    const Shares shares = shares_of(winner, op, problem, device);
    if (shares.flops > kPlausibleFlopShare) return too_fast(winner, shares.flops, "arithmetic rate");
    if (shares.bytes > kPlausibleByteShare && exceeds_cache(winner, op, problem))
        return too_fast(winner, shares.bytes, "memory rate");
    if (winner.timing.samples < kFewestSamples) return "it rests on " + std::to_string(winner.timing.samples) + " samples";
    if (!winner.evidence.max_error) return "no error of its answer is recorded";
    return {};
}

}  // namespace autotune
