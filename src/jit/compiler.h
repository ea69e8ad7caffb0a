#pragma once

#include <memory>
#include <optional>
#include <string>

#include "src/core/statistics/trial.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/cubin_cache.h"
#include "src/jit/render.h"

namespace autotune::jit {

// The result of compiling: the instance, or why there is none. `rejected` is set when the compiler's report disqualifies it.
struct CompileResult {
    std::optional<Compiled> compiled;
    std::string log;               // the compiler's output
    std::string failure;           // the reason in one sentence, or "" if it compiled
    bool by_circumstance = false;  // the compiler lacked something, and the source is not at fault
    std::string rejected;          // "spills 128 bytes", "wgmma is serialised (C7511)"; empty if fine
};

// Reads registers, spilled bytes and the wgmma warnings from ptxas' verbose log, for the kernel named `symbol`.
CompileReport parse_report(const std::string& log, const std::string& symbol);
// Why an instance with this report is not worth timing; empty if it is worth timing.
std::string reject_reason(const CompileReport& report);
// The factor by which an instance with this report may exceed its predicted time; 1 if the report is fine.
double likely_slowdown(const CompileReport& report);

// Compiles in this process, through the cache. Used by compile workers and by the library.
CompileResult compile(const gpu::Nvrtc& nvrtc, const CubinCache& cache, const Rendered& rendered);

}  // namespace autotune::jit
