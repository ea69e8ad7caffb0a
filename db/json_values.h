#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "db/json_fields.h"
#include "src/core/trial.h"

// Plain values as JSON: one form in winners' lines, in messages between our processes and in the journal. What is not known is
// left out. Readers throw bad_record(); those that are given Fields leave it to the caller to finish() them, for it may have
// members of its own beside these.
namespace autotune::db {

using NamedIntegers = std::vector<std::pair<std::string, std::int64_t>>;

// An object; its members keep the order of the list.
nlohmann::ordered_json json_of(const NamedIntegers& pairs);
nlohmann::ordered_json json_of(const Config& config);
nlohmann::ordered_json json_of(const Timing& timing);
// Without `from_cache`, which is a fact of a run and not of an instance.
nlohmann::ordered_json json_of(const CompileReport& report);
nlohmann::ordered_json json_of(const Conditions& conditions);

NamedIntegers read_named_integers(const JsonValue& value, const std::string& where);
Config read_config(const JsonValue& value, const std::string& where);
Config read_config(const nlohmann::ordered_json& json, const std::string& where);
void read(Fields& fields, Timing& timing);
void read(Fields& fields, CompileReport& report);
void read(Fields& fields, Conditions& conditions);

// One of the three above that is alone in its object.
template <class T, class Value>
T read_whole(const Value& value, const std::string& where) {
    Fields fields(value, where);
    T whole;
    read(fields, whole);
    fields.finish();
    return whole;
}

}  // namespace autotune::db
