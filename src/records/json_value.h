#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace autotune::records {

inline constexpr std::size_t kMaxLineBytes = 1 << 20;
inline constexpr int kMaxLineDepth = 8;

// A parsed JSON value. nlohmann's tree cannot be used: its destructor allocates, which ends a program that has no memory left,
// and the library reads shipped winners in its caller's process. This one allocates only while it is built.
class JsonValue {
  public:
    struct Member;
    using Elements = std::vector<JsonValue>;
    using Members = std::vector<Member>;  // members in the order of the text

    JsonValue() = default;  // null
    template <class T>
    explicit JsonValue(T value) : value_(std::move(value)) {}

    bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
    // nullptr if the value is of another kind. Integers from 0 on are std::uint64_t, negative ones std::int64_t, and numbers
    // written with a point or an exponent are double.
    template <class T>
    const T* get() const {
        return std::get_if<T>(&value_);
    }
    template <class T>
    T* get() {
        return std::get_if<T>(&value_);
    }
    // The member of an object with this name; nullptr if there is none.
    const JsonValue* find(std::string_view name) const;

  private:
    std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Elements, Members> value_;
};

struct JsonValue::Member {
    std::string name;
    JsonValue value;
};

// Parses one JSON value of at most 1 MiB and 8 levels; no object may repeat a name. Throws BadRecord.
JsonValue parse_line(std::string_view line);
// The tree of a value from a message between our processes. Throws BadRecord.
JsonValue value_of(const nlohmann::ordered_json& json);

}  // namespace autotune::records
