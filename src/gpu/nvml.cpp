#include "src/gpu/nvml.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <vector>

#include "src/gpu/shared_library.h"

namespace autotune::gpu {
// The part of NVML's ABI that we need (no wheel has its header). 0 is success. The namespace has a name because g++ 13.3 crashes
// on a class with members of unnamed namespaces' types in a unity build.
namespace nvml_abi {

using NvmlDevice = struct nvmlDevice_st*;
constexpr int kSuccess = 0;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr int kNoInit = -1;
constexpr int kSmClock = 1;
constexpr int kGpuTemperature = 0;

struct ProcessInfo {  // nvmlProcessInfo_v2_t
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

struct Utilisation {  // nvmlUtilization_t
    unsigned gpu_percent;
    unsigned memory_percent;
};

struct ProcessSample {  // nvmlProcessUtilizationSample_t
    unsigned pid;
    unsigned long long time_us;
    unsigned sm_percent;
    unsigned memory_percent;
    unsigned encoder_percent;
    unsigned decoder_percent;
};

constexpr int kProhibited = 2;  // nvmlComputeMode_t

struct MemoryInfo {  // nvmlMemory_t
    unsigned long long total_bytes;
    unsigned long long free_bytes;
    unsigned long long used_bytes;
};

}  // namespace nvml_abi

using namespace nvml_abi;

struct Nvml::Api {
    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    int (*driver_version)(char*, unsigned) = nullptr;
    int (*by_uuid)(const char*, NvmlDevice*) = nullptr;
    int (*clock)(NvmlDevice, int, unsigned*) = nullptr;
    int (*power_mw)(NvmlDevice, unsigned*) = nullptr;
    int (*power_limit_mw)(NvmlDevice, unsigned*) = nullptr;
    int (*energy_mj)(NvmlDevice, unsigned long long*) = nullptr;
    int (*temperature)(NvmlDevice, int, unsigned*) = nullptr;
    int (*throttle)(NvmlDevice, unsigned long long*) = nullptr;
    int (*processes)(NvmlDevice, unsigned*, ProcessInfo*) = nullptr;
    int (*mps_processes)(NvmlDevice, unsigned*, ProcessInfo*) = nullptr;
    int (*memory)(NvmlDevice, MemoryInfo*) = nullptr;
    int (*utilisation)(NvmlDevice, Utilisation*) = nullptr;
    int (*process_samples)(NvmlDevice, ProcessSample*, unsigned*, unsigned long long) = nullptr;
    int (*compute_mode)(NvmlDevice, int*) = nullptr;
    bool started = false;

    void bind(const SharedLibrary& library) {
        library.find("nvmlInit_v2", init);
        library.find("nvmlShutdown", shutdown);
        library.find("nvmlSystemGetDriverVersion", driver_version);
        library.find("nvmlDeviceGetHandleByUUID", by_uuid);
        library.find("nvmlDeviceGetClockInfo", clock);
        library.find("nvmlDeviceGetPowerUsage", power_mw);
        library.find("nvmlDeviceGetEnforcedPowerLimit", power_limit_mw);
        library.find("nvmlDeviceGetTotalEnergyConsumption", energy_mj);
        library.find("nvmlDeviceGetTemperature", temperature);
        // Drivers before release 535 have the old name.
        if (!library.find("nvmlDeviceGetCurrentClocksEventReasons", throttle)) {
            library.find("nvmlDeviceGetCurrentClocksThrottleReasons", throttle);
        }
        library.find("nvmlDeviceGetComputeRunningProcesses_v3", processes);
        library.find("nvmlDeviceGetMPSComputeRunningProcesses_v3", mps_processes);
        library.find("nvmlDeviceGetMemoryInfo", memory);
        library.find("nvmlDeviceGetUtilizationRates", utilisation);
        library.find("nvmlDeviceGetProcessUtilization", process_samples);
        library.find("nvmlDeviceGetComputeMode", compute_mode);
    }

    std::optional<NvmlDevice> device(const std::string& uuid) const {
        NvmlDevice found = nullptr;
        if (by_uuid == nullptr || by_uuid(uuid.c_str(), &found) != kSuccess) return std::nullopt;
        return found;
    }
};

namespace {

// One reading, or nullopt if the entry point is missing or the card does not support it.
template <typename Value, typename Entry, typename... Selector>
std::optional<Value> read(Entry entry, NvmlDevice device, Selector... selector) {
    Value value = 0;
    if (entry == nullptr || entry(device, selector..., &value) != kSuccess) return std::nullopt;
    return value;
}

std::string gib_text(unsigned long long bytes) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
    return text.data();
}

// "process 4711 (python3, 138.2 GiB)".
std::string name_of(unsigned pid, std::optional<unsigned long long> used_bytes) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string facts;
    std::getline(file, facts);
    if (used_bytes) facts += (facts.empty() ? "" : ", ") + gib_text(*used_bytes) + " GiB";
    return "process " + std::to_string(pid) + (facts.empty() ? "" : " (" + facts + ")");
}

std::optional<int> as_int(std::optional<unsigned> value, unsigned divisor = 1) {
    if (!value) return std::nullopt;
    return static_cast<int>((*value + divisor / 2) / divisor);
}

}  // namespace

Nvml::Nvml() : api_(std::make_unique<Api>()) {}

Nvml::~Nvml() {
    if (api_->started && api_->shutdown != nullptr) api_->shutdown();
}

std::shared_ptr<const Nvml> Nvml::load(std::string* why) {
    const auto library = SharedLibrary::open("libnvidia-ml.so.1", why);
    if (!library) return nullptr;
    std::shared_ptr<Nvml> nvml(new Nvml);
    nvml->api_->bind(*library);
    const int result = nvml->api_->init == nullptr ? kNoInit : nvml->api_->init();
    if (result != kSuccess) {
        if (why != nullptr)
            *why = result == kNoInit ? library->path() + " is no NVML" : "nvmlInit returned " + std::to_string(result);
        return nullptr;
    }
    nvml->api_->started = true;
    return nvml;
}

Conditions Nvml::conditions(const std::string& uuid) const {
    Conditions now;
    const auto device = api_->device(uuid);
    if (!device) return now;
    now.sm_clock_mhz = as_int(read<unsigned>(api_->clock, *device, kSmClock));
    now.power_w = as_int(read<unsigned>(api_->power_mw, *device), 1000);
    now.temperature_c = as_int(read<unsigned>(api_->temperature, *device, kGpuTemperature));
    now.throttle_reasons = read<unsigned long long>(api_->throttle, *device);
    return now;
}

std::optional<double> Nvml::energy_joules(const std::string& uuid) const {
    const auto device = api_->device(uuid);
    if (!device) return std::nullopt;
    const auto millijoules = read<unsigned long long>(api_->energy_mj, *device);
    return millijoules ? std::optional(static_cast<double>(*millijoules) / 1e3) : std::nullopt;
}

std::optional<int> Nvml::power_limit_w(const std::string& uuid) const {
    const auto device = api_->device(uuid);
    if (!device) return std::nullopt;
    return as_int(read<unsigned>(api_->power_limit_mw, *device), 1000);
}

std::string Nvml::driver_version() const {
    std::array<char, 96> text{};
    if (api_->driver_version == nullptr || api_->driver_version(text.data(), text.size() - 1) != kSuccess) return {};
    return text.data();
}

std::optional<std::vector<Nvml::Process>> Nvml::processes(const std::string& uuid, int own_pid) const {
    const auto device = api_->device(uuid);
    if (!device || api_->processes == nullptr) return std::nullopt;
    std::vector<ProcessInfo> found(16);
    // The list may grow between two calls, so the call is repeated a few times with the size that NVML returns.
    for (int attempt = 0; attempt < 4; ++attempt) {
        auto count = static_cast<unsigned>(found.size());
        const int result = api_->processes(*device, &count, found.data());
        if (result != kSuccess && result != kInsufficientSize) return std::nullopt;
        if (result == kInsufficientSize) {
            found.resize(count + 16);
            continue;
        }
        std::vector<Process> others;
        for (unsigned i = 0; i < count; ++i) {
            if (found[i].pid == static_cast<unsigned>(own_pid)) continue;
            const bool is_known = found[i].used_bytes != ~0ULL;  // often unknown in a container
            others.push_back({found[i].pid, is_known ? std::optional(found[i].used_bytes) : std::nullopt});
        }
        return others;
    }
    return std::nullopt;
}

std::optional<int> Nvml::other_processes(const std::string& uuid, int own_pid) const {
    const auto others = processes(uuid, own_pid);
    return others ? std::optional(static_cast<int>(others->size())) : std::nullopt;
}

// The samples after `since_us`, which is advanced. Returns nullopt if the card gives none, as a MIG slice does.
std::optional<std::map<unsigned, int>> Nvml::busy_processes(const std::string& uuid, unsigned long long& since_us) const {
    const auto device = api_->device(uuid);
    if (!device || api_->process_samples == nullptr) return std::nullopt;
    std::vector<ProcessSample> samples(64);
    for (int attempt = 0; attempt < 4; ++attempt) {
        auto count = static_cast<unsigned>(samples.size());
        const int result = api_->process_samples(*device, samples.data(), &count, since_us);
        if (result == kNotFound) return std::map<unsigned, int>{};
        if (result == kInsufficientSize) {
            samples.resize(count + 64);
            continue;
        }
        if (result != kSuccess) return std::nullopt;
        std::map<unsigned, int> busy;
        const unsigned long long before_us = since_us;
        for (unsigned i = 0; i < count; ++i) {
            const ProcessSample& sample = samples[i];
            if (sample.time_us <= before_us) continue;  // unused slots are all 0
            since_us = std::max(since_us, sample.time_us);
            int& percent = busy[sample.pid];
            percent = std::max(percent, static_cast<int>(sample.sm_percent));
        }
        return busy;
    }
    return std::nullopt;
}

CardLoad Nvml::load(const std::string& uuid, unsigned long long& since_us) const {
    CardLoad now;
    const auto device = api_->device(uuid);
    if (!device) return now;
    Utilisation utilisation{};
    if (api_->utilisation != nullptr && api_->utilisation(*device, &utilisation) == kSuccess)
        now.percent = static_cast<int>(utilisation.gpu_percent);
    MemoryInfo memory{};
    if (api_->memory != nullptr && api_->memory(*device, &memory) == kSuccess)
        now.used_gib = static_cast<double>(memory.used_bytes) / (1024.0 * 1024.0 * 1024.0);
    const auto listed = processes(uuid, 0);
    const auto busy = busy_processes(uuid, since_us);
    if (!listed && !busy) return now;
    std::map<unsigned, CardLoad::Process> all;
    if (listed)
        for (const Process& each : *listed) all[each.pid] = {each.pid, busy ? std::optional(0) : std::nullopt};
    if (busy)
        for (const auto& [pid, percent] : *busy) all[pid] = {pid, percent};
    now.processes.emplace();
    for (const auto& [pid, process] : all) now.processes->push_back(process);
    return now;
}

CardUse Nvml::use(const std::string& uuid) const {
    CardUse use;
    const auto device = api_->device(uuid);
    if (!device) return use;
    use.is_prohibited = read<int>(api_->compute_mode, *device) == kProhibited;
    unsigned count = 0;  // With size 0 NVML reports that the entries do not fit, unless there are none.
    use.serves_mps = api_->mps_processes != nullptr && api_->mps_processes(*device, &count, nullptr) == kInsufficientSize;
    unsigned long long since_us = 0;
    use.load = load(uuid, since_us);
    return use;
}

std::string Nvml::usage_text(const std::string& uuid, int own_pid) const {
    std::string text;
    MemoryInfo memory{};
    if (const auto device = api_->device(uuid); device && api_->memory != nullptr && api_->memory(*device, &memory) == kSuccess)
        text = gib_text(memory.free_bytes) + " of " + gib_text(memory.total_bytes) + " GiB are free";
    const auto others = processes(uuid, own_pid);
    if (!others) return text;
    constexpr std::size_t kMostNamed = 6;
    std::string names;
    for (std::size_t i = 0; i < std::min(kMostNamed, others->size()); ++i)
        names += (i == 0 ? "" : ", ") + name_of((*others)[i].pid, (*others)[i].used_bytes);
    if (others->size() > kMostNamed) names += " and " + std::to_string(others->size() - kMostNamed) + " more";
    if (names.empty()) return text + (text.empty() ? "" : "; ") + "no other process that can be seen here uses it";
    return text + (text.empty() ? "" : "; ") + "used by " + names;
}

}  // namespace autotune::gpu
