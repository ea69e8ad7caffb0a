#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/space/config.h"

namespace autotune {

// A family and a config: the thing that is tried. `family` is the full name, "gemm/mma".
struct Candidate {
    std::string family;
    Config config;
    bool operator==(const Candidate&) const = default;
    auto operator<=>(const Candidate&) const = default;
    std::string to_string() const { return family + " " + config.to_string(); }
};

enum class TrialStatus : std::uint8_t {
    ok,
    compile_failed,  // NVRTC refused it, or the compiler crashed or used up its processor time
    rejected,        // compiled, but the compiler's report disqualifies it (spills, serialised wgmma)
    launch_refused,  // the driver refused the launch, and the context is still usable
    wrong_result,
    timed_out,      // its kernel did not end; a fact about the candidate only if the detail ends with kOfItsOwnTime
    crashed,        // a sticky CUDA error, or the GPU worker died
    out_of_memory,  // never a fact about the candidate: other processes may hold the memory
};
// Ends the detail of a trial that reached a limit on its own processor time. The time of other processes does not count there.
inline constexpr const char* kOfItsOwnTime = "of its own time";
std::string_view to_string(TrialStatus status);
std::optional<TrialStatus> parse_trial_status(std::string_view text);

// Time of one launch plan (all its steps), in microseconds. low/high bound the median with 95 % confidence.
struct Timing {
    double median_us = 0;
    double low_us = 0;
    double high_us = 0;
    double min_us = 0;
    int samples = 0;
};

// The compiler's report on an instance. -1: not known.
struct CompileReport {
    int registers = -1;
    int spill_bytes = 0;
    int static_smem_bytes = 0;
    bool wgmma_serialised = false;    // C7511, C7519
    bool setmaxnreg_ignored = false;  // C7508
    double compile_ms = 0;
    std::size_t cubin_bytes = 0;
    bool from_cache = false;
};

// The state of the card while something was timed. Unknown readings are nullopt: a machine without NVML is not an error.
struct Conditions {
    std::optional<int> sm_clock_mhz;
    std::optional<int> power_w;
    std::optional<int> temperature_c;
    std::optional<std::uint64_t> throttle_reasons;  // NVML's bits
};

// The result of trying a candidate.
struct Trial {
    Candidate candidate;
    TrialStatus status = TrialStatus::ok;
    std::optional<Timing> timing;     // only with status ok
    std::optional<double> max_error;  // the largest |error| / allowed error of the numeric test, if that test ran
    // The accumulation error as a fraction of its bound, at its largest element; the rounding of the output is excluded. Not
    // stored.
    std::optional<double> accumulation_error = {};
    CompileReport compile;
    std::string detail;  // one sentence for a person
    // The machine caused the failure (its load, its limits, other processes), so the trial says nothing about the candidate.
    // Never stored.
    bool by_circumstance = false;
};
// Whether a trial with this outcome, possibly from an older build, says something about its candidate: one that succeeded does,
// and so does one that failed by itself. Limits in wall time, a lack of memory and a process that was killed from outside are
// caused by the machine.
bool is_about_candidate(TrialStatus status, std::string_view detail);

// How a winner or kernel was found.
enum class Origin : std::uint8_t { exact, shipped, near, fallback };
// "exact", "shipped", "near", "default".
std::string_view to_string(Origin origin);
std::optional<Origin> parse_origin(std::string_view text);

}  // namespace autotune
