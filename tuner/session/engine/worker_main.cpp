#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tuner/compile/compile_worker.h"
#include "tuner/session/lanes/lane.h"
#include "tuner/session/tune.h"
#include "tuner/worker/gpu_worker.h"
#include "tuner/worker/protocol/worker_channel.h"

namespace autotune::tuner {
namespace {

constexpr int kUsage = 2;

using Flags = std::multimap<std::string, std::string>;  // the values of each name in the order given

int number(const Flags& flags, const std::string& name) {
    const auto found = flags.find(name);
    int value = 0;
    if (found != flags.end()) std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
    return value;
}

std::string text(const Flags& flags, const std::string& name) {
    const auto found = flags.find(name);
    return found == flags.end() ? "" : found->second;
}

std::vector<std::string> all(const Flags& flags, const std::string& name) {
    std::vector<std::string> values;
    const auto [first, last] = flags.equal_range(name);
    std::transform(first, last, std::back_inserter(values), [](const auto& flag) { return flag.second; });
    return values;
}

int run(const std::string& kind, const Flags& flags) {
    if (kind == "compile")
        return run_compile_worker(
            {text(flags, "--nvrtc"), number(flags, "--driver-major"), all(flags, "--libraries"), text(flags, "--log-level")});
    if (kind == "lane") return run_lane(text(flags, "--log-level"));
    return run_gpu_worker(
        {number(flags, "--device"), text(flags, "--templates"), all(flags, "--libraries"), text(flags, "--log-level")});
}

}  // namespace

// `arguments` follow "__worker": the kind, then flags with one value each. Only the coordinator calls this.
WorkerEnd worker_main(const std::vector<std::string>& arguments) {
    if (arguments.empty()) return {kUsage, "__worker wants a kind: compile, gpu or lane"};
    const std::string& kind = arguments.front();
    if (kind != "compile" && kind != "gpu" && kind != "lane")
        return {kUsage, "there is no worker '" + kind + "': compile, gpu and lane are known"};
    if (arguments.size() % 2 == 0) return {kUsage, "flags of __worker have a value each; " + arguments.back() + " has none"};
    Flags flags;
    for (std::size_t i = 1; i + 1 < arguments.size(); i += 2) flags.emplace(arguments[i], arguments[i + 1]);
    become_worker(number(flags, "--parent"), number(flags, "--profiled") == 0 ? Descriptors::closed : Descriptors::kept);
    try {
        return {run(kind, flags), ""};
    } catch (const std::exception& error) {
        return {1, error.what()};  // the coordinator notices that the pipe closes
    }
}

}  // namespace autotune::tuner
