#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tuner/replay/recorded_space.h"

// The step between a file's JSON and a RecordedSpace: rows whose values are still numbers or words. Internal to the reader.
namespace autotune::tuner {

using RawValue = std::variant<std::int64_t, double, std::string>;

struct RawRow {
    std::vector<RawValue> values;  // by parameter
    std::optional<double> time_us;
    std::string failure;
    std::optional<double> prior;
};

struct RawTable {
    std::string name;
    std::vector<std::string> parameters;
    std::vector<ParameterKind> kinds;
    std::vector<std::vector<RawValue>> declared;  // domains that the file declares; may be empty
    std::vector<RawRow> rows;
};

// Each throws Error{usage} saying what is wrong, without the file's name.
RawTable table_of_kernel_tuner(const nlohmann::json& json, const RecordedLimits& limits);
RawTable table_of_t4(const nlohmann::json& json, const RecordedLimits& limits);
RawTable table_of_export(const nlohmann::json& json, const RecordedLimits& limits);

// Converts words to positions and drops repeated configs (the first counts).
RecordedSpace space_of(RawTable table);

}  // namespace autotune::tuner
