#include "db/json_fields.h"

#include <cmath>
#include <utility>

namespace autotune::db {
namespace {

std::optional<double> number_of(const JsonValue& value) {
    if (const auto* real = value.get<double>()) return *real;
    if (const auto* natural = value.get<std::uint64_t>()) return static_cast<double>(*natural);
    if (const auto* negative = value.get<std::int64_t>()) return static_cast<double>(*negative);
    return std::nullopt;
}

}  // namespace

std::int64_t integer_of(const JsonValue& value, const std::string& where) {
    if (const auto* negative = value.get<std::int64_t>()) return *negative;
    const auto* number = value.get<std::uint64_t>();
    if (number == nullptr || *number > std::uint64_t{INT64_MAX}) throw bad_record(where + " is not an integer of 64 bits");
    return static_cast<std::int64_t>(*number);
}

Fields::Fields(const JsonValue& value, std::string where) : value_(value), where_(std::move(where)) {
    if (value_.get<JsonValue::Members>() == nullptr) throw bad_record(where_ + " is not an object");
}

Fields::Fields(const nlohmann::ordered_json& json, std::string where)
    : copy_(std::make_unique<const JsonValue>(value_of(json))), value_(*copy_), where_(std::move(where)) {
    if (value_.get<JsonValue::Members>() == nullptr) throw bad_record(where_ + " is not an object");
}

const JsonValue* Fields::find(const char* name) {
    const JsonValue* found = value_.find(name);
    if (found != nullptr) read_.insert(name);
    return found;
}

const JsonValue& Fields::object(const char* name) {
    const JsonValue* value = find(name);
    if (value == nullptr) throw bad_record(where_ + " lacks \"" + name + "\"");
    return *value;
}

void Fields::finish() const {
    for (const JsonValue::Member& member : *value_.get<JsonValue::Members>()) {
        if (!read_.contains(member.name)) throw bad_record(where_ + " has a member that is not known");
    }
}

void Fields::read(const JsonValue& value, const char* name, bool& target) const {
    const auto* boolean = value.get<bool>();
    if (boolean == nullptr) throw bad_record(where_ + "." + name + " is not true or false");
    target = *boolean;
}

void Fields::read(const JsonValue& value, const char* name, int& target) const {
    const std::int64_t wide = integer_of(value, where_ + "." + name);
    if (wide < INT32_MIN || wide > INT32_MAX) throw bad_record(where_ + "." + name + " is out of range");
    target = static_cast<int>(wide);
}

void Fields::read(const JsonValue& value, const char* name, std::uint64_t& target) const {
    const auto* number = value.get<std::uint64_t>();
    if (number == nullptr) throw bad_record(where_ + "." + name + " is not an integer from 0");
    target = *number;
}

void Fields::read(const JsonValue& value, const char* name, double& target) const {
    const auto number = number_of(value);
    if (!number || !std::isfinite(*number)) throw bad_record(where_ + "." + name + " is not a finite number");
    target = *number;
}

void Fields::read(const JsonValue& value, const char* name, std::string& target) const {
    const auto* text = value.get<std::string>();
    if (text == nullptr) throw bad_record(where_ + "." + name + " is not a string");
    target = *text;
}

}  // namespace autotune::db
