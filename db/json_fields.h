#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

#include "src/core/error.h"

namespace autotune::db {

inline constexpr std::size_t kMaxLineBytes = 1 << 20;
inline constexpr int kMaxLineDepth = 8;

// Error{database}: "a record is not valid: WHY".
class BadRecord : public Error {
  public:
    explicit BadRecord(const std::string& why) : Error(ErrorCode::database, "a record is not valid: " + why) {}
};
inline BadRecord bad_record(const std::string& why) {
    return BadRecord(why);
}

// One JSON value of limited length and depth, with no name twice in an object. Throws bad_record().
nlohmann::ordered_json parse_line(std::string_view line);

// Throws bad_record() unless the value is an integer (1.0 is not) that fits.
std::int64_t integer_of(const nlohmann::ordered_json& value, const std::string& where);

// Reads the members of an object by name and type; finish() refuses names that nobody read.
class Fields {
  public:
    // Throws bad_record() unless `value` is an object. Keeps a reference to it.
    Fields(const nlohmann::ordered_json& value, std::string where);

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
    const nlohmann::ordered_json* find(const char* name);
    // Throws bad_record() if it is missing; whether it is an object is for who reads it.
    const nlohmann::ordered_json& object(const char* name);
    void finish() const;

  private:
    void read(const nlohmann::ordered_json& value, const char* name, bool& target) const;
    void read(const nlohmann::ordered_json& value, const char* name, int& target) const;
    void read(const nlohmann::ordered_json& value, const char* name, std::uint64_t& target) const;
    void read(const nlohmann::ordered_json& value, const char* name, double& target) const;
    void read(const nlohmann::ordered_json& value, const char* name, std::string& target) const;
    template <class T>
    void read(const nlohmann::ordered_json& value, const char* name, std::optional<T>& target) const {
        read(value, name, target.emplace());
    }

    const nlohmann::ordered_json& value_;
    std::string where_;
    std::set<std::string_view> read_;
};

}  // namespace autotune::db
