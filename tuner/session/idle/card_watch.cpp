#include "tuner/session/idle/card_watch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <utility>

namespace autotune::tuner {
namespace {

constexpr double kLookEvery_s = 0.2;
constexpr double kOursFor_s = 2;        // For this long after an item, NVML's last second of load may be our own.
constexpr double kOursInMemory_s = 10;  // For this long, memory in use may be our own, until the lane has released its card.
constexpr double kMostOthersHold_gib = 1;

// "process 4711 (python3)".
std::string name_of(unsigned pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
    std::string name;
    std::getline(file, name);
    return "process " + std::to_string(pid) + (name.empty() ? "" : " (" + name + ")");
}

// 0: unknown.
unsigned parent_of(unsigned pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');  // the name may contain spaces and parentheses
    unsigned parent = 0;
    if (name_end != std::string::npos) std::sscanf(text.c_str() + name_end + 1, " %*c %u", &parent);
    return parent;
}

std::string gib_text(double gib) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f GiB", gib);
    return text.data();
}

}  // namespace

CardWatch::CardWatch(std::string uuid, ReadLoad read, double idle_s)
    : uuid_(std::move(uuid)), read_(std::move(read)), idle_s_(idle_s) {}

bool CardWatch::is_own(unsigned pid) {
    const auto known = own_.find(pid);
    if (known != own_.end()) return known->second;
    const auto self = static_cast<unsigned>(::getpid());
    unsigned at = pid;
    for (int depth = 0; depth < 16 && at > 1 && at != self; ++depth) at = parent_of(at);
    return own_[pid] = at == self;
}

// In a container NVML may return the host's pids. Then it is unknown which processes are ours, and only processes that existed
// before this one certainly belong to others.
std::string CardWatch::foreign_load(const gpu::CardLoad& load, bool may_be_ours) {
    if (!load.processes) return "";
    const bool knows_ours = std::any_of(load.processes->begin(), load.processes->end(),
                                        [&](const gpu::CardLoad::Process& each) { return is_own(each.pid); });
    for (const gpu::CardLoad::Process& each : *load.processes) {
        if (is_own(each.pid)) continue;
        if (!may_be_ours) before_us_.insert(each.pid);
        const bool is_foreign = !may_be_ours || knows_ours || before_us_.contains(each.pid);
        if (is_foreign && each.percent.value_or(0) > 0)
            return name_of(each.pid) + " computes on it (" + std::to_string(*each.percent) + " %)";
    }
    return "";
}

std::string CardWatch::busy_because(const gpu::CardLoad& load, bool may_be_ours) {
    if (std::string foreign = foreign_load(load, may_be_ours); !foreign.empty()) return foreign;
    if (may_be_ours) return "";
    if (!load.percent) return "NVML does not tell its load; --idle 0 takes it as it is";
    if (*load.percent > 0) return "it computes (" + std::to_string(*load.percent) + " %)";
    const bool can_be_watched =
        load.processes && std::all_of(load.processes->begin(), load.processes->end(),
                                      [](const gpu::CardLoad::Process& each) { return each.percent.has_value(); });
    const bool is_seen = load.processes && !load.processes->empty();
    if (load.used_gib.value_or(0) <= kMostOthersHold_gib || (was_ours_ && seconds_since(ours_at_) < kOursInMemory_s)) return "";
    if (can_be_watched && is_seen) return "";
    return "others hold " + gib_text(*load.used_gib) + " of its memory, and NVML does not tell when they compute";
}

void CardWatch::look(bool at_work) {
    if (at_work) ours_at_ = Clock::now(), was_ours_ = true;
    if (idle_s_ == 0 || (has_looked_ && seconds_since(looked_at_) < kLookEvery_s)) return;
    const bool may_be_ours = at_work || (was_ours_ && seconds_since(ours_at_) < kOursFor_s);
    const std::string why = busy_because(read_(uuid_, since_us_), may_be_ours);
    is_others_ = !why.empty();
    has_looked_ = true;
    looked_at_ = Clock::now();
    if (!why.empty()) count_as_busy(why);
}

void CardWatch::count_as_busy(const std::string& why) {
    busy_at_ = Clock::now();
    why_busy_ = why;
}

}  // namespace autotune::tuner
