#include "tuner/search/strategies/coordinates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "src/core/error.h"

namespace autotune::tuner {

namespace {

// The values of `of` for all points, in one block.
std::vector<int> in_a_row(std::size_t points, std::size_t dimensions, const std::function<std::vector<int>(std::size_t)>& of) {
    std::vector<int> flat;
    flat.reserve(points * dimensions);
    for (std::size_t point = 0; point < points; ++point) {
        const std::vector<int> position = of(point);
        check(position.size() == dimensions, "points of a domain with coordinates of different lengths");
        flat.insert(flat.end(), position.begin(), position.end());
    }
    return flat;
}

std::size_t length_of_first(std::size_t points, const std::function<std::vector<int>(std::size_t)>& of) {
    return points == 0 || !of ? 0 : of(0).size();
}

}  // namespace

Coordinates::Coordinates(const Domain& domain)
    : Coordinates(domain.size, length_of_first(domain.size, domain.coordinates),
                  in_a_row(domain.size, length_of_first(domain.size, domain.coordinates), domain.coordinates)) {}

Coordinates::Coordinates(std::size_t points, std::size_t dimensions, const std::vector<int>& flat) : points_(points) {
    std::vector<int> low(dimensions, std::numeric_limits<int>::max()), high(dimensions, std::numeric_limits<int>::min());
    for (std::size_t point = 0; point < points; ++point) {
        const int* position = flat.data() + point * dimensions;
        for (std::size_t d = 0; d < dimensions; ++d) {
            low[d] = std::min(low[d], position[d]);
            high[d] = std::max(high[d], position[d]);
        }
    }
    std::vector<std::size_t> kept;
    for (std::size_t d = 0; points > 0 && d < dimensions; ++d) {
        check(high[d] - low[d] < 65'536, "a dimension with too many positions");
        if (high[d] == low[d]) continue;
        kept.push_back(d);
        extents_.push_back(high[d] - low[d] + 1);
    }
    flat_.reserve(points * kept.size());
    for (std::size_t point = 0; point < points; ++point) {
        const int* position = flat.data() + point * dimensions;
        for (const std::size_t d : kept) flat_.push_back(static_cast<std::uint16_t>(position[d] - low[d]));
    }
}

Coordinates Coordinates::with_traits(const Domain& domain) const {
    const std::size_t count = length_of_first(points_, domain.traits);
    if (count == 0) return *this;
    const Coordinates traits(points_, count, in_a_row(points_, count, domain.traits));
    Coordinates result = *this;
    result.extents_.insert(result.extents_.end(), traits.extents_.begin(), traits.extents_.end());
    result.flat_.clear();
    result.flat_.reserve(points_ * result.dimensions());
    for (std::size_t point = 0; point < points_; ++point) {
        for (const Coordinates* part : {this, &traits}) {
            const auto position = part->of(point);
            result.flat_.insert(result.flat_.end(), position.begin(), position.end());
        }
    }
    return result;
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
