#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tuner/search/search.h"

namespace autotune::tuner {

// A domain's coordinates in one block, without the dimensions in which no two points differ; positions count from 0.
class Coordinates {
  public:
    explicit Coordinates(const Domain& domain);

    std::size_t points() const { return points_; }
    std::size_t dimensions() const { return extents_.size(); }
    // How many positions a dimension has.
    const std::vector<int>& extents() const { return extents_; }
    std::span<const std::uint16_t> of(std::size_t point) const {
        return std::span(flat_).subspan(point * dimensions(), dimensions());
    }

  private:
    std::size_t points_;
    std::vector<int> extents_;
    std::vector<std::uint16_t> flat_;
};

// Which point has given coordinates, and which is nearest to them. Built once: O(points).
class PointIndex {
  public:
    explicit PointIndex(const Coordinates& coordinates);
    std::optional<std::size_t> find(std::span<const std::uint16_t> position) const;
    // Of `among`: least sum over dimensions of the distance as a share of the dimension. REQUIRES: `among` is not empty.
    std::size_t nearest(std::span<const double> position, std::span<const std::size_t> among) const;

  private:
    static std::string key(std::span<const std::uint16_t> position);
    const Coordinates& coordinates_;
    std::unordered_map<std::string, std::size_t> numbers_;
};

}  // namespace autotune::tuner
