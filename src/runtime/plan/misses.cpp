#include "src/runtime/plan/misses.h"

#include <set>
#include <string>

#include "src/core/error.h"

namespace autotune::runtime {
namespace {

constexpr std::size_t kMissesPerWrite = 128;  // A write takes milliseconds, so fewer than one plan in a hundred waits for it.

}  // namespace

Misses::~Misses() {
    try {
        flush();
    } catch (...) {
        // There is no memory to write them, and no way to report it.
    }
}

Misses::Calls Misses::note(const Problem& problem, const Device& device, dispatch::Source source) {
    if (!settings_.record_misses || settings_.database.empty()) return nullptr;
    auto calls = std::make_shared<std::atomic<std::int64_t>>(1);
    bool is_full = false;
    {
        const std::lock_guard lock(mutex_);
        misses_.push_back({problem, &device, source, calls});
        is_full = ++unwritten_plans_ >= kMissesPerWrite;
    }
    if (is_full) flush();
    return calls;
}

// Calls has_winner without the lock, because planning threads take it.
void Misses::forget(const std::function<bool(const Problem&, const Device&)>& has_winner) {
    std::vector<Miss> known;
    {
        const std::lock_guard lock(mutex_);
        known = misses_;
    }
    std::set<Calls> tuned;
    for (const Miss& miss : known)
        if (has_winner(miss.problem, *miss.device)) tuned.insert(miss.calls);
    known.clear();  // the counters belong to plans that the caller holds
    const std::lock_guard lock(mutex_);
    std::erase_if(misses_, [&](const Miss& miss) { return tuned.contains(miss.calls); });
}

void Misses::write(const std::vector<db::Miss>& misses) const {
    db::OpenOptions options;  // only the command rewrites rows of earlier versions
    options.path = settings_.database;
    options.busy_timeout_ms = dispatch::kBusyTimeoutMs;
    db::open_store(options)->record_misses(misses);
}

void Misses::flush() {
    std::string warning;
    {
        const std::lock_guard lock(mutex_);
        std::vector<db::Miss> counted;
        std::vector<std::size_t> places;  // the positions of these problems in the list of all
        for (std::size_t i = 0; i < misses_.size(); ++i) {
            const Miss& miss = misses_[i];
            const std::int64_t calls = miss.calls->load(std::memory_order_relaxed);
            if (calls == 0) continue;
            places.push_back(i);
            counted.push_back({miss.problem, miss.device->identity, std::string(to_string(miss.source)), calls});
        }
        if (counted.empty()) return;
        try {
            readers_.between_reads([&] { write(counted); });
        } catch (const Error& error) {
            warning = std::string(error.what()) + "; misses are not recorded";
        }
        for (std::size_t i = 0; i < places.size(); ++i)
            misses_[places[i]].calls->fetch_sub(counted[i].count, std::memory_order_relaxed);
        // No plan counts this miss any more.
        std::erase_if(misses_, [](const Miss& miss) { return miss.calls.use_count() == 1; });
        unwritten_plans_ = 0;
    }
    if (!warning.empty()) log_.warn_once("misses", warning);
}

}  // namespace autotune::runtime
