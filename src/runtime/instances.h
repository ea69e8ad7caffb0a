#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "kernel_templates/catalogue.h"
#include "src/gpu/driver.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/cubin_cache.h"
#include "src/jit/render.h"
#include "src/runtime/log.h"
#include "src/runtime/settings.h"
#include "src/runtime/winners.h"

namespace autotune::runtime {

// Compiled code that the driver holds. Free of contexts: one serves every GPU of its architecture.
struct Instance {
    Candidate candidate;
    std::string arch;
    std::string nvrtc;  // version that compiled it
    std::string identity;
    std::string symbol;
    std::shared_ptr<const gpu::Library> library;
};

// Makes instances: loaded before, from the cubin cache, or by NVRTC. Thread-safe.
class Instances {
  public:
    Instances(const Settings& settings, const Catalogue& catalogue, std::shared_ptr<const gpu::Driver> driver, Log& log);

    // The instance of a candidate for a problem. A winner whose cubin is cached needs no NVRTC at all. May take a second.
    // REQUIRES: a context is current. Throws Error or Failure{compile failed}.
    std::shared_ptr<const Instance> make(const Found& found, const Problem& problem, const Device& device);

    // Those already loaded that are legal for the problem: no file, no compiler, no driver call.
    std::vector<std::shared_ptr<const Instance>> loaded_for(const Problem& problem, const Device& device) const;

  private:
    jit::Rendered rendered(const Candidate& candidate, const Problem& problem, const Device& device,
                           const std::string& nvrtc) const;
    std::shared_ptr<const Instance> loaded(const Candidate& candidate, const std::string& identity) const;
    std::shared_ptr<const Instance> load(const Candidate& candidate, const jit::Rendered& text, const std::string& nvrtc,
                                         const jit::Compiled& compiled);
    std::shared_ptr<const Instance> from_cache(const Candidate& candidate, const jit::Rendered& text, const std::string& nvrtc);
    std::shared_ptr<const Instance> compile(const Candidate& candidate, const jit::Rendered& text);
    const gpu::Nvrtc& compiler();

    const Settings& settings_;
    const Catalogue& catalogue_;
    std::shared_ptr<const gpu::Driver> driver_;
    Log& log_;
    jit::CubinCache cache_;
    std::mutex compile_mutex_;  // NVRTC is opened once, and one compile at a time leaves cores to the caller
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    mutable std::mutex mutex_;  // held for moments only
    std::vector<std::shared_ptr<const Instance>> instances_;
};

}  // namespace autotune::runtime
