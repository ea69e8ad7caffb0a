#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace autotune::dispatch {

// A cache of values by text with a maximum size: when it is full, the least recently used half is dropped. Not thread-safe.
template <typename Value>
class Remembered {
  public:
    explicit Remembered(std::size_t most) : most_(most) {}

    // nullptr if there is none. Valid until the next add() or clear().
    Value* find(const std::string& key) {
        const auto found = entries_.find(key);
        if (found == entries_.end()) return nullptr;
        found->second.used = ++now_;
        return &found->second.value;
    }
    // Adds a value. Throws std::bad_alloc.
    Value& add(const std::string& key, Value value) {
        if (entries_.size() >= most_ && !entries_.contains(key)) forget_half();
        Entry& entry = entries_.try_emplace(key, Entry{std::move(value), 0}).first->second;
        entry.used = ++now_;
        return entry.value;
    }
    void clear() { entries_.clear(); }
    std::size_t size() const { return entries_.size(); }

  private:
    struct Entry {
        Value value;
        std::uint64_t used = 0;
    };

    void forget_half() {
        std::vector<std::uint64_t> times;
        for (const auto& [key, entry] : entries_) times.push_back(entry.used);
        const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
        std::nth_element(times.begin(), middle, times.end());
        std::erase_if(entries_, [&](const auto& entry) { return entry.second.used <= *middle; });
    }

    std::size_t most_;
    std::uint64_t now_ = 0;
    std::unordered_map<std::string, Entry> entries_;
};

}  // namespace autotune::dispatch
