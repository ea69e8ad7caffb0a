#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/core/statistics/trial.h"

namespace autotune {

// Members are initialised with {} so that designated initialisers may leave them out without a warning from gcc 12.

// The part of a key that may differ: a row with other values is usable, shown as stale, and timed again first.
struct Provenance {
    std::string driver{};        // "580.159.04", or the CUDA version "13.0" if NVML is missing
    std::string nvrtc{};         // "13.0"
    std::string device_name{};   // label
    int power_limit_w = 0;       // 0: unknown
    std::string method{};        // the measuring method with its version, such as "stream-2 l2=cold data=normal"
    std::string tool_version{};  // "0.1.0"
    std::string date{};          // ISO 8601, UTC
};

// Another candidate of the final rounds, which the winner beat.
struct Finalist {
    std::string name{};  // Candidate::to_string(), or "cublas", "cublaslt", ...
    std::optional<Candidate> candidate{};
    Timing timing{};
    double ratio = 1;      // the time / the winner's, in the median over paired rounds
    double ratio_low = 1;  // bootstrap 95 % interval
    double ratio_high = 1;
    bool tie = false;
    // Times of one launch, measured in addition to the deciding time: right after another launch of the same kernel, and after a
    // kernel with an early trigger.
    std::optional<double> after_itself_us{}, after_trigger_us{};
    Conditions conditions{};  // conditions during the kernel's own launches: only the medians of clock and power
};

// The evidence for a winner. Plain facts; `autotune explain` describes them in words.
struct Evidence {
    int rounds = 0;
    // Such as "faster", "tie: previous winner", "faster for long at the power limit: ...", "only candidate".
    std::string decided_by{};
    std::optional<double> max_error{};  // the largest error as a share of the allowed error
    // Accumulation error as a share of its bound; the error of rounding the output is excluded.
    std::optional<double> accumulation_error{};
    std::uint64_t space_legal = 0;  // the legal configs of all families
    int tried = 0, failed = 0;      // candidates
    double seconds = 0;             // the whole tune
    double compile_seconds = 0, verify_seconds = 0, measure_seconds = 0;
    std::string stopped_by{};               // such as "expected gain", "budget", "space exhausted", "interrupted"
    std::optional<double> expected_gain{};  // the gain that a longer search was expected to bring, as a share of the time
    std::uint64_t seed = 0;
    Conditions conditions{};                              // the median over the final rounds
    std::vector<Finalist> finalists{};                    // by ascending ratio, the winner itself first
    std::vector<std::pair<std::string, int>> failures{};  // status -> count
};

struct Winner {
    std::string op{};
    std::string class_key{};  // Problem::class_key()
    std::vector<Extent> extents{};
    DeviceIdentity device{};
    std::string template_identity{};  // identity of candidate.family's template when it was tuned
    Candidate candidate{};
    Timing timing{};  // from the final rounds only
    CompileReport compile{};
    Provenance provenance{};
    Evidence evidence{};
    // Why an imported row's evidence is implausible. Such a row is not served until it is timed here. Empty: it is trusted.
    std::string doubt{};
    // The restriction of the search, such as "family=gemm/simt stages=3". Such a row is only served to requests with the same
    // restriction. It is no winner of the problem, because it was not compared with the rest. Empty if every family and config
    // was open.
    std::string restricted_to{};
    bool shipped = false;  // from the read-only layer
};

// A row of the trial table: the outcome of one candidate for one problem on one device.
struct StoredTrial {
    Trial trial{};
    std::string template_identity{};
    std::string nvrtc{};
    std::string method{};  // as in Provenance; empty if it was recorded before this column existed
    std::string date{};    // when it was recorded, filled by trials(); record() sets it
};

}  // namespace autotune
