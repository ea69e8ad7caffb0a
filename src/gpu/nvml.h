#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/core/statistics/trial.h"

namespace autotune::gpu {

// The load of a card.
struct CardLoad {
    struct Process {
        unsigned pid = 0;
        std::optional<int> percent{};  // the share of the multiprocessors' time since the last reading; nullopt if unknown
    };
    std::optional<int> percent{};      // the share of the last second (or less) in which any kernel ran
    std::optional<double> used_gib{};  // of its memory
    std::optional<std::vector<Process>> processes{};
};

// How other processes use a card, as far as NVML knows.
struct CardUse {
    bool is_prohibited = false;  // its compute mode forbids all use
    bool serves_mps = false;     // programs share one context through an MPS server
    CardLoad load;
};

// NVML, if it is found. Only reads; never changes a setting. Own prototypes, so that its header is not needed.
class Nvml {
  public:
    // nullptr if the library is missing or does not start: then conditions are unknown, which is not an error. `why` receives the
    // reason.
    static std::shared_ptr<const Nvml> load(std::string* why = nullptr);
    // Clock, power, temperature and throttle reasons now. Unknown readings are nullopt. `uuid` as returned by Driver::uuid.
    Conditions conditions(const std::string& uuid) const;
    // Energy that the card has consumed since its driver was loaded; nullopt if unknown. Updated every 20 to 100 ms or so.
    std::optional<double> energy_joules(const std::string& uuid) const;
    std::optional<int> power_limit_w(const std::string& uuid) const;
    std::string driver_version() const;  // "580.159.04", empty if unknown
    // Compute processes on the card other than `own_pid`; nullopt if unknown.
    std::optional<int> other_processes(const std::string& uuid, int own_pid) const;
    CardUse use(const std::string& uuid) const;
    // Who uses the card and how much memory is free, as text: "0.4 of 139.8 GiB are free; used by process 4711 (python3, 138.2
    // GiB)". Empty if nothing is known. Processes of other containers may have no name here.
    std::string usage_text(const std::string& uuid, int own_pid) const;
    // The processes that compute on the card, and how much of its memory is in use. Unknown readings are nullopt. `since_us` is
    // NVML's time of the last sample read (0: none), and is advanced.
    CardLoad load(const std::string& uuid, unsigned long long& since_us) const;
    ~Nvml();

  private:
    Nvml();
    struct Process {
        unsigned pid = 0;
        std::optional<unsigned long long> used_bytes;
    };
    std::optional<std::vector<Process>> processes(const std::string& uuid, int own_pid) const;
    std::optional<std::map<unsigned, int>> busy_processes(const std::string& uuid, unsigned long long& since_us) const;
    struct Api;
    std::unique_ptr<Api> api_;
};

// NVML throttle bits that invalidate a timing: hardware slowdown, software and hardware thermal, power brake.
constexpr unsigned long long kVoidingThrottleReasons = 0x8 | 0x20 | 0x40 | 0x80;
constexpr unsigned long long kSoftwarePowerCap = 0x4;  // normal for large GEMMs, so it is recorded and does not discard a round

}  // namespace autotune::gpu
