// A small libnvidia-ml.so.1. Readings come from the device's line of the script, else from the `nvml` line: clock, power_w,
// limit_w, temperature, throttle (bits), processes; a reading of "none" fails as on a card that lacks it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/fake/call_log.h"
#include "tests/support/fake/script.h"

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;

// A test changes readings at run time through a file next to the script, SCRIPT.nvml: name=value words that override those of the
// script.
bool changed_reading(const char* name, double& value) {
    std::ifstream file(autotune::fake::Script::get().marker("nvml"));
    for (std::string word; file >> word;) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos || word.substr(0, equals) != name) continue;
        value = std::atof(word.c_str() + equals + 1);
        return true;
    }
    return false;
}

// The handle of a device is its entry in the script. Returns false if the card has no such reading.
bool reading(const void* device, const char* name, double usual, double& value) {
    if (changed_reading(name, value)) return true;
    const std::string text =
        autotune::fake::Script::get().reading(*static_cast<const autotune::fake::Words*>(device), name, std::to_string(usual));
    if (text == "none") return false;
    value = std::atof(text.c_str());
    return true;
}

int unsigned_reading(const void* device, const char* name, double usual, double scale, unsigned* out) {
    double value = 0;
    if (!reading(device, name, usual, value)) return kNotSupported;
    *out = static_cast<unsigned>(value * scale);
    return kSuccess;
}

struct ProcessInfo {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int nvmlInit_v2() {
    autotune::fake::log_call("nvmlInit");
    return static_cast<int>(autotune::fake::Script::get().number("nvml", "init", kSuccess));
}
[[gnu::visibility("default")]] int nvmlShutdown() {
    return kSuccess;
}
[[gnu::visibility("default")]] int nvmlSystemGetDriverVersion(char* text, unsigned length) {
    std::snprintf(text, length, "%s", autotune::fake::Script::get().word("nvml", "driver", "580.0.0-fake").c_str());
    return kSuccess;
}
[[gnu::visibility("default")]] int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    const std::string text = uuid;
    const long byte = text.size() < 2 ? 0 : std::strtol(text.substr(text.size() - 2).c_str(), nullptr, 16);
    const auto& devices = autotune::fake::Script::get().all_devices();
    const auto* found = &devices.front();
    for (const auto& each : devices) {
        if (std::atol(each.at("uuid_byte").c_str()) == byte) found = &each;
    }
    *device = const_cast<autotune::fake::Words*>(found);
    return kSuccess;
}
[[gnu::visibility("default")]] int nvmlDeviceGetClockInfo(void* device, int, unsigned* mhz) {
    return unsigned_reading(device, "clock", 1980, 1, mhz);
}
[[gnu::visibility("default")]] int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    return unsigned_reading(device, "power_w", 520, 1000, milliwatts);
}
// The energy of `power_w` over real time. The scripted driver's clock cannot be used, because it is in another library.
[[gnu::visibility("default")]] int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
    static const auto begun = std::chrono::steady_clock::now();
    double power_w = 0;
    if (!reading(device, "power_w", 520, power_w)) return kNotSupported;
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - begun;
    *millijoules = static_cast<unsigned long long>(passed.count() * power_w);
    return kSuccess;
}
[[gnu::visibility("default")]] int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
    return unsigned_reading(device, "limit_w", 700, 1000, milliwatts);
}
[[gnu::visibility("default")]] int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
    return unsigned_reading(device, "temperature", 55, 1, celsius);
}
[[gnu::visibility("default")]] int nvmlDeviceGetCurrentClocksEventReasons(void* device, unsigned long long* reasons) {
    double value = 0;
    if (!reading(device, "throttle", 0, value)) return kNotSupported;
    *reasons = static_cast<unsigned long long>(value);
    return kSuccess;
}
[[gnu::visibility("default")]] int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count,
                                                                           ProcessInfo* processes) {
    double value = 0;
    if (!reading(device, "processes", 0, value)) return kNotSupported;
    const auto running = static_cast<unsigned>(value);
    const unsigned room = *count;
    *count = running;
    if (running > room) return kInsufficientSize;
    double used_mib = 1;
    reading(device, "process_mib", 1, used_mib);
    for (unsigned i = 0; i < running; ++i)
        processes[i] = {100000000 + i, static_cast<unsigned long long>(used_mib * (1 << 20)), 0, 0};
    return kSuccess;
}
[[gnu::visibility("default")]] int nvmlDeviceGetMPSComputeRunningProcesses_v3(void* device, unsigned* count, ProcessInfo*) {
    double value = 0;
    if (!reading(device, "mps_processes", 0, value)) return kNotSupported;
    const unsigned room = *count;
    *count = static_cast<unsigned>(value);
    return *count > room ? kInsufficientSize : kSuccess;
}
[[gnu::visibility("default")]] int nvmlDeviceGetComputeMode(void* device, int* mode) {
    double value = 0;
    if (!reading(device, "compute_mode", 0, value)) return kNotSupported;
    *mode = static_cast<int>(value);
    return kSuccess;
}
[[gnu::visibility("default")]] int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* total_free_used) {
    double total_mib = 0, free_mib = 0, others_mib = 0;
    if (!reading(device, "total_mib", 143167, total_mib)) return kNotSupported;
    reading(device, "others_mib", 0, others_mib);
    if (!reading(device, "free_mib", total_mib - others_mib, free_mib)) return kNotSupported;
    const auto mib = [](double value) { return static_cast<unsigned long long>(value) << 20; };
    total_free_used[0] = mib(total_mib);
    total_free_used[1] = mib(free_mib);
    total_free_used[2] = mib(total_mib - free_mib);
    return kSuccess;
}

struct Utilisation {
    unsigned gpu_percent;
    unsigned memory_percent;
};
[[gnu::visibility("default")]] int nvmlDeviceGetUtilizationRates(void* device, Utilisation* rates) {
    double percent = 0;
    if (!reading(device, "utilisation", 0, percent)) return kNotSupported;
    *rates = {static_cast<unsigned>(percent), 0};
    return kSuccess;
}

struct ProcessSample {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm_percent, memory_percent, encoder_percent, decoder_percent;
};
// Returns one sample for each listed process, with `busy_percent` of the card's time, and none for an idle card.
[[gnu::visibility("default")]] int nvmlDeviceGetProcessUtilization(void* device, ProcessSample* samples, unsigned* count,
                                                                   unsigned long long since_us) {
    double percent = 0, running = 0;
    if (!reading(device, "busy_percent", 0, percent) || !reading(device, "processes", 0, running)) return kNotSupported;
    if (percent == 0 || running == 0) return kNotFound;
    const unsigned room = *count;
    *count = static_cast<unsigned>(running);
    if (*count > room) return kInsufficientSize;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto now_us = static_cast<unsigned long long>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
    if (now_us <= since_us) return kNotFound;
    for (unsigned i = 0; i < *count; ++i) samples[i] = {100000000 + i, now_us, static_cast<unsigned>(percent), 0, 0, 0};
    return kSuccess;
}

}  // extern "C"
