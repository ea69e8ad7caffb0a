#include "tuner/search_domain.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

using Position = std::vector<int>;

struct PositionHash {
    std::size_t operator()(const Position& position) const {
        std::uint64_t hash = 0xcbf29ce484222325u;
        for (const int one : position) hash = (hash ^ static_cast<std::uint64_t>(one + 1)) * 0x100000001b3u;
        return hash;
    }
};

// A part's points as positions in its own parameters' domains.
struct PartTable {
    std::size_t first = 0;  // number of its first point
    std::vector<Position> positions;
    std::vector<int> domain_sizes;     // by parameter
    std::vector<std::size_t> columns;  // of the coordinates, by parameter
    std::unordered_map<Position, std::size_t, PositionHash> numbers;

    void reach(Position position, std::vector<std::size_t>& found) const {
        const auto hit = numbers.find(position);
        if (hit != numbers.end()) found.push_back(hit->second);
    }
    std::vector<std::size_t> neighbours(std::size_t point) const;
};

std::vector<std::size_t> PartTable::neighbours(std::size_t point) const {
    const Position& from = positions[point - first];
    std::vector<std::size_t> found;
    for (std::size_t p = 0; p < from.size(); ++p) {
        Position to = from;
        for (to[p] = 0; to[p] < domain_sizes[p]; ++to[p]) {
            if (to[p] != from[p]) reach(to, found);
        }
    }
    for (std::size_t p = 0; p < from.size(); ++p) {
        for (std::size_t q = p + 1; q < from.size(); ++q) {
            for (const auto& [step_p, step_q] : {std::pair{-1, -1}, {-1, 1}, {1, -1}, {1, 1}}) {
                Position to = from;
                to[p] += step_p;
                to[q] += step_q;
                reach(to, found);
            }
        }
    }
    return found;
}

struct Tables {
    std::vector<PartTable> parts;
    std::vector<Position> coordinates;   // by point
    std::vector<std::size_t> instances;  // by point

    const PartTable& part_of(std::size_t point) const {
        const auto after = std::upper_bound(parts.begin(), parts.end(), point,
                                            [](std::size_t number, const PartTable& part) { return number < part.first; });
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
    PartTable table;
    table.first = tables.coordinates.size();
    for (const Parameter& parameter : part.parameters) {
        table.domain_sizes.push_back(static_cast<int>(parameter.values.size()));
        table.columns.push_back(columns.at(parameter.name).index);
    }
    std::unordered_map<Position, std::size_t, PositionHash> instances;
    for (const Config& config : part.points) {
        Position own, compile_part, coordinates(columns.size() + 1, -1);
        coordinates[0] = static_cast<int>(tables.parts.size());
        for (std::size_t p = 0; p < part.parameters.size(); ++p) {
            const Parameter& parameter = part.parameters[p];
            const std::int64_t value = config[parameter.name];
            own.push_back(position_of(parameter.values, value));
            if (parameter.kind == ParameterKind::compile) compile_part.push_back(own.back());
            coordinates[table.columns[p]] = position_of(columns.at(parameter.name).values, value);
        }
        const std::size_t number = tables.coordinates.size();
        tables.instances.push_back(instances.try_emplace(std::move(compile_part), number).first->second);
        tables.coordinates.push_back(std::move(coordinates));
        table.numbers.emplace(own, number);
        table.positions.push_back(std::move(own));
    }
    tables.parts.push_back(std::move(table));
}

}  // namespace

Domain make_domain(const std::vector<DomainPart>& parts) {
    const auto tables = std::make_shared<Tables>();
    const std::map<std::string, Column> columns = columns_of(parts);
    for (const DomainPart& part : parts) add_part(part, columns, *tables);
    Domain domain;
    domain.size = tables->coordinates.size();
    domain.neighbours = [tables](std::size_t point) { return tables->part_of(point).neighbours(point); };
    domain.prior = [](std::size_t) { return std::nullopt; };
    domain.instance = [tables](std::size_t point) { return tables->instances.at(point); };
    domain.coordinates = [tables](std::size_t point) { return tables->coordinates.at(point); };
    return domain;
}

std::size_t count_instances(const Domain& domain) {
    std::unordered_set<std::size_t> instances;
    for (std::size_t point = 0; point < domain.size; ++point) instances.insert(domain.instance(point));
    return instances.size();
}

}  // namespace autotune::tuner
