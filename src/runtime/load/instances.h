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

// Compiled code that the driver holds. It belongs to no context: one instance serves every GPU of its architecture.
struct Instance {
    Candidate candidate;
    std::string arch;
    std::string nvrtc;   // NVRTC version that compiled it
    std::string source;  // key of its source: see Instances::source_of()
    std::string symbol;
    std::string rejected;  // why the compiler's report disqualifies it (slow, not wrong); empty if it is fine
    double slowdown = 1;   // the factor by which it may exceed its predicted time because of that
    std::shared_ptr<const gpu::Library> library;
};

// Provides instances: those already loaded, from the cubin cache, or compiled by NVRTC. Thread-safe: threads compile different
// instances at the same time, and each instance once.
class Instances {
  public:
    Instances(const Settings& settings, const Catalogue& catalogue, std::shared_ptr<const gpu::Driver> driver, Log& log,
              LoadGate& gate);

    // The instance of a candidate for a problem. A loaded one is found without rendering, whichever NVRTC made it; a winner whose
    // cubin is cached needs no NVRTC at all. Otherwise it may take a second. REQUIRES: a context is current; with `into_context`
    // it is one of the device. Throws Error or Failure{compile failed}.
    std::shared_ptr<const Instance> make(const dispatch::ResolvedCandidate& found, const Problem& problem, const Device& device,
                                         bool into_context = true);

    // The instance if it is loaded, else nullptr. This reads no file, compiles nothing and calls no driver.
    std::shared_ptr<const Instance> find(const Candidate& candidate, const Problem& problem, const Device& device) const;

    // Whether make() would find it, loaded or in the cubin cache, without compiling.
    bool is_compiled(const dispatch::ResolvedCandidate& found, const Problem& problem, const Device& device);

    // At most `count` loaded instances that are legal for the problem, fastest predicted first, with launch parameters chosen for
    // it. Reads no file, compiles nothing, calls no driver. If there are many, only those loaded for the most similar problems
    // are ranked, so that the time does not grow with their number.
    std::vector<std::shared_ptr<const Instance>> loaded_for(const Problem& problem, const Device& device,
                                                            std::size_t count) const;

    // "13.0". Throws Failure{compile failed} if there is no NVRTC.
    std::string compiler_version() { return compiler()->version(); }

  private:
    using Shared = std::shared_ptr<const Instance>;
    // A request for an instance of a candidate.
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

    // Adds, of instances with the same facts, the first and those nearest to the problem. REQUIRES: mutex_ is held.
    static void add_nearest(const std::vector<Loaded>& alike, const Problem& problem, std::vector<Shared>& to);
    // At most `count` of them, fastest predicted first, with launch parameters chosen for the problem.
    std::vector<Shared> best_of(const std::vector<Shared>& instances, const Problem& problem, const Device& device,
                                std::size_t count) const;
    const Family& family_of(const Candidate& candidate) const;
    const std::vector<std::string>& compile_parameters(const Family& family, const Problem& problem, const Device& device) const;
    // Architecture, family and facts of the problem as text: equal for all instances of one problem.
    std::string facts_of(const Family& family, const Problem& problem, const Device& device) const;
    // The text that identifies a candidate's source: its family and compile parameters. Candidates with equal keys render to the
    // same source.
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
    mutable std::mutex mutex_;                                                              // only held briefly
    std::unordered_map<std::string, Shared> instances_;                                     // by source
    std::unordered_map<std::string, std::vector<Loaded>> by_facts_;                         // the same instances, by facts_of()
    std::set<const Family*> families_;                                                      // of these
    mutable std::unordered_map<std::string, std::vector<std::string>> compile_parameters_;  // by family; never erased
};

}  // namespace autotune::runtime
