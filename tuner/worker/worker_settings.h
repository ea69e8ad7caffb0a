#pragma once

#include <string>
#include <vector>

#include "src/core/log.h"

namespace autotune::tuner {

// How worker processes are started: `binary __worker compile|gpu ...`. Filled by the tool from its own path and flags.
struct WorkerSettings {
    std::string binary;            // /proc/self/exe: the running file, even if it was replaced
    std::string build;             // build_id() of the command; a worker of another build is an error. Empty: not checked
    std::string templates_folder;  // --templates, empty: embedded
    std::string cache_folder;      // for cubin files; empty: a private temporary folder for the run, if one can be made
    std::string nvrtc_path;        // empty: searched
    std::string lock_folder;       // the folder of GPU locks and journals (XDG_STATE_HOME/autotune or a private folder)
    int compile_workers = 0;       // 0 means usable_compilers() less one processor for the coordinator
    int device = 0;                // ordinal
    double launch_timeout_s = 2;   // the limit of the first launch is this + 50 x the predicted lower bound
    double compile_cpu_s = 30;     // processor time of one compile, beyond which the candidate fails on any machine
    double compile_guard_s = 900;  // wall time of one compile, beyond which the machine is at fault and nothing is stored
    int driver_major = 0;          // NVRTC's major version must not be above it; 0: any
    bool profiled = false;         // the GPU worker keeps the environment and descriptors that a profiler needs to follow it
    // The folders in which NVRTC and cuBLAS are searched after the loader's own path.
    std::vector<std::string> library_folders{};
    std::string host_lock_folder{};  // the folder of GPU locks that all users of the host share, or empty
    LogSink* log = nullptr;          // receives the events of the processes, and their own log entries
};

// Why a worker's build is not ours, given the "build" of its first message; empty if it is.
std::string other_build(const WorkerSettings& settings, const std::string& build);

}  // namespace autotune::tuner
