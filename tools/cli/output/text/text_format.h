#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "db/winner_store.h"
#include "src/catalogue/catalogue.h"
#include "src/core/op/op.h"
#include "tools/cli/output/terminal/table.h"
#include "tuner/session/tune.h"

namespace autotune::cli {

// ---- numbers for readers ----
std::string us_text(double us);                   // "112.3", four significant digits
std::string interval_text(const Timing& timing);  // "112.1 .. 112.6"
std::string seconds_text(double seconds);         // "8.2 s", "3 min 05 s"
std::string bytes_text(std::size_t bytes);        // "48 KiB"
std::string count_text(std::uint64_t count);      // "12,345"
// "40.0 s", "200 trials" or "30.0 s or 200 trials": the most that a search takes.
std::string budget_text(const tuner::Budget& budget);

// The op's rate in its unit, 10^12 floating-point operations or 10^9 bytes per second.
double rate(const Op& op, const Problem& problem, double us);
std::string rate_text(const Op& op, const Problem& problem, double us);
std::string rate_title(const Op& op);  // "TFLOP/s"

// An op, a shape and the words of its class: "gemm 4096x4096x2048  f16 f16 f16 ... nn".
std::string problem_text(const Problem& problem);
// "NVIDIA H200 (sm_90a, 132 SMs)".
std::string device_text(const DeviceIdentity& identity);
// The architecture; empty for an unsupported device.
std::string arch_or_empty(const DeviceIdentity& identity);

// The word for the state in JSON: "tuned", "fresh", "failed", ...
std::string_view state_text(tuner::SweepItem::State state);

// The finalists' table of a tune. Unless `full`, parameters common to all rows are printed once, above the table.
std::string finalists_table(const db::Evidence& evidence, const Op& op, const Problem& problem, bool full);

}  // namespace autotune::cli
