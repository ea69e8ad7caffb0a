#include "tuner/search/search_domain.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

// A part's points as positions in its own parameters' domains, each encoded as one number with a digit per parameter.
class PartTable {
  public:
    PartTable(std::size_t first, std::span<const Parameter> parameters);

    std::size_t first() const { return first_; }
    std::uint64_t number_of(std::span<const std::uint16_t> position) const;
    void add(std::uint64_t number);
    // Call after the last add().
    void sort() { std::sort(by_number_.begin(), by_number_.end()); }
    std::vector<std::size_t> neighbours(std::size_t point) const;

  private:
    std::int64_t digit(std::uint64_t number, std::size_t p) const {
        return static_cast<std::int64_t>(number / weights_[p] % static_cast<std::uint64_t>(sizes_[p]));
    }
    void reach(std::uint64_t number, std::vector<std::size_t>& found) const;

    std::size_t first_;                                             // number of its first point
    std::vector<std::int64_t> sizes_;                               // sizes of the domains, by parameter
    std::vector<std::uint64_t> weights_;                            // weights of the digits, by parameter
    std::vector<std::uint64_t> numbers_;                            // by point
    std::vector<std::pair<std::uint64_t, std::size_t>> by_number_;  // points, found by their numbers
};

PartTable::PartTable(std::size_t first, std::span<const Parameter> parameters) : first_(first) {
    std::uint64_t combinations = 1;
    for (const Parameter& parameter : parameters) {
        sizes_.push_back(static_cast<std::int64_t>(parameter.values.size()));
        weights_.push_back(combinations);
        check(combinations <= UINT64_MAX / std::max<std::size_t>(1, parameter.values.size()),
              "a space has more combinations than 64 bits count");
        combinations *= parameter.values.size();
    }
}

std::uint64_t PartTable::number_of(std::span<const std::uint16_t> position) const {
    std::uint64_t number = 0;
    for (std::size_t p = 0; p < position.size(); ++p) number += weights_[p] * position[p];
    return number;
}

void PartTable::add(std::uint64_t number) {
    by_number_.emplace_back(number, first_ + numbers_.size());
    numbers_.push_back(number);
}

void PartTable::reach(std::uint64_t number, std::vector<std::size_t>& found) const {
    const auto hit = std::lower_bound(by_number_.begin(), by_number_.end(), std::pair(number, std::size_t{0}));
    if (hit != by_number_.end() && hit->first == number) found.push_back(hit->second);
}

std::vector<std::size_t> PartTable::neighbours(std::size_t point) const {
    const std::uint64_t from = numbers_[point - first_];
    std::vector<std::size_t> found;
    for (std::size_t p = 0; p < sizes_.size(); ++p) {
        const std::int64_t own = digit(from, p);
        for (std::int64_t to = 0; to < sizes_[p]; ++to) {
            if (to != own) reach(from + weights_[p] * static_cast<std::uint64_t>(to - own), found);
        }
    }
    const auto step = [&](std::uint64_t number, std::size_t p, std::int64_t by) {
        const std::int64_t to = digit(from, p) + by;
        return to < 0 || to >= sizes_[p] ? std::nullopt : std::optional(number + weights_[p] * static_cast<std::uint64_t>(by));
    };
    for (std::size_t p = 0; p < sizes_.size(); ++p) {
        for (std::size_t q = p + 1; q < sizes_.size(); ++q) {
            for (const auto& [step_p, step_q] : {std::pair{-1, -1}, {-1, 1}, {1, -1}, {1, 1}}) {
                const std::optional<std::uint64_t> half = step(from, p, step_p);
                const std::optional<std::uint64_t> to = half ? step(*half, q, step_q) : std::nullopt;
                if (to) reach(*to, found);
            }
        }
    }
    return found;
}

struct Tables {
    std::vector<PartTable> parts;
    std::size_t dimensions = 0;
    std::vector<std::int16_t> coordinates;  // by point, `dimensions` of each in a row
    std::vector<std::size_t> instances;     // by point
    // Dimensions that have a trait, with its value at each position
    std::vector<std::pair<std::size_t, std::vector<int>>> traits;

    // A point without the parameter counts as one whose value is not a power of two.
    std::vector<int> traits_of(std::size_t point) const {
        std::vector<int> result;
        for (const auto& [dimension, by_position] : traits) {
            const int position = coordinates[point * dimensions + dimension];
            result.push_back(position < 0 ? 0 : by_position[static_cast<std::size_t>(position)]);
        }
        return result;
    }
    std::vector<int> position_of(std::size_t point) const {
        const auto from = coordinates.begin() + static_cast<std::ptrdiff_t>(point * dimensions);
        return {from, from + static_cast<std::ptrdiff_t>(dimensions)};
    }
    const PartTable& part_of(std::size_t point) const {
        const auto after = std::upper_bound(parts.begin(), parts.end(), point,
                                            [](std::size_t number, const PartTable& part) { return number < part.first(); });
        return *std::prev(after);
    }
};

// Column and sorted values of every parameter name of all parts.
struct Column {
    std::size_t index = 0;
    std::vector<std::int64_t> values;
};

std::map<std::string, Column> columns_of(const std::vector<DomainPart>& parts) {
    std::map<std::string, Column> columns;
    std::size_t next = 1;  // column 0 is the part
    for (const DomainPart& part : parts) {
        for (const Parameter& parameter : part.parameters) {
            const auto [column, is_new] = columns.try_emplace(parameter.name);
            if (is_new) column->second.index = next++;
            std::vector<std::int64_t>& values = column->second.values;
            values.insert(values.end(), parameter.values.begin(), parameter.values.end());
            std::sort(values.begin(), values.end());
            values.erase(std::unique(values.begin(), values.end()), values.end());
        }
    }
    return columns;
}

int position_of(const std::vector<std::int64_t>& values, std::int64_t value) {
    const auto found = std::find(values.begin(), values.end(), value);
    check(found != values.end(), "a point of a domain has a value outside its parameter's domain");
    return static_cast<int>(found - values.begin());
}

void add_part(const DomainPart& part, const std::map<std::string, Column>& columns, Tables& tables) {
    PartTable table(tables.instances.size(), part.parameters);
    std::vector<const Column*> column_of;
    std::vector<std::vector<int>> shared_positions;  // position of each of a parameter's values among those of its column
    for (const Parameter& parameter : part.parameters) {
        column_of.push_back(&columns.at(parameter.name));
        std::vector<int>& shared = shared_positions.emplace_back();
        for (const std::int64_t value : parameter.values) shared.push_back(position_of(column_of.back()->values, value));
    }
    std::unordered_map<std::uint64_t, std::size_t> instances;  // first point of each compile part
    instances.reserve(part.points.size());
    std::vector<std::uint16_t> compile_part(part.parameters.size());
    tables.coordinates.resize(tables.coordinates.size() + part.points.size() * tables.dimensions, std::int16_t{-1});
    for (std::size_t place = 0; place < part.points.size(); ++place) {
        const std::span<const std::uint16_t> own = part.points.positions(place);
        const std::size_t number = tables.instances.size();
        const std::span coordinates = std::span(tables.coordinates).subspan(number * tables.dimensions, tables.dimensions);
        coordinates[0] = static_cast<std::int16_t>(tables.parts.size());
        for (std::size_t p = 0; p < own.size(); ++p) {
            compile_part[p] = part.parameters[p].kind == ParameterKind::compile ? own[p] : std::uint16_t{0};
            coordinates[column_of[p]->index] = static_cast<std::int16_t>(shared_positions[p][own[p]]);
        }
        tables.instances.push_back(instances.try_emplace(table.number_of(compile_part), number).first->second);
        table.add(table.number_of(own));
    }
    table.sort();
    tables.parts.push_back(std::move(table));
}

bool is_power_of_two(std::int64_t value) {
    return value > 0 && std::has_single_bit(static_cast<std::uint64_t>(value));
}

// For parameters with powers of two and other values, among them values of at least a warp's lanes. Smaller numbers are often
// counts or choices, for which the trait would mislead (on the synthetic cliff it took 1.28 times the evaluations of greedy).
// Many rules of a GPU, of warps, banks and divisible extents, hold for all powers of two alike, however far apart they are.
constexpr std::int64_t kWarp = 32;
void add_traits(const std::map<std::string, Column>& columns, Tables& tables) {
    for (const auto& [name, column] : columns) {
        std::vector<int> by_position;
        for (const std::int64_t value : column.values) by_position.push_back(is_power_of_two(value) ? 1 : 0);
        const auto powers = std::count(by_position.begin(), by_position.end(), 1);
        const auto others = static_cast<std::ptrdiff_t>(by_position.size()) - powers;
        if (powers >= 2 && others >= 2 && column.values.back() >= kWarp)
            tables.traits.emplace_back(column.index, std::move(by_position));
    }
}

}  // namespace

Domain make_domain(const std::vector<DomainPart>& parts) {
    const auto tables = std::make_shared<Tables>();
    const std::map<std::string, Column> columns = columns_of(parts);
    tables->dimensions = columns.size() + 1;
    add_traits(columns, *tables);
    for (const DomainPart& part : parts) add_part(part, columns, *tables);
    Domain domain;
    domain.size = tables->instances.size();
    domain.neighbours = [tables](std::size_t point) { return tables->part_of(point).neighbours(point); };
    domain.prior = [](std::size_t) { return std::nullopt; };
    domain.instance = [tables](std::size_t point) { return tables->instances.at(point); };
    domain.coordinates = [tables](std::size_t point) { return tables->position_of(point); };
    domain.traits = [tables](std::size_t point) { return tables->traits_of(point); };
    return domain;
}

std::size_t count_instances(const Domain& domain) {
    std::unordered_set<std::size_t> instances;
    for (std::size_t point = 0; point < domain.size; ++point) instances.insert(domain.instance(point));
    return instances.size();
}

}  // namespace autotune::tuner
