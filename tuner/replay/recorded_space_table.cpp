#include "tuner/replay/recorded_space_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestWord = 256;
constexpr std::size_t kLongestName = 64;  // The limit is small, because each row stores all names.

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::usage, why);
}

std::string row_name(std::size_t row) {
    return "row " + std::to_string(row + 1);
}

void check_counts(const RawTable& table, std::size_t rows, const RecordedLimits& limits) {
    if (table.parameters.empty()) refuse("it has no parameters");
    if (table.parameters.size() > limits.parameters)
        refuse("it has more than " + std::to_string(limits.parameters) + " parameters");
    if (rows == 0) refuse("it has no rows");
    if (rows > limits.rows) refuse("it has more than " + std::to_string(limits.rows) + " rows");
    if (rows > limits.values / table.parameters.size())
        refuse("it has " + std::to_string(rows) + " rows of " + std::to_string(table.parameters.size()) +
               " parameters, more than " + std::to_string(limits.values) + " values");
    std::set<std::string> names;
    for (const std::string& name : table.parameters) {
        if (name.empty() || name.size() > kLongestName) refuse("a parameter's name is empty or too long");
        if (!names.insert(name).second) refuse("parameter '" + name + "' is there twice");
    }
}

RawValue value_of(const json& value, const std::string& where) {
    if (value.is_boolean()) return std::int64_t{value.get<bool>() ? 1 : 0};
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) {
        refuse(where + ": a value does not fit 64 bits");
    }
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (value.is_number_float()) {
        const double number = value.get<double>();
        if (!std::isfinite(number)) refuse(where + ": a value is not finite");
        if (number == std::floor(number) && std::abs(number) < 0x1p53) return static_cast<std::int64_t>(number);
        return number;
    }
    if (value.is_string()) {
        if (value.get_ref<const std::string&>().size() > kLongestWord) refuse(where + ": a word is too long");
        return value.get<std::string>();
    }
    refuse(where + ": a value is neither a number nor a word");
}

// A number is a time if it is positive, finite and not one of the huge values by which old caches mark failures.
void set_time(RawRow& row, const json& time, double unit_us) {
    constexpr double kFailedStandIn = 1e19;
    if (time.is_number() && time.get<double>() > 0 && time.get<double>() < kFailedStandIn) {
        row.time_us = time.get<double>() * unit_us;
    } else if (time.is_string()) {
        row.failure = time.get<std::string>().substr(0, kLongestWord);
    }
    if (!row.time_us && row.failure.empty()) row.failure = "failed";
}

RawRow row_of(const json& values, const RawTable& table, const std::string& where) {
    if (!values.is_object()) refuse(where + " is not an object");
    RawRow row;
    for (const std::string& name : table.parameters) {
        if (!values.contains(name)) refuse(where + " lacks parameter '" + name + "'");
        row.values.push_back(value_of(values[name], where));
    }
    return row;
}

std::string word_at(const json& object, const char* key) {
    return object.contains(key) && object[key].is_string() ? object[key].get<std::string>().substr(0, kLongestWord)
                                                           : std::string();
}

double unit_in_us(const std::string& unit, double otherwise) {
    if (unit.empty()) return otherwise;
    if (unit == "s" || unit == "sec" || unit == "seconds") return 1e6;
    if (unit == "ms" || unit == "miliseconds" || unit == "milliseconds") return 1e3;
    if (unit == "us" || unit == "microseconds") return 1;
    if (unit == "ns" || unit == "nanoseconds") return 1e-3;
    refuse("unknown unit of time '" + unit + "'");
}

// The measurement that the result's first objective names; else the one called "time".
const json* objective_of(const json& result) {
    std::string wanted = "time";
    if (result.contains("objectives") && result["objectives"].is_array() && !result["objectives"].empty()) {
        wanted = result["objectives"].front().get<std::string>();
    }
    if (!result.contains("measurements") || !result["measurements"].is_array()) return nullptr;
    for (const json& measurement : result["measurements"]) {
        if (measurement.is_object() && word_at(measurement, "name") == wanted && measurement.contains("value"))
            return &measurement;
    }
    return nullptr;
}

double number_of(const RawValue& value) {
    return std::holds_alternative<double>(value) ? std::get<double>(value) : static_cast<double>(std::get<std::int64_t>(value));
}

// Numbers by size, then words alphabetically.
bool comes_before(const RawValue& left, const RawValue& right) {
    const bool left_is_word = std::holds_alternative<std::string>(left);
    const bool right_is_word = std::holds_alternative<std::string>(right);
    if (left_is_word != right_is_word) return right_is_word;
    if (left_is_word || left.index() == right.index()) return left < right;
    return number_of(left) < number_of(right);
}

std::vector<RawValue> domain_of(const RawTable& table, std::size_t parameter) {
    std::vector<RawValue> domain = table.declared[parameter];
    for (const RawRow& row : table.rows) domain.push_back(row.values[parameter]);
    std::sort(domain.begin(), domain.end(), comes_before);
    domain.erase(std::unique(domain.begin(), domain.end()), domain.end());
    return domain;
}

// The spelling of every value, or nothing for a domain of integers.
std::vector<std::string> words_of(const std::vector<RawValue>& domain) {
    const auto is_integer = [](const RawValue& value) { return std::holds_alternative<std::int64_t>(value); };
    std::vector<std::string> words;
    if (std::all_of(domain.begin(), domain.end(), is_integer)) return words;
    for (const RawValue& value : domain) {
        const bool is_word = std::holds_alternative<std::string>(value);
        words.push_back(is_word ? std::get<std::string>(value) : json(number_of(value)).dump());
    }
    return words;
}

}  // namespace

RawTable table_of_kernel_tuner(const json& parsed, const RecordedLimits& limits) {
    constexpr double kMilliseconds = 1e3;
    RawTable table{.name = word_at(parsed, "kernel_name") + " on " + word_at(parsed, "device_name"),
                   .parameters = parsed.at("tune_params_keys").get<std::vector<std::string>>(),
                   .kinds = {},
                   .declared = {},
                   .rows = {}};
    const json& cache = parsed.at("cache");
    if (!cache.is_object()) refuse("\"cache\" is not an object");
    check_counts(table, cache.size(), limits);
    if (parsed.contains("tune_params")) {
        for (const std::string& name : table.parameters) {
            std::vector<RawValue>& declared = table.declared.emplace_back();
            for (const json& value : parsed["tune_params"].at(name))
                declared.push_back(value_of(value, "parameter '" + name + "'"));
        }
    }
    for (const auto& [key, entry] : cache.items()) {
        RawRow row = row_of(entry, table, row_name(table.rows.size()));
        set_time(row, entry.contains("time") ? entry["time"] : json(), kMilliseconds);
        table.rows.push_back(std::move(row));
    }
    return table;
}

RawTable table_of_t4(const json& parsed, const RecordedLimits& limits) {
    const json& results = parsed.at("results");
    if (!results.is_array() || results.empty()) refuse("\"results\" is not an array with entries");
    RawTable table;
    for (const auto& [name, value] : results.front().at("configuration").items()) table.parameters.push_back(name);
    check_counts(table, results.size(), limits);
    double unit_us = 1e3;
    if (parsed.contains("metadata") && parsed["metadata"].is_object())
        unit_us = unit_in_us(word_at(parsed["metadata"], "timeunit"), unit_us);
    for (const json& result : results) {
        RawRow row = row_of(result.at("configuration"), table, row_name(table.rows.size()));
        const std::string invalidity = word_at(result, "invalidity");
        const json* measured = objective_of(result);
        if (!invalidity.empty() && invalidity != "correct") {
            row.failure = invalidity;
        } else {
            set_time(row, measured ? (*measured)["value"] : json(),
                     measured ? unit_in_us(word_at(*measured, "unit"), unit_us) : unit_us);
        }
        table.rows.push_back(std::move(row));
    }
    return table;
}

RawTable table_of_export(const json& parsed, const RecordedLimits& limits) {
    if (parsed.at("format") != "autotune-space-1") refuse("its format is not autotune-space-1");
    RawTable table;
    table.name = word_at(parsed, "name");
    for (const json& parameter : parsed.at("parameters")) {
        table.parameters.push_back(parameter.at("name").get<std::string>());
        table.kinds.push_back(word_at(parameter, "kind") == "launch" ? ParameterKind::launch : ParameterKind::compile);
        std::vector<RawValue>& declared = table.declared.emplace_back();
        for (const json& value : parameter.at("values"))
            declared.push_back(value_of(value, "parameter '" + table.parameters.back() + "'"));
    }
    const json& rows = parsed.at("rows");
    if (!rows.is_array()) refuse("\"rows\" is not an array");
    check_counts(table, rows.size(), limits);
    const std::size_t width = table.parameters.size();
    for (const json& values : rows) {
        const std::string where = row_name(table.rows.size());
        if (!values.is_array() || values.size() < width + 1 || values.size() > width + 2) refuse(where + " has the wrong length");
        RawRow row;
        for (std::size_t p = 0; p < width; ++p) row.values.push_back(value_of(values[p], where));
        set_time(row, values[width], 1);
        if (values.size() == width + 2) row.prior = values[width + 1].get<double>();
        table.rows.push_back(std::move(row));
    }
    return table;
}

RecordedSpace space_of(RawTable table) {
    RecordedSpace space;
    space.name = std::move(table.name);
    table.kinds.resize(table.parameters.size(), ParameterKind::compile);
    table.declared.resize(table.parameters.size());
    std::vector<std::vector<RawValue>> domains;
    for (std::size_t p = 0; p < table.parameters.size(); ++p) {
        domains.push_back(domain_of(table, p));
        space.words.push_back(words_of(domains[p]));
        space.parameters.push_back({.name = table.parameters[p], .values = {}, .kind = table.kinds[p], .about = {}});
        for (const RawValue& value : domains[p]) {
            const auto position = static_cast<std::int64_t>(space.parameters[p].values.size());
            space.parameters[p].values.push_back(space.words[p].empty() ? std::get<std::int64_t>(value) : position);
        }
    }
    std::set<std::vector<std::int64_t>> seen;
    for (RawRow& raw : table.rows) {
        RecordedSpace::Row row{.config = {}, .time_us = raw.time_us, .failure = std::move(raw.failure), .prior = raw.prior};
        std::vector<std::int64_t> key;
        for (std::size_t p = 0; p < domains.size(); ++p) {
            const auto place = std::lower_bound(domains[p].begin(), domains[p].end(), raw.values[p], comes_before);
            key.push_back(space.parameters[p].values[static_cast<std::size_t>(place - domains[p].begin())]);
            row.config.set(space.parameters[p].name, key.back());
        }
        if (seen.insert(std::move(key)).second) space.rows.push_back(std::move(row));
    }
    return space;
}

}  // namespace autotune::tuner
