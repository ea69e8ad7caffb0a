#pragma once

#include <optional>
#include <string>
#include <vector>

#include "db/winner_store.h"
#include "tuner/session/lanes/work_source.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// A GPU that gets a lane.
struct LaneGpu {
    Device device;
    std::string uuid;
    int ordinal = 0;  // as the driver counts here
    db::Provenance provenance;
    std::string note;  // TuneServices::note
};

// The work of a GPU's lane, and its end.
struct LaneReport {
    std::string uuid;
    std::string name;  // of the card
    int ordinal = 0;
    int items = 0;       // brought to an end
    double seconds = 0;  // of these items together
    int restarts = 0;
    std::string out_because{};  // why it takes no more work; empty: it was in order to the end
};

struct LanesOptions {
    TuneOptions each;
    // How each lane opens the store; path, read_only, create, shipped, or_read_only and missing_is_empty count. An empty path:
    // lanes store nothing.
    db::OpenOptions store;
    // A lane holds its GPU's lock and has passed the canary before it is given an item, so that a GPU that cannot work costs
    // none. False: a GPU is touched when its first item comes.
    bool proves_first = true;
    // Final rounds of one lane at a time, with compilers that stand still; nullopt: where there are fewer than 2 x lanes + 1
    // processors, and for slices of a card.
    std::optional<bool> finals_in_turns{};
};

// Works off a source on several GPUs: one lane, a process of its own, for each. This process makes no CUDA context; it owns the
// items, the compile pool, and what is shown. A lane that ends costs its share only: its item goes back once, it is started again
// once, and then its GPU is out. When services.stop is set, lanes are told, and killed after 10 s. Returns when the source is
// exhausted and nothing is in hand, when every GPU is out, or stopped. Of `services` the catalogue, workers, observer and stop
// count. Throws Error for what ends a whole run: no compiler, a store that fails.
std::vector<LaneReport> run_lanes(const std::vector<LaneGpu>& gpus, WorkSource& source, const LanesOptions& options,
                                  TuneServices& services);

}  // namespace autotune::tuner
