#pragma once

#include <string>
#include <vector>

namespace autotune::tuner {

struct CompileWorkerArguments {
    std::string nvrtc_path;
    int driver_major = 0;
    std::vector<std::string> library_folders;  // where to search for NVRTC
    std::string log_level;                     // a word of kLogLevels; empty: no log
};

// Compiles the requests it receives until the coordinator closes the pipe: {"do": "compile", "rendered"} in, {"event":
// "compiled"} with the cubin as payload out. Reports {"event": "ready", "nvrtc"} first, or {"event": "fatal", "message"} if there
// is no compiler or a request is unknown, and then returns 1.
int run_compile_worker(const CompileWorkerArguments& arguments);

}  // namespace autotune::tuner
