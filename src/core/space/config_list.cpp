#include "src/core/space/config_list.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "src/core/error.h"
#include "src/core/space/space_walk.h"

namespace autotune {

ConfigList::ConfigList(std::span<const Parameter> parameters) {
    for (const Parameter& parameter : parameters) {
        check(parameter.values.size() <= UINT16_MAX, "a parameter with too many values");
        values_.push_back(parameter.values);
        names_.set(parameter.name, 0);
    }
}

ConfigList::ConfigList(std::span<const Parameter> parameters, std::span<const Config> configs) : ConfigList(parameters) {
    for (const Config& config : configs) {
        for (std::size_t p = 0; p < values_.size(); ++p) {
            const std::string& name = names_.values()[p].first;
            const auto& held = config.values();
            const std::int64_t value = p < held.size() && held[p].first == name ? held[p].second : config[name];
            const auto at = std::find(values_[p].begin(), values_[p].end(), value);
            check(at != values_[p].end(), "a config has a value outside its parameter's domain");
            positions_.push_back(static_cast<std::uint16_t>(at - values_[p].begin()));
        }
        ++size_;
    }
}

Config ConfigList::operator[](std::size_t place) const {
    Config config = names_;
    read(place, config);
    return config;
}

void ConfigList::read(std::size_t place, Config& config) const {
    const auto position = positions(place);
    for (std::size_t p = 0; p < position.size(); ++p) config.set_at(p, values_[p][position[p]]);
}

void ConfigList::add(std::span<const std::size_t> positions) {
    for (const std::size_t position : positions) positions_.push_back(static_cast<std::uint16_t>(position));
    ++size_;
}

void ConfigList::replace(std::size_t place, std::span<const std::size_t> positions) {
    std::transform(positions.begin(), positions.end(), positions_.begin() + static_cast<std::ptrdiff_t>(place * values_.size()),
                   [](std::size_t position) { return static_cast<std::uint16_t>(position); });
}

std::optional<ConfigList::Position> ConfigList::position_of(const Config& config) const {
    const auto& held = config.values();
    if (held.size() != values_.size()) return std::nullopt;
    Position position;
    for (std::size_t p = 0; p < values_.size(); ++p) {
        if (held[p].first != names_.values()[p].first) return std::nullopt;
        const auto at = std::find(values_[p].begin(), values_[p].end(), held[p].second);
        if (at == values_[p].end()) return std::nullopt;
        position.push_back(static_cast<std::uint16_t>(at - values_[p].begin()));
    }
    return position;
}

std::size_t ConfigList::lower_bound(const Position& position) const {
    std::size_t first = 0, count = size_;
    while (count > 0) {
        const std::size_t middle = first + count / 2;
        const auto other = positions(middle);
        if (std::lexicographical_compare(other.begin(), other.end(), position.begin(), position.end())) {
            first = middle + 1;
            count -= count / 2 + 1;
        } else {
            count /= 2;
        }
    }
    return first;
}

std::optional<std::size_t> ConfigList::find(const Config& config) const {
    const std::optional<Position> position = position_of(config);
    const std::size_t place = position ? lower_bound(*position) : size_;
    if (place == size_ || !std::ranges::equal(positions(place), *position)) return std::nullopt;
    return place;
}

void ConfigList::insert(const Config& config) {
    const std::optional<Position> position = position_of(config);
    check(position.has_value(), "a config of another space");
    const std::size_t place = lower_bound(*position);
    if (place < size_ && std::ranges::equal(positions(place), *position)) return;
    positions_.insert(positions_.begin() + static_cast<std::ptrdiff_t>(place * values_.size()), position->begin(),
                      position->end());
    ++size_;
}

void ConfigList::reorder(std::span<const std::size_t> order) {
    std::vector<std::uint16_t> reordered;
    reordered.reserve(positions_.size());
    for (const std::size_t from : order) {
        const auto position = positions(from);
        reordered.insert(reordered.end(), position.begin(), position.end());
    }
    positions_ = std::move(reordered);
}

// Algorithm R (Vitter, 1985), in one walk: the n-th config draws a random place among n and is kept if that place is in the
// sample.
ConfigList list_sample(const SearchSpace& space, const Config& pins, std::size_t limit) {
    ConfigList taken(space.parameters);
    std::vector<std::uint64_t> numbers;  // positions in the walk of the configs that were taken
    std::mt19937_64 random(limit);
    std::uint64_t seen = 0;
    SpaceWalk walk(space, pins);
    walk.visit_legal([&](const std::vector<std::size_t>& positions) {
        ++seen;
        if (taken.size() < limit) {
            taken.add(positions);
            numbers.push_back(seen);
        } else if (const std::uint64_t place = random() % seen; place < limit) {
            taken.replace(place, positions);
            numbers[place] = seen;
        }
        return true;
    });
    if (seen <= limit) return taken;
    std::vector<std::size_t> order(taken.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t left, std::size_t right) { return numbers[left] < numbers[right]; });
    taken.reorder(order);
    const auto add = [&](const Config& wanted) {
        const auto is_as_pinned = [&](const auto& pin) { return wanted.find(pin.first) == pin.second; };
        if (space.contains(wanted) && std::all_of(pins.values().begin(), pins.values().end(), is_as_pinned))
            taken.insert(space.canonical(wanted));
    };
    add(space.default_config);
    for (const NamedConfig& each : space.named) add(each.config);
    return taken;
}

}  // namespace autotune
