#include "tuner/search/strategies/coordinates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/error.h"

namespace autotune::tuner {

Coordinates::Coordinates(const Domain& domain) : points_(domain.size) {
    if (points_ == 0) return;
    std::vector<int> low = domain.coordinates(0), high = low;
    for (std::size_t point = 1; point < points_; ++point) {
        const std::vector<int> position = domain.coordinates(point);
        check(position.size() == low.size(), "points of a domain with coordinates of different lengths");
        for (std::size_t d = 0; d < low.size(); ++d) {
            low[d] = std::min(low[d], position[d]);
            high[d] = std::max(high[d], position[d]);
        }
    }
    std::vector<std::size_t> kept;
    for (std::size_t d = 0; d < low.size(); ++d) {
        check(high[d] - low[d] < 65'536, "a dimension with too many positions");
        if (high[d] == low[d]) continue;
        kept.push_back(d);
        extents_.push_back(high[d] - low[d] + 1);
    }
    flat_.reserve(points_ * kept.size());
    for (std::size_t point = 0; point < points_; ++point) {
        const std::vector<int> position = domain.coordinates(point);
        for (const std::size_t d : kept) flat_.push_back(static_cast<std::uint16_t>(position[d] - low[d]));
    }
}

PointIndex::PointIndex(const Coordinates& coordinates) : coordinates_(coordinates) {
    for (std::size_t point = 0; point < coordinates.points(); ++point) numbers_.emplace(key(coordinates.of(point)), point);
}

std::string PointIndex::key(std::span<const std::uint16_t> position) {
    std::string bytes;
    for (const std::uint16_t one : position) {
        bytes += static_cast<char>(one & 0xff);
        bytes += static_cast<char>(one >> 8);
    }
    return bytes;
}

std::optional<std::size_t> PointIndex::find(std::span<const std::uint16_t> position) const {
    const auto found = numbers_.find(key(position));
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t PointIndex::nearest(std::span<const double> position, std::span<const std::size_t> among) const {
    check(!among.empty(), "the nearest of no points");
    std::size_t best = among.front();
    double least = std::numeric_limits<double>::infinity();
    for (const std::size_t point : among) {
        const std::span<const std::uint16_t> own = coordinates_.of(point);
        double distance = 0;
        for (std::size_t d = 0; d < own.size() && distance < least; ++d) {
            distance += std::abs(position[d] - own[d]) / (coordinates_.extents()[d] - 1);
        }
        // Among equally near points the one with the lower number is taken, so that the order of `among` does not matter.
        if (distance > least || (distance == least && point > best)) continue;
        least = distance;
        best = point;
    }
    return best;
}

}  // namespace autotune::tuner
