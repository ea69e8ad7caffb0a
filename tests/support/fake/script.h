#pragma once

#include <regex.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace autotune::fake {

// Misbehaviour of the scripted libraries, from the file named by AUTOTUNE_FAKE_SCRIPT; README.md in this folder documents it. An
// invalid script ends the process with exit code 97 and a line on standard error, so that a misspelt test cannot pass.

using Words = std::map<std::string, std::string>;

// One `rule` line: when it applies and what it does.
struct Rule {
    int line = 0;
    std::string on = "launch";        // launch, compile, or a driver entry point's name
    std::shared_ptr<regex_t> symbol;  // matches the kernel's name or, for compile, the source's
    Words constants;                  // "block_m" -> "128"; "family" -> "mma"
    long nth = 0;                     // applies only to the nth time that everything above matches (from 1); 0 means every time
    long from = 1;                    // not before this time
    long times = 0;                   // at most this often per process; 0: no limit
    long every = 1;                   // only every n-th time
    bool once = false;                // applies at most once among all processes with this script
    std::string gpu;                  // applies only in processes that see only this device of the machine
    std::string action;
    Words arguments;
    long seen = 0;
    long fired = 0;

    double number(const std::string& name, double otherwise) const;
    std::string word(const std::string& name, const std::string& otherwise) const;
};

// The event that rules are matched with.
struct Occasion {
    std::string on;
    std::string symbol;
    const Words* constants = nullptr;
};

class Script {
  public:
    // The script of this process, read at first use.
    static Script& get();

    // Settings of a line that is not a rule ("driver", "nvrtc", "model", "nvml"), merged over all its lines.
    const Words& section(const std::string& name) const;
    double number(const std::string& section, const std::string& name, double otherwise) const;
    std::string word(const std::string& section, const std::string& name, const std::string& otherwise) const;
    // The devices that this process sees: one entry for each `device` line that CUDA_VISIBLE_DEVICES names; without the variable
    // all of them. Each has `uuid_byte` and `pci_bus`, which do not depend on what is visible.
    const std::vector<Words>& devices() const { return devices_; }
    // Every device of the machine; at least one, with defaults.
    const std::vector<Words>& all_devices() const { return all_devices_; }
    // Number of the only device that this process sees; empty: there are several, or none.
    const std::string& only_device() const { return only_device_; }
    // A reading of a device, else that of the `nvml` lines.
    std::string reading(const Words& device, const std::string& name, const std::string& otherwise) const;

    // The first rule that applies now, which is counted as fired; nullptr if none does.
    const Rule* fire(const Occasion& occasion);
    // Whether any rule may ever apply to such an occasion.
    bool concerns(const Occasion& occasion) const;
    // The first matching rule, if it applies every time and makes the launch slow.
    const Rule* standing_slow(const Occasion& occasion) const;
    // Path of a file that outlives the process, for `once` and for a driver that vanished: path of the script + suffix.
    std::string marker(const std::string& suffix) const { return path_ + "." + suffix; }

  private:
    Script();
    void parse_line(const std::string& line, int number);
    void parse_rule(const Words& words, int number);
    void show_visible();
    bool claim(Rule& rule) const;

    std::string path_;
    std::map<std::string, Words> sections_;
    std::vector<Words> all_devices_, devices_;
    std::string only_device_;
    std::vector<Rule> rules_;
    std::mutex mutex_;
};

// Ends the process as the script says: how = segv, abort, exit, kill or half_message (exits in the middle of one).
[[noreturn]] void crash(const std::string& how);
// Sleeps in real time, at most two minutes, so that a simulated hang in a forgotten process ends by itself.
void sleep_s(double seconds);

}  // namespace autotune::fake
