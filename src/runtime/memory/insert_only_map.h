#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace autotune::runtime {

// A map whose reads take no lock and allocate nothing. Entries are never removed, and a replaced value is kept alive because a
// reader may hold it. For few entries that every call looks up, such as workspaces. Key needs == and hash() -> std::size_t.
template <typename Key, typename Value>
class InsertOnlyMap {
  public:
    InsertOnlyMap() { publish(kFirstSlots); }

    // nullptr if there is none. The value lives as long as the map. Any thread, wait-free.
    const Value* find(const Key& key) const noexcept {
        const Node* node = find_node(key);
        return node == nullptr ? nullptr : node->value.load(std::memory_order_acquire);
    }

    // Adds or replaces; returns the value that readers now get.
    const Value* assign(const Key& key, Value value) {
        const std::lock_guard lock(mutex_);
        const Value* stored = &values_.emplace_back(std::move(value));
        if (Node* node = find_node(key)) {
            node->value.store(stored, std::memory_order_release);
            return stored;
        }
        const std::size_t slots = tables_.back()->mask + 1;
        if ((nodes_.size() + 1) * 2 > slots) publish(slots * 2);  // before the node is added, because it may throw
        nodes_.emplace_back(key, stored);
        place(*tables_.back(), nodes_.back());
        return stored;
    }

    std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return nodes_.size();
    }

  private:
    static constexpr std::size_t kFirstSlots = 64;  // a power of two

    struct Node {
        Node(const Key& k, const Value* v) : key(k), value(v) {}
        Key key;
        std::atomic<const Value*> value;
    };
    struct Table {
        explicit Table(std::size_t slot_count) : mask(slot_count - 1), slots(slot_count) {}
        std::size_t mask;
        std::vector<std::atomic<Node*>> slots;
    };

    static void place(Table& table, Node& node) {
        std::size_t at = node.key.hash() & table.mask;
        while (table.slots[at].load(std::memory_order_relaxed) != nullptr) at = (at + 1) & table.mask;
        table.slots[at].store(&node, std::memory_order_release);
    }

    Node* find_node(const Key& key) const noexcept {
        const Table& table = *table_.load(std::memory_order_acquire);
        for (std::size_t at = key.hash() & table.mask;; at = (at + 1) & table.mask) {
            Node* const node = table.slots[at].load(std::memory_order_acquire);
            if (node == nullptr || node->key == key) return node;
        }
    }

    void publish(std::size_t slot_count) {
        tables_.push_back(std::make_unique<Table>(slot_count));
        for (Node& node : nodes_) place(*tables_.back(), node);
        table_.store(tables_.back().get(), std::memory_order_release);
    }

    mutable std::mutex mutex_;
    std::deque<Value> values_;
    std::deque<Node> nodes_;
    std::vector<std::unique_ptr<Table>> tables_;  // old tables stay, because a reader may be in one
    std::atomic<Table*> table_{nullptr};
};

}  // namespace autotune::runtime
