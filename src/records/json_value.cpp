#include "src/records/json_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/records/bad_record.h"

namespace autotune::records {
namespace {

using Json = nlohmann::ordered_json;

// Refuses two members with one name, because one of them would silently be ignored.
void require_distinct_names(const JsonValue::Members& members) {
    std::vector<std::string_view> names;
    names.reserve(members.size());
    for (const JsonValue::Member& member : members) names.push_back(member.name);
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) != names.end()) throw bad_record("a name is there twice");
}

// Makes a JsonValue from the events of nlohmann's SAX reader, whose interface fixes names and signatures.
class Builder {
  public:
    using number_integer_t = Json::number_integer_t;
    using number_unsigned_t = Json::number_unsigned_t;
    using number_float_t = Json::number_float_t;
    using string_t = Json::string_t;
    using binary_t = Json::binary_t;

    bool null() { return add(JsonValue()); }
    bool boolean(bool value) { return add(JsonValue(value)); }
    bool number_integer(number_integer_t value) { return add(JsonValue(value)); }
    bool number_unsigned(number_unsigned_t value) { return add(JsonValue(value)); }
    bool number_float(number_float_t value, const string_t&) { return add(JsonValue(value)); }
    bool string(string_t& value) { return add(JsonValue(std::move(value))); }
    bool binary(binary_t&) { return false; }

    bool start_object(std::size_t) { return open(JsonValue(JsonValue::Members())); }
    bool key(string_t& name) {
        open_.back()->get<JsonValue::Members>()->push_back({std::move(name), {}});
        return true;
    }
    bool end_object() {
        require_distinct_names(*open_.back()->get<JsonValue::Members>());
        open_.pop_back();
        return true;
    }
    bool start_array(std::size_t) { return open(JsonValue(JsonValue::Elements())); }
    bool end_array() {
        open_.pop_back();
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const Json::exception&) { return false; }

    JsonValue take() { return std::move(whole_); }

  private:
    // The place for the next value. In an object it belongs to the name that was read last, in an array it is at the end.
    JsonValue& place() {
        if (open_.empty()) return whole_;
        if (auto* members = open_.back()->get<JsonValue::Members>()) return members->back().value;
        return open_.back()->get<JsonValue::Elements>()->emplace_back();
    }
    bool add(JsonValue value) {
        place() = std::move(value);
        return true;
    }
    bool open(JsonValue empty) {
        if (open_.size() >= kMaxLineDepth) throw bad_record("it is nested too deeply");
        JsonValue& opened = place();
        opened = std::move(empty);
        open_.push_back(&opened);
        return true;
    }

    JsonValue whole_;
    // The open values, outermost first. Only the last one grows, so the pointers stay valid.
    std::vector<JsonValue*> open_;
};

JsonValue value_at(const Json& json, int depth) {
    if (depth > kMaxLineDepth) throw bad_record("it is nested too deeply");
    switch (json.type()) {
        case Json::value_t::boolean:
            return JsonValue(json.get<bool>());
        case Json::value_t::number_integer:
            return json.get<std::int64_t>() < 0 ? JsonValue(json.get<std::int64_t>()) : JsonValue(json.get<std::uint64_t>());
        case Json::value_t::number_unsigned:
            return JsonValue(json.get<std::uint64_t>());
        case Json::value_t::number_float:
            return JsonValue(json.get<double>());
        case Json::value_t::string:
            return JsonValue(json.get<std::string>());
        case Json::value_t::array: {
            JsonValue::Elements elements;
            for (const Json& element : json) elements.push_back(value_at(element, depth + 1));
            return JsonValue(std::move(elements));
        }
        case Json::value_t::object: {
            JsonValue::Members members;
            for (const auto& [name, value] : json.items()) members.push_back({name, value_at(value, depth + 1)});
            return JsonValue(std::move(members));
        }
        case Json::value_t::null:
        case Json::value_t::binary:
        case Json::value_t::discarded:
            break;
    }
    return {};
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
    const auto* members = get<Members>();
    if (members == nullptr) return nullptr;
    const auto found = std::find_if(members->begin(), members->end(), [name](const Member& each) { return each.name == name; });
    return found == members->end() ? nullptr : &found->value;
}

JsonValue parse_line(std::string_view line) {
    if (line.size() > kMaxLineBytes) throw bad_record("it is longer than 1 MiB");
    Builder builder;
    if (!Json::sax_parse(line.begin(), line.end(), &builder)) throw bad_record("it is not JSON");
    return builder.take();
}

JsonValue value_of(const Json& json) {
    return value_at(json, 0);
}

}  // namespace autotune::records
