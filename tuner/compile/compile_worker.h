#pragma once

#include <string>
#include <vector>

namespace autotune::tuner {

struct CompileWorkerArguments {
    std::string nvrtc_path;
    int driver_major = 0;
    std::vector<std::string> library_folders;  // where NVRTC is searched
};

// Compiles what it is sent until the coordinator closes the pipe: {"rendered"} in, {"compiled"} with the cubin beside it out.
// Says
// {"event": "ready", "nvrtc"} first, or {"event": "fatal", "message"} if there is no compiler.
int run_compile_worker(const CompileWorkerArguments& arguments);

}  // namespace autotune::tuner
