#pragma once

#include <string>
#include <vector>

namespace autotune::tuner {

struct GpuWorkerArguments {
    int device = 0;
    std::string templates_folder;
    std::vector<std::string> library_folders;  // the folders in which rivals are searched
    std::string log_level;                     // a word of kLogLevels, or empty for no log
};

// Serves one GPU until the coordinator closes the pipe. Sends {"event": "ready"} once it has a context, or {"event": "fatal"};
// then a {"event": "reply"} for each request, after announcing the stages that it enters. {"event": "sticky"} means that the
// context is lost and the process ends. Requests, by "do":
//
// - harness {} + cubin: the kernels for measuring and verifying; the reply has {"healthy"} from the canary
// - setup {fixture, problem, timing, method, seed, symbol} + the reference's cubin: a fixture and its right values
// - open {fixture, slot, candidate, symbol, verify, steps} + cubin: loads a candidate, runs it, verifies it, measures it
// - rival {fixture, slot, name, verify}: prepares and verifies a rival of the op
// - time {fixture, slot, samples, time_us, most_samples}
// - round {fixture, slots, samples, time_us, most_samples}: one interleaved round, with the card's conditions
// - warm {fixture, slot, seconds}
// - check_repeatability {fixture, slot}: whether hundreds of runs give the same bits
// - block {fixture, slot, seconds}: a run without pauses; slot -1: only fillers
// - drop {fixture}
//
// and {"do": "define", "families"}, which has no reply. Any other request is {"event": "fatal"} and ends the process with 1.
int run_gpu_worker(const GpuWorkerArguments& arguments);

}  // namespace autotune::tuner
