#pragma once

#include <memory>
#include <optional>
#include <string>

#include "src/core/statistics/trial.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/cubin_cache.h"
#include "src/jit/render.h"

namespace autotune::jit {

// What compiling gave: the instance, or why there is none. `rejected` is set when the compiler's report disqualifies it.
struct CompileResult {
    std::optional<Compiled> compiled;
    std::string log;               // the compiler's own words
    std::string failure;           // one sentence; empty if compiled
    bool by_circumstance = false;  // it failed by what the compiler lacks, not by the source
    std::string rejected;          // "spills 128 bytes", "wgmma is serialised (C7511)"; empty if fine
};

// Reads registers, spill bytes and the wgmma warnings out of ptxas' verbose log, for the kernel named `symbol`.
CompileReport parse_report(const std::string& log, const std::string& symbol);
// Why an instance with this report is not worth a GPU's time; empty if it is.
std::string reject_reason(const CompileReport& report);
// How many times as long as predicted an instance with this report may take; 1 if it is fine.
double likely_slowdown(const CompileReport& report);

// Compiles in this process, through the cache. Used by compile workers and by the library.
CompileResult compile(const gpu::Nvrtc& nvrtc, const CubinCache& cache, const Rendered& rendered);

}  // namespace autotune::jit
