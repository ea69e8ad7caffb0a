#include "src/records/record_reader.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "src/records/validate.h"

namespace autotune::records {
namespace {

// 1.0 is no integer.
std::int64_t integer_of(const JsonValue& value, const std::string& path) {
    if (const auto* negative = value.get<std::int64_t>()) return *negative;
    const auto* number = value.get<std::uint64_t>();
    if (number == nullptr || *number > std::uint64_t{INT64_MAX}) throw bad_record(path + " is not an integer of 64 bits");
    return static_cast<std::int64_t>(*number);
}

std::optional<double> number_of(const JsonValue& value) {
    if (const auto* real = value.get<double>()) return *real;
    if (const auto* natural = value.get<std::uint64_t>()) return static_cast<double>(*natural);
    if (const auto* negative = value.get<std::int64_t>()) return static_cast<double>(*negative);
    return std::nullopt;
}

const JsonValue::Members& members_of(const JsonValue& value, const std::string& path) {
    const auto* members = value.get<JsonValue::Members>();
    if (members == nullptr) throw bad_record(path + " is not an object");
    return *members;
}

// Integers by name, in the order of the text.
template <class Use>
void for_each_integer(const JsonValue& value, const std::string& path, const Use& use) {
    const JsonValue::Members& members = members_of(value, path);
    if (members.size() > kMaxParameters) throw bad_record(path + " has more than 64 members");
    for (const auto& [name, number] : members) {
        if (!is_parameter_name(name)) throw bad_record("a name in " + path + " is not one of [A-Za-z0-9_]");
        use(name, integer_of(number, path + "." + name));
    }
}

}  // namespace

RecordReader::RecordReader(const JsonValue& value, std::string path, Forms form)
    : value_(value), path_(std::move(path)), form_(form) {
    (void)members_of(value_, whole());
}

const JsonValue* RecordReader::find(const char* name) {
    const JsonValue* found = value_.find(name);
    if (found != nullptr) read_.insert(name);
    return found;
}

const JsonValue& RecordReader::need(const char* name) {
    const JsonValue* value = find(name);
    if (value == nullptr) throw bad_record(whole() + " lacks \"" + name + "\"");
    return *value;
}

void RecordReader::candidate(Candidate& candidate) {
    needed("family", candidate.family);
    needed("config", candidate.config);
}

void RecordReader::candidate(std::optional<Candidate>& candidate) {
    if (value_.find("config") != nullptr) this->candidate(candidate.emplace());
}

void RecordReader::finish() const {
    for (const JsonValue::Member& member : members_of(value_, whole())) {
        if (!read_.contains(member.name)) throw bad_record(whole() + " has a member that is not known");
    }
}

const JsonValue::Elements& RecordReader::elements_of(const JsonValue& value, const std::string& path) {
    const auto* elements = value.get<JsonValue::Elements>();
    if (elements == nullptr) throw bad_record(path + " is not an array");
    return *elements;
}

void RecordReader::read(const JsonValue& value, const std::string& path, bool& target) {
    const auto* boolean = value.get<bool>();
    if (boolean == nullptr) throw bad_record(path + " is not true or false");
    target = *boolean;
}

void RecordReader::read(const JsonValue& value, const std::string& path, int& target) {
    const std::int64_t wide = integer_of(value, path);
    if (wide < INT32_MIN || wide > INT32_MAX) throw bad_record(path + " is out of range");
    target = static_cast<int>(wide);
}

void RecordReader::read(const JsonValue& value, const std::string& path, std::uint64_t& target) {
    const auto* number = value.get<std::uint64_t>();
    if (number == nullptr) throw bad_record(path + " is not an integer from 0");
    target = *number;
}

void RecordReader::read(const JsonValue& value, const std::string& path, double& target) {
    const auto number = number_of(value);
    if (!number || !std::isfinite(*number)) throw bad_record(path + " is not a finite number");
    target = *number;
}

void RecordReader::read(const JsonValue& value, const std::string& path, std::string& target) {
    const auto* text = value.get<std::string>();
    if (text == nullptr) throw bad_record(path + " is not a string");
    target = *text;
}

void RecordReader::read(const JsonValue& value, const std::string& path, Config& target) {
    for_each_integer(value, path, [&](const std::string& name, std::int64_t number) { target.set(name, number); });
}

void RecordReader::read(const JsonValue& value, const std::string& path, std::vector<Extent>& target) {
    for_each_integer(value, path, [&](const std::string& name, std::int64_t number) { target.push_back({name, number}); });
}

void RecordReader::read(const JsonValue& value, const std::string& path, std::vector<std::pair<std::string, int>>& target) {
    for_each_integer(value, path, [&](const std::string& name, std::int64_t number) {
        if (number < 0 || number > INT32_MAX) throw bad_record(path + "." + name + " is out of range");
        target.emplace_back(name, static_cast<int>(number));
    });
}

Config read_config(const nlohmann::ordered_json& json, const std::string& path) {
    const JsonValue value = value_of(json);
    Config config;
    for_each_integer(value, path, [&](const std::string& name, std::int64_t number) { config.set(name, number); });
    return config;
}

}  // namespace autotune::records
