#pragma once

#include <string>
#include <vector>

namespace autotune::tuner {

struct CompileWorkerArguments {
    std::string nvrtc_path;
    int driver_major = 0;
    std::vector<std::string> library_folders;  // where NVRTC is searched
    std::string log_level;                     // of kLogLevels; empty: nobody listens
};

// Compiles what it is sent until the coordinator closes the pipe: {"do": "compile", "rendered"} in, {"event": "compiled"} with
// the cubin beside it out. Says {"event": "ready", "nvrtc"} first, or {"event": "fatal", "message"} if there is no compiler or a
// request is not known; returns 1 then.
int run_compile_worker(const CompileWorkerArguments& arguments);

}  // namespace autotune::tuner
