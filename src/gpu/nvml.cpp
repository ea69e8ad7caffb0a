#include "src/gpu/nvml.h"

#include <array>
#include <vector>

#include "src/gpu/shared_library.h"

namespace autotune::gpu {
namespace {

// NVML's ABI as far as we need it (its header is in no wheel). 0 is success.
using NvmlDevice = struct nvmlDevice_st*;
constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr int kSmClock = 1;
constexpr int kGpuTemperature = 0;

struct ProcessInfo {  // nvmlProcessInfo_v2_t
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

}  // namespace

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
        // Renamed in release 535; the old name stays in older drivers.
        if (!library.find("nvmlDeviceGetCurrentClocksEventReasons", throttle)) {
            library.find("nvmlDeviceGetCurrentClocksThrottleReasons", throttle);
        }
        library.find("nvmlDeviceGetComputeRunningProcesses_v3", processes);
    }

    std::optional<NvmlDevice> device(const std::string& uuid) const {
        NvmlDevice found = nullptr;
        if (by_uuid == nullptr || by_uuid(uuid.c_str(), &found) != kSuccess) return std::nullopt;
        return found;
    }
};

namespace {

// One reading, or nullopt if the entry is missing or the card does not have it.
template <typename Value, typename Entry, typename... Selector>
std::optional<Value> read(Entry entry, NvmlDevice device, Selector... selector) {
    Value value = 0;
    if (entry == nullptr || entry(device, selector..., &value) != kSuccess) return std::nullopt;
    return value;
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

std::shared_ptr<const Nvml> Nvml::load() {
    const auto library = SharedLibrary::open("libnvidia-ml.so.1");
    if (!library) return nullptr;
    std::shared_ptr<Nvml> nvml(new Nvml);
    nvml->api_->bind(*library);
    if (nvml->api_->init == nullptr || nvml->api_->init() != kSuccess) return nullptr;
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

std::optional<int> Nvml::other_processes(const std::string& uuid, int own_pid) const {
    const auto device = api_->device(uuid);
    if (!device || api_->processes == nullptr) return std::nullopt;
    std::vector<ProcessInfo> found(16);
    // The list may grow between two calls: ask again a few times with the room it wants.
    for (int attempt = 0; attempt < 4; ++attempt) {
        auto count = static_cast<unsigned>(found.size());
        const int result = api_->processes(*device, &count, found.data());
        if (result == kSuccess) {
            int others = 0;
            for (unsigned i = 0; i < count; ++i) others += found[i].pid != static_cast<unsigned>(own_pid) ? 1 : 0;
            return others;
        }
        if (result != kInsufficientSize) return std::nullopt;
        found.resize(count + 16);
    }
    return std::nullopt;
}

}  // namespace autotune::gpu
