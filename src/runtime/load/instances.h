#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/dispatch/choice.h"
#include "src/gpu/driver/driver.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/cubin_cache.h"
#include "src/jit/render.h"
#include "src/runtime/api/log.h"
#include "src/runtime/api/settings.h"
#include "src/runtime/load/load_gate.h"
#include "src/runtime/load/single_flight.h"

namespace autotune::runtime {

// Compiled code that the driver holds. Free of contexts: one serves every GPU of its architecture.
struct Instance {
    Candidate candidate;
    std::string arch;
    std::string nvrtc;   // version that compiled it
    std::string source;  // what its source follows from: see Instances::source_of()
    std::string symbol;
    std::string rejected;  // why the compiler's report disqualifies it: slow, not wrong; empty if it is fine
    double slowdown = 1;   // what it may take for that over its prediction
    std::shared_ptr<const gpu::Library> library;
};

// Makes instances: loaded before, from the cubin cache, or by NVRTC. Thread-safe: threads compile different instances at the same
// time, and one instance once.
class Instances {
  public:
    Instances(const Settings& settings, const Catalogue& catalogue, std::shared_ptr<const gpu::Driver> driver, Log& log,
              LoadGate& gate);

    // The instance of a candidate for a problem. One that is loaded is found without rendering it, whichever NVRTC made it; a
    // winner whose cubin is cached needs no NVRTC at all. May take a second otherwise.
    // REQUIRES: a context is current; `into_context`: it is one of the device. Throws Error or Failure{compile failed}.
    std::shared_ptr<const Instance> make(const dispatch::ResolvedCandidate& found, const Problem& problem, const Device& device,
                                         bool into_context = true);

    // The same if it is loaded, else nullptr: no file, no compiler, no driver call.
    std::shared_ptr<const Instance> find(const Candidate& candidate, const Problem& problem, const Device& device) const;

    // Whether make() would find it, loaded or in the cubin cache, and compile nothing.
    bool is_compiled(const dispatch::ResolvedCandidate& found, const Problem& problem, const Device& device);

    // Those already loaded that are legal for the problem, with launch parameters of its own, the one that is predicted fastest
    // first, at most `count`: no file, no compiler, no driver call. Of many, those are ranked that were loaded for the problems
    // most like this one, so that it takes no longer the more there are.
    std::vector<std::shared_ptr<const Instance>> loaded_for(const Problem& problem, const Device& device,
                                                            std::size_t count) const;

  private:
    using Shared = std::shared_ptr<const Instance>;
    // A candidate on its way to an instance.
    struct Order {
        const Candidate& candidate;
        const Problem& problem;
        const Device& device;
        std::string source;
        bool into_context;
    };

    // An instance with the logarithms of the extents that it was loaded for.
    struct Loaded {
        Shared instance;
        std::vector<double> log_extents;
    };

    // Of instances of the same facts, the first and those nearest to the problem. REQUIRES: mutex_ is held.
    static void add_nearest(const std::vector<Loaded>& alike, const Problem& problem, std::vector<Shared>& to);
    // Of these, at most `count` that are predicted fastest, with launch parameters of the problem's own.
    std::vector<Shared> best_of(const std::vector<Shared>& instances, const Problem& problem, const Device& device,
                                std::size_t count) const;
    const Family& family_of(const Candidate& candidate) const;
    const std::vector<std::string>& compile_parameters(const Family& family, const Problem& problem, const Device& device) const;
    // Architecture, family and facts of the problem as text: what instances of one problem share.
    std::string facts_of(const Family& family, const Problem& problem, const Device& device) const;
    // The same with the compile parameters: what is equal here renders to the same source.
    std::string source_of(const Candidate& candidate, const Problem& problem, const Device& device) const;
    jit::Rendered rendered(const Order& order, const std::string& nvrtc) const;
    Shared loaded(const Candidate& candidate, const std::string& source) const;
    Shared load(const Order& order, const jit::Rendered& text, const std::string& nvrtc, const jit::Compiled& compiled);
    void load_into_context(const Order& order, const jit::Rendered& text, const Instance& instance);
    Shared from_cache(const Order& order, const jit::Rendered& text, const std::string& nvrtc);
    Shared compile(const Order& order, const jit::Rendered& text, const gpu::Nvrtc& nvrtc);
    Shared build(const Order& order, const std::string& winners_nvrtc);
    std::shared_ptr<const gpu::Nvrtc> compiler();

    const Settings& settings_;
    const Catalogue& catalogue_;
    std::shared_ptr<const gpu::Driver> driver_;
    Log& log_;
    LoadGate& gate_;
    jit::CubinCache cache_;
    SingleFlight<std::string, Shared> building_;  // by source
    std::mutex nvrtc_mutex_;                      // held while NVRTC is opened, never while it compiles
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    mutable std::mutex mutex_;                                                              // held for moments only
    std::unordered_map<std::string, Shared> instances_;                                     // by source
    std::unordered_map<std::string, std::vector<Loaded>> by_facts_;                         // the same, by facts_of()
    std::set<const Family*> families_;                                                      // of these
    mutable std::unordered_map<std::string, std::vector<std::string>> compile_parameters_;  // by family; never erased
};

}  // namespace autotune::runtime
