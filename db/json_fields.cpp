#include "db/json_fields.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace autotune::db {

using Json = nlohmann::ordered_json;

Json parse_line(std::string_view line) {
    if (line.size() > kMaxLineBytes) throw bad_record("it is longer than 1 MiB");
    std::vector<std::set<std::string>> names;  // of the objects being parsed; a repeated name would silently win or lose
    const auto watch = [&names](int depth, Json::parse_event_t event, Json& value) {
        if (depth > kMaxLineDepth) throw bad_record("it is nested too deeply");
        if (event == Json::parse_event_t::object_start) names.emplace_back();
        if (event == Json::parse_event_t::object_end) names.pop_back();
        if (event == Json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second) {
            throw bad_record("a name is there twice");
        }
        return true;
    };
    try {
        return Json::parse(line.begin(), line.end(), watch);
    } catch (const Json::exception&) {
        throw bad_record("it is not JSON");
    }
}

std::int64_t integer_of(const Json& value, const std::string& where) {
    const bool fits =
        value.is_number_unsigned() ? value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX} : value.is_number_integer();
    if (!fits) throw bad_record(where + " is not an integer of 64 bits");
    return value.get<std::int64_t>();
}

Fields::Fields(const Json& value, std::string where) : value_(value), where_(std::move(where)) {
    if (!value_.is_object()) throw bad_record(where_ + " is not an object");
}

const Json* Fields::find(const char* name) {
    const auto found = value_.find(name);
    if (found == value_.end()) return nullptr;
    read_.insert(name);
    return &*found;
}

const Json& Fields::object(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) throw bad_record(where_ + " lacks \"" + name + "\"");
    return *value;
}

void Fields::finish() const {
    for (const auto& [name, value] : value_.items()) {
        if (!read_.contains(name)) throw bad_record(where_ + " has a member that is not known");
    }
}

void Fields::read(const Json& value, const char* name, bool& target) const {
    if (!value.is_boolean()) throw bad_record(where_ + "." + name + " is not true or false");
    target = value.get<bool>();
}

void Fields::read(const Json& value, const char* name, int& target) const {
    const std::int64_t wide = integer_of(value, where_ + "." + name);
    if (wide < INT32_MIN || wide > INT32_MAX) throw bad_record(where_ + "." + name + " is out of range");
    target = static_cast<int>(wide);
}

void Fields::read(const Json& value, const char* name, std::uint64_t& target) const {
    if (!value.is_number_unsigned()) throw bad_record(where_ + "." + name + " is not an integer from 0");
    target = value.get<std::uint64_t>();
}

void Fields::read(const Json& value, const char* name, double& target) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
        throw bad_record(where_ + "." + name + " is not a finite number");
    target = value.get<double>();
}

void Fields::read(const Json& value, const char* name, std::string& target) const {
    if (!value.is_string()) throw bad_record(where_ + "." + name + " is not a string");
    target = value.get<std::string>();
}

}  // namespace autotune::db
