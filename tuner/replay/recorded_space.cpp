#include "tuner/replay/recorded_space.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "tuner/search/search_domain.h"

namespace autotune::tuner {

std::optional<double> RecordedSpace::best_us() const {
    std::optional<double> best;
    for (const Row& row : rows) {
        if (row.time_us && (!best || *row.time_us < *best)) best = row.time_us;
    }
    return best;
}

Domain make_domain(const RecordedSpace& space) {
    std::vector<Config> points;
    for (const RecordedSpace::Row& row : space.rows) points.push_back(row.config);
    Domain domain = make_domain({{.parameters = space.parameters, .points = {space.parameters, points}}});
    std::vector<std::optional<double>> priors;
    for (const RecordedSpace::Row& row : space.rows) priors.push_back(row.prior);
    domain.prior = [priors = std::move(priors)](std::size_t point) { return priors.at(point); };
    return domain;
}

std::string to_json(const RecordedSpace& space) {
    nlohmann::ordered_json json{{"format", "autotune-space-1"}, {"name", space.name}};
    for (const Parameter& parameter : space.parameters) {
        json["parameters"].push_back({{"name", parameter.name},
                                      {"values", parameter.values},
                                      {"kind", parameter.kind == ParameterKind::compile ? "compile" : "launch"}});
    }
    json["rows"] = nlohmann::ordered_json::array();
    for (const RecordedSpace::Row& row : space.rows) {
        nlohmann::ordered_json values = nlohmann::ordered_json::array();
        for (const Parameter& parameter : space.parameters) values.push_back(row.config[parameter.name]);
        if (row.time_us) {
            values.push_back(*row.time_us);
        } else {
            values.push_back(row.failure.empty() ? "failed" : row.failure);
        }
        if (row.prior) values.push_back(*row.prior);
        json["rows"].push_back(std::move(values));
    }
    return json.dump();
}

}  // namespace autotune::tuner
