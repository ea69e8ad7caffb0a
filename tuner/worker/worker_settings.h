#pragma once

#include <string>
#include <vector>

#include "src/core/log.h"

namespace autotune::tuner {

// How worker processes are started: `worker_binary __worker compile|gpu ...`. Filled by the tool from its own path and flags.
struct WorkerSettings {
    std::string binary;             // /proc/self/exe
    std::string templates_folder;   // --templates, empty: embedded
    std::string cache_folder;       // cubin files; empty: a private temporary folder for the run
    std::string nvrtc_path;         // empty: searched
    std::string lock_folder;        // GPU locks and journals (XDG_STATE_HOME/autotune or a private folder)
    int compile_workers = 0;        // 0: one fewer than cores, at least 1
    int device = 0;                 // ordinal
    double launch_timeout_s = 2;    // first launch: this + 50 x the predicted floor
    double compile_timeout_s = 30;  // wall and processor time of one compile
    int driver_major = 0;           // NVRTC's major version must not be above it; 0: any
    bool profiled = false;          // the GPU worker keeps what a profiler follows by: environment, descriptors
    // Where NVRTC and cuBLAS are searched after the loader's own path.
    std::vector<std::string> library_folders{};
    LogSink* log = nullptr;  // hears what becomes of the processes, and what they log themselves
};

}  // namespace autotune::tuner
