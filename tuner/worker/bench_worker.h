#pragma once

#include <string>
#include <vector>

namespace autotune::tuner {

struct BenchWorkerArguments {
    int device = 0;
    std::string templates_folder;
    std::vector<std::string> library_folders;  // where rivals are searched
    std::string log_level;                     // of kLogLevels; empty: nobody listens
};

// Serves one GPU until the coordinator closes the pipe. Says {"event": "ready"} once it has a context, or {"event": "fatal"};
// then answers each request with {"event": "reply"}, announcing the stages it enters; {"event": "sticky"} means that the context
// is lost and the process ends. Requests, by "do":
//   harness  {} + cubin                       the kernels that serve; answers {"healthy"} by the canary
//   setup    {bench, problem, timing, l2_warm, seed, symbol} + the reference's cubin   a workbench with its right answers
//   open     {bench, slot, candidate, symbol, verify, steps} + cubin   loads a candidate, runs it, verifies it, measures it
//   rival    {bench, slot, name, verify}      prepares and verifies a rival of the op
//   time     {bench, slot, samples, time_us, most_samples}
//   round    {bench, slots, samples, time_us, most_samples}   one interleaved round, with the card's conditions
//   warm     {bench, slot, seconds}
//   endure   {bench, slot}                    whether hundreds of runs give the same bits
//   block    {bench, slot, seconds}           a stretch without a pause; slot -1: fillers alone
//   drop     {bench}
// and {"do": "define", "families"}, which has no answer. Any other request is {"event": "fatal"} and ends the process with 1.
int run_bench_worker(const BenchWorkerArguments& arguments);

}  // namespace autotune::tuner
