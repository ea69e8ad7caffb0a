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

// A domain's coordinates in one block, without dimensions that are the same for all points; positions count from 0.
class Coordinates {
  public:
    explicit Coordinates(const Domain& domain);
    // These coordinates with the domain's traits as further dimensions.
    Coordinates with_traits(const Domain& domain) const;

    std::size_t points() const { return points_; }
    std::size_t dimensions() const { return extents_.size(); }
    // The number of positions in each dimension.
    const std::vector<int>& extents() const { return extents_; }
    std::span<const std::uint16_t> of(std::size_t point) const {
        return std::span(flat_).subspan(point * dimensions(), dimensions());
    }

  private:
    // Removes dimensions in which all points are the same, and counts positions from 0. `flat`: `dimensions` numbers a point.
    Coordinates(std::size_t points, std::size_t dimensions, const std::vector<int>& flat);

    std::size_t points_;
    std::vector<int> extents_;
    std::vector<std::uint16_t> flat_;
};

// Finds the point with given coordinates, or the nearest to them. Built once: O(points).
class PointIndex {
  public:
    explicit PointIndex(const Coordinates& coordinates);
    std::optional<std::size_t> find(std::span<const std::uint16_t> position) const;
    // The nearest of `among`: smallest sum over dimensions of the distance relative to the dimension's size. REQUIRES: `among` is
    // not empty.
    std::size_t nearest(std::span<const double> position, std::span<const std::size_t> among) const;

  private:
    static std::string key(std::span<const std::uint16_t> position);
    const Coordinates& coordinates_;
    std::unordered_map<std::string, std::size_t> numbers_;
};

}  // namespace autotune::tuner
