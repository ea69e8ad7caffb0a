#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "src/runtime/memory/reading.h"

namespace autotune::runtime {

// A map of bounded size whose reads take no lock and allocate nothing. When it grows too large, the least recently used entries
// are removed. Removed and replaced values live as long as a thread reads them (Reading). Made for plans: every call looks one
// up, and a program may use any number of problems. Key needs == and hash() -> std::size_t. Value needs bytes() -> std::size_t,
// the memory that it keeps, and must_stay() -> bool; both are called once, when the value is added.
template <typename Key, typename Value>
class RecentMap {
  public:
    explicit RecentMap(std::size_t most_bytes) : most_bytes_(most_bytes), evict_above_(most_bytes) {
        table_.store(new Table(kFirstSlots));
    }
    ~RecentMap() {
        delete table_.load();
        for (const auto& node : nodes_) delete node->value.load();
    }
    RecentMap(const RecentMap&) = delete;
    RecentMap& operator=(const RecentMap&) = delete;

    // nullptr if there is none. The value lives as long as `reading`. Any thread, wait-free.
    const Value* find(const Key& key, const Reading& reading) const noexcept {
        static_cast<void>(reading);
        Node* const node = find_node(key);
        if (node == nullptr) return nullptr;
        const std::uint32_t era = era_.load(std::memory_order_relaxed);
        if (node->era.load(std::memory_order_relaxed) != era) node->era.store(era, std::memory_order_relaxed);
        return node->value.load();
    }

    // Adds or replaces. If it throws std::bad_alloc, nothing has changed.
    void assign(const Key& key, Value value) {
        std::list<Gone> over;  // destroyed after the lock is released
        const std::lock_guard lock(mutex_);
        const std::size_t bytes = value.bytes() + kBytesOfEntry;
        const bool must_stay = value.must_stay();
        auto fresh = std::make_unique<const Value>(std::move(value));
        if (Node* const known = find_node(key))
            replace(*known, std::move(fresh), bytes, must_stay);
        else
            add(key, std::move(fresh), bytes, must_stay);
        count_up(bytes);
        if (bytes_ > evict_above_) try_to_evict();
        if (gone_.empty()) return;
        const std::uint64_t time = Reading::over();
        const auto first = std::find_if(gone_.begin(), gone_.end(), [&](const Gone& each) { return each.time > time; });
        over.splice(over.end(), gone_, gone_.begin(), first);
    }

    // All entries, oldest first. This does not count as a use of them.
    std::vector<std::pair<Key, Value>> copy() const {
        std::vector<std::pair<Key, Value>> all;
        const std::lock_guard lock(mutex_);
        all.reserve(nodes_.size());
        for (const auto& node : nodes_) all.emplace_back(node->key, *node->value.load());
        return all;
    }

    std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return nodes_.size();
    }
    // Bytes of all values, without those that are removed but still in use by a reader.
    std::size_t bytes() const {
        const std::lock_guard lock(mutex_);
        return bytes_;
    }

  private:
    static constexpr std::size_t kFirstSlots = 64;     // a power of two
    static constexpr std::size_t kBytesOfEntry = 256;  // the size of node, value and slots, with malloc's overhead

    struct Node {
        Node(const Key& k, const Value* v) : key(k), value(v) {}
        Key key;
        std::atomic<const Value*> value;
        std::atomic<std::uint32_t> era{0};  // the era of the last read
        std::size_t bytes = 0;
        bool must_stay = false;
    };
    struct Table {
        explicit Table(std::size_t slot_count) : mask(slot_count - 1), slots(slot_count) {}
        std::size_t mask;
        std::vector<std::atomic<Node*>> slots;
    };
    // Removed objects that readers may still see until `time` is over.
    struct Gone {
        std::uint64_t time = 0;
        std::unique_ptr<const Value> value{};
        std::vector<std::unique_ptr<Node>> nodes{};
        std::vector<std::unique_ptr<const Value>> values{};
        std::unique_ptr<Table> table{};
    };

    static void place(Table& table, Node& node) {
        std::size_t at = node.key.hash() & table.mask;
        while (table.slots[at].load(std::memory_order_relaxed) != nullptr) at = (at + 1) & table.mask;
        table.slots[at].store(&node);
    }

    Node* find_node(const Key& key) const noexcept {
        const Table& table = *table_.load();
        for (std::size_t at = key.hash() & table.mask;; at = (at + 1) & table.mask) {
            Node* const node = table.slots[at].load();
            if (node == nullptr || node->key == key) return node;
        }
    }

    // REQUIRES for all below: the lock is held.
    void replace(Node& node, std::unique_ptr<const Value> value, std::size_t bytes, bool must_stay) {
        gone_.emplace_back();
        gone_.back().value.reset(node.value.exchange(value.release()));
        gone_.back().time = Reading::next();
        bytes_ += bytes - node.bytes;
        node.bytes = bytes;
        node.must_stay = must_stay;
        node.era.store(era_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    }

    void add(const Key& key, std::unique_ptr<const Value> value, std::size_t bytes, bool must_stay) {
        auto node = std::make_unique<Node>(key, nullptr);
        node->bytes = bytes;
        node->must_stay = must_stay;
        node->era.store(era_.load(std::memory_order_relaxed), std::memory_order_relaxed);
        nodes_.reserve(nodes_.size() + 1);
        if ((nodes_.size() + 1) * 2 > table_.load()->mask + 1) publish(nodes_, 2 * (table_.load()->mask + 1));
        node->value.store(value.release());
        bytes_ += bytes;
        nodes_.push_back(std::move(node));
        place(*table_.load(), *nodes_.back());
    }

    // Replaces the table by one of these nodes.
    void publish(const std::vector<std::unique_ptr<Node>>& nodes, std::size_t slot_count) {
        auto made = std::make_unique<Table>(slot_count);
        for (const auto& node : nodes) place(*made, *node);
        gone_.emplace_back();
        gone_.back().table.reset(table_.exchange(made.release()));
        gone_.back().time = Reading::next();
    }

    // If there is no memory for it, a later call tries again.
    void try_to_evict() noexcept {
        try {
            evict();
        } catch (const std::bad_alloc&) {
        }
    }

    // Removes a quarter of the map, least recently used first. If too many entries must stay, the map grows instead.
    void evict() {
        std::vector<std::pair<std::uint32_t, std::size_t>> order;  // era of the last read, then order of insertion
        order.reserve(nodes_.size());
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            if (!nodes_[i]->must_stay) order.emplace_back(nodes_[i]->era.load(std::memory_order_relaxed), i);
        std::sort(order.begin(), order.end());
        std::vector<bool> leaves(nodes_.size(), false);
        std::size_t left_bytes = bytes_;
        for (const auto& [era, i] : order) {
            if (left_bytes <= most_bytes_ / 4 * 3) break;
            leaves[i] = true;
            left_bytes -= nodes_[i]->bytes;
        }
        drop(leaves);
        bytes_ = left_bytes;
        evict_above_ = std::max(most_bytes_, left_bytes + most_bytes_ / 4);
    }

    // Entries that were read in one era count as equally recent.
    void count_up(std::size_t bytes) {
        in_era_bytes_ += bytes;
        if (in_era_bytes_ < most_bytes_ / 16) return;
        in_era_bytes_ = 0;
        era_.fetch_add(1, std::memory_order_relaxed);
    }

    void drop(const std::vector<bool>& leaves) {
        std::vector<std::unique_ptr<Node>> staying;
        Gone gone;
        for (std::vector<std::unique_ptr<Node>>* list : {&staying, &gone.nodes}) list->reserve(nodes_.size());
        gone.values.reserve(nodes_.size());
        std::size_t slots = kFirstSlots;
        while (slots < 2 * (nodes_.size() + 1)) slots *= 2;
        auto made = std::make_unique<Table>(slots);
        gone_.emplace_back();  // nothing after this may throw
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            if (leaves[i])
                gone.nodes.push_back(std::move(nodes_[i]));
            else
                staying.push_back(std::move(nodes_[i]));
        }
        for (const auto& node : staying) place(*made, *node);
        gone.table.reset(table_.exchange(made.release()));
        for (const auto& node : gone.nodes) gone.values.emplace_back(node->value.load());
        nodes_ = std::move(staying);
        gone.time = Reading::next();
        gone_.back() = std::move(gone);
    }

    std::size_t most_bytes_, evict_above_;
    mutable std::mutex mutex_;
    std::size_t bytes_ = 0, in_era_bytes_ = 0;
    std::vector<std::unique_ptr<Node>> nodes_;  // in order of insertion
    std::list<Gone> gone_;                      // oldest first
    std::atomic<std::uint32_t> era_{1};
    std::atomic<Table*> table_{nullptr};
};

}  // namespace autotune::runtime
