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
    int ordinal = 0;  // the driver's number in this process
    db::Provenance provenance;
    std::string note;  // TuneServices::note
};

// The work of a GPU's lane, and how the lane ended.
struct LaneReport {
    std::string uuid;
    std::string name;  // of the card
    int ordinal = 0;
    int items = 0;       // finished
    double seconds = 0;  // the time of these items together
    int restarts = 0;
    std::string out_because{};  // why the lane stopped taking items; empty: it worked to the end
};

struct LanesOptions {
    TuneOptions each;
    // How each lane opens the store; path, read_only, create, shipped, or_read_only and missing_is_empty are used. An empty path:
    // lanes store nothing.
    db::OpenOptions store;
    // Before a lane gets an item it must hold its GPU's lock and have passed the canary, so that a GPU that cannot work loses no
    // item. False: a GPU is used only when its first item comes.
    bool proves_first = true;
    // Whether final rounds run in one lane at a time, with stopped compilers; nullopt: if there are fewer than 2 x lanes + 1
    // processors, and for slices of a card.
    std::optional<bool> finals_in_turns{};
};

// Tunes the items of a source on several GPUs, with one lane, a separate process, for each. This process makes no CUDA context;
// it owns the items, the compile pool, and the output. If a lane dies, its item goes back once and the lane is restarted once;
// after that its GPU is out. When services.stop is set, lanes are told to stop, and killed after 10 s. Returns when the source is
// exhausted and nothing is in hand, when every GPU is out, or when stopped. Of `services` the catalogue, workers, observer and
// stop are used. Throws Error for whatever ends a whole run: no compiler, a store that fails.
std::vector<LaneReport> run_lanes(const std::vector<LaneGpu>& gpus, WorkSource& source, const LanesOptions& options,
                                  TuneServices& services);

}  // namespace autotune::tuner
