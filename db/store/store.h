#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "db/winner_store.h"

namespace autotune::db {

// A WinnerStore in one SQLite file. A forked child drops its parent's handle without touching the file and reopens it.
// Transactions that a killed process left unfinished are rolled back if this process may write the file, even if the store was
// opened for reading.
class Store final : public WinnerStore {
  public:
    // An empty file is initialised; one that is foreign (application_id), newer (user_version), truncated, malformed, locked or
    // unwritable is a DatabaseError that says which. Older schemas are migrated after a backup next to the file.
    static Store open(const OpenOptions& options);
    ~Store() override;
    Store(Store&&) noexcept;
    Store& operator=(Store&&) noexcept;

    std::vector<Winner> find(const Problem& problem, const DeviceIdentity& device) const override;
    std::vector<Winner> near(const Problem& problem, const DeviceIdentity& device, std::size_t limit) const override;
    std::vector<Winner> near_of_other_cards(const Problem& problem, const DeviceIdentity& device,
                                            std::size_t limit) const override;
    void put(const Winner& winner) override;
    void put_all(std::span<const Winner> winners) override;
    std::vector<Winner> list(const Filter& filter) const override;
    void scan(const Filter& filter, const std::function<bool(const Winner&)>& use) const override;
    std::vector<Winner> list_shipped(const Filter& filter) const override;
    std::int64_t count(const Filter& filter) const override;
    void for_each(const Filter& filter, const std::function<bool(const Winner&)>& use) const override;
    void for_each_oldest_first(const Filter& filter, const std::function<bool(const Winner&)>& use,
                               const std::function<void(const std::string&)>& invalid = {}) const override;
    std::optional<Winner> same_key(const Winner& winner) const override;
    std::int64_t remove(const Filter& filter) override;
    void record(const Problem& problem, const DeviceIdentity& device, const StoredTrial& trial) override;
    bool flush() override;
    std::vector<StoredTrial> trials(const Problem& problem, const DeviceIdentity& device) const override;
    void record_misses(std::span<const Miss> misses) override;
    void forget_misses(std::span<const Problem> problems, const DeviceIdentity& device) override;
    std::vector<MissRow> misses(std::size_t limit = SIZE_MAX) const override;
    std::int64_t count_misses() const override;
    std::vector<CostCorrection> corrections(const std::string& device_key, const std::string& class_key) const override;
    void put_corrections(std::span<const CostCorrection> corrections) override;
    const std::string& path() const override;
    std::string describe() const override;
    FileHealth check() const override;
    RepairReport repair() override;
    std::vector<Warning> warnings() const override;
    bool is_read_only() const override;

  private:
    struct Impl;
    explicit Store(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace autotune::db
