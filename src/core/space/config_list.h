#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/core/space/config.h"
#include "src/core/space/search_space.h"

namespace autotune {

// Configs of one space, each stored as its values' positions in the parameters' domains: 2 bytes a value. As objects with names
// 400,000 configs take half a gigabyte, and filling that took most of the time of listing them.
class ConfigList {
  public:
    ConfigList() = default;
    explicit ConfigList(std::span<const Parameter> parameters);
    // REQUIRES: the configs have exactly these parameters, with values from their domains (throws Error{internal} otherwise).
    ConfigList(std::span<const Parameter> parameters, std::span<const Config> configs);

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    // With parameters in declared order.
    Config operator[](std::size_t place) const;
    // The same into a config that is reused, without allocating. REQUIRES: `config` came from operator[] of this list.
    void read(std::size_t place, Config& config) const;
    std::span<const std::uint16_t> positions(std::size_t place) const {
        return std::span(positions_).subspan(place * values_.size(), values_.size());
    }

    void add(std::span<const std::size_t> positions);
    void replace(std::size_t place, std::span<const std::size_t> positions);
    // The place of a config with parameters in declared order. REQUIRES: configs and domains are ascending.
    std::optional<std::size_t> find(const Config& config) const;
    // Inserts a config where it belongs, unless the list has it. REQUIRES: as for find(), and a config of the space.
    void insert(const Config& config);
    // Rearranges: place i gets the config that was at order[i].
    void reorder(std::span<const std::size_t> order);

  private:
    using Position = std::vector<std::uint16_t>;
    std::optional<Position> position_of(const Config& config) const;
    std::size_t lower_bound(const Position& position) const;

    std::vector<std::vector<std::int64_t>> values_;  // domains, by parameter
    Config names_;                                   // has the names of all parameters; its values mean nothing
    std::vector<std::uint16_t> positions_;
    std::size_t size_ = 0;
};

// SearchSpace::sample() as a list.
ConfigList list_sample(const SearchSpace& space, const Config& pins, std::size_t limit);

}  // namespace autotune
