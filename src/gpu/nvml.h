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
        std::optional<int> percent{};  // of the multiprocessors' time since the last reading; nullopt: NVML does not tell
    };
    std::optional<int> percent{};      // of the last second (or less) in which any kernel ran
    std::optional<double> used_gib{};  // of its memory
    std::optional<std::vector<Process>> processes{};
};

// The use that others make of a card, as far as NVML tells.
struct CardUse {
    bool is_prohibited = false;  // its compute mode lets no program use it
    bool serves_mps = false;     // programs share one context through an MPS server
    CardLoad load;
};

// NVML, where it is found. Reads only; never changes a setting. Own prototypes: no header of it is needed.
class Nvml {
  public:
    // nullptr if the library is missing or does not start: then conditions are unknown, which is not an error. `why` gets the
    // reason.
    static std::shared_ptr<const Nvml> load(std::string* why = nullptr);
    // Clock, power, temperature and throttle reasons now. Unknown readings are nullopt. `uuid` as Driver::uuid gives it.
    Conditions conditions(const std::string& uuid) const;
    // What the card has consumed since its driver was loaded; nullopt if unknown. Moves in steps of some 20 to 100 ms.
    std::optional<double> energy_joules(const std::string& uuid) const;
    std::optional<int> power_limit_w(const std::string& uuid) const;
    std::string driver_version() const;  // "580.159.04", empty if unknown
    // Compute processes on the card other than `own_pid`; nullopt if unknown.
    std::optional<int> other_processes(const std::string& uuid, int own_pid) const;
    CardUse use(const std::string& uuid) const;
    // Who uses the card and how much memory is left, in words: "0.4 of 139.8 GiB are free; used by process 4711 (python3, 138.2
    // GiB)". Empty if nothing is known. Processes of other containers may have no name here.
    std::string usage_text(const std::string& uuid, int own_pid) const;
    // The processes that compute on the card, and how much of its memory is in use. Unknown readings are nullopt. `since_us` is
    // NVML's time of the last sample that was read before (0: none), and is moved on.
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

// NVML throttle bits that make a timing void: hardware slowdown, software and hardware thermal, power brake.
constexpr unsigned long long kVoidingThrottleReasons = 0x8 | 0x20 | 0x40 | 0x80;
constexpr unsigned long long kSoftwarePowerCap = 0x4;  // normal for large GEMMs; recorded, not discarded

}  // namespace autotune::gpu
