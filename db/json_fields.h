#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "db/bad_record.h"
#include "db/json_value.h"

namespace autotune::db {

// Throws bad_record() unless the value is an integer (1.0 is not) that fits.
std::int64_t integer_of(const JsonValue& value, const std::string& where);

// Reads the members of an object by name and type; finish() refuses names that nobody read.
class Fields {
  public:
    // Throws bad_record() unless `value` is an object. Keeps a reference to it.
    Fields(const JsonValue& value, std::string where);
    // Of a copy.
    Fields(const nlohmann::ordered_json& json, std::string where);

    template <class T>
    void need(const char* name, T& target) {
        const auto* value = find(name);
        if (value == nullptr) throw bad_record(where_ + " lacks \"" + name + "\"");
        read(*value, name, target);
    }
    template <class T>
    void may(const char* name, T& target) {
        if (const auto* value = find(name)) read(*value, name, target);
    }
    const JsonValue* find(const char* name);
    // Throws bad_record() if it is missing; whether it is an object is for who reads it.
    const JsonValue& object(const char* name);
    void finish() const;

  private:
    void read(const JsonValue& value, const char* name, bool& target) const;
    void read(const JsonValue& value, const char* name, int& target) const;
    void read(const JsonValue& value, const char* name, std::uint64_t& target) const;
    void read(const JsonValue& value, const char* name, double& target) const;
    void read(const JsonValue& value, const char* name, std::string& target) const;
    template <class T>
    void read(const JsonValue& value, const char* name, std::optional<T>& target) const {
        read(value, name, target.emplace());
    }

    std::unique_ptr<const JsonValue> copy_;
    const JsonValue& value_;
    std::string where_;
    std::set<std::string_view> read_;
};

}  // namespace autotune::db
