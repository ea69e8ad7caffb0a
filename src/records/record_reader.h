#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/records/bad_record.h"
#include "src/records/json_value.h"
#include "src/records/record_fields.h"

namespace autotune::records {

// Reads the members of an object into a record, as src/records/record_fields.h describes it. Types and 64-bit ranges are checked,
// and finish() refuses members that nobody read. Throws BadRecord with the member's path.
class RecordReader {
  public:
    // `path` names the object in messages; empty: it is the whole line. Keeps a reference to `value`, which must be an object.
    RecordReader(const JsonValue& value, std::string path, Forms form);

    template <class T>
    void member(const char* name, T& target, Forms forms = kInAll) {
        const JsonValue* value = is_ours(forms) ? find(name) : nullptr;
        if (value != nullptr) read(*value, path_of(name), target);
    }
    template <class T>
    void needed(const char* name, T& target, Forms forms = kInAll) {
        if (is_ours(forms)) read(need(name), path_of(name), target);
    }
    void known(const char* name, int& count) { member(name, count); }
    void text_if_any(const char* name, std::string& text) { member(name, text); }

    void candidate(Candidate& candidate);
    void candidate(std::optional<Candidate>& candidate);

    template <class Record>
    void object(const char* name, Record& record, Forms forms = kInAll) {
        const JsonValue* value = is_ours(forms) ? find(name) : nullptr;
        if (value != nullptr) read_record(*value, path_of(name), record);
    }
    template <class Record>
    void object_if_any(const char* name, Record& record, Forms forms = kInAll) {
        object(name, record, forms);
    }
    template <class Record>
    void needed_object(const char* name, Record& record) {
        read_record(need(name), path_of(name), record);
    }
    template <class Record>
    void inlined(const char* name, Record& record) {
        needed_object(name, record);
    }
    template <class Record>
    void list(const char* name, std::vector<Record>& records) {
        const JsonValue* value = find(name);
        if (value == nullptr) return;
        const std::string path = path_of(name);
        for (const JsonValue& element : elements_of(*value, path)) read_record(element, path, records.emplace_back());
    }

    void finish() const;

  private:
    template <class Record>
    void read_record(const JsonValue& value, const std::string& path, Record& record) const {
        RecordReader inner(value, path, form_);
        visit_fields(record, inner);
        inner.finish();
    }

    bool is_ours(Forms forms) const { return (forms & form_) != 0; }
    std::string path_of(const char* name) const { return path_.empty() ? name : path_ + "." + name; }
    std::string whole() const { return path_.empty() ? "the line" : path_; }
    const JsonValue* find(const char* name);
    const JsonValue& need(const char* name);
    static const JsonValue::Elements& elements_of(const JsonValue& value, const std::string& path);

    static void read(const JsonValue& value, const std::string& path, bool& target);
    static void read(const JsonValue& value, const std::string& path, int& target);
    static void read(const JsonValue& value, const std::string& path, std::uint64_t& target);
    static void read(const JsonValue& value, const std::string& path, double& target);
    static void read(const JsonValue& value, const std::string& path, std::string& target);
    static void read(const JsonValue& value, const std::string& path, Config& target);
    static void read(const JsonValue& value, const std::string& path, std::vector<Extent>& target);
    static void read(const JsonValue& value, const std::string& path, std::vector<std::pair<std::string, int>>& target);
    template <class T>
    static void read(const JsonValue& value, const std::string& path, std::optional<T>& target) {
        read(value, path, target.emplace());
    }

    const JsonValue& value_;
    std::string path_;
    Forms form_;
    std::set<std::string_view> read_;
};

// Reads a record that is the whole object of a message between our processes.
template <class Record>
Record read_record(const nlohmann::ordered_json& json, const std::string& path) {
    const JsonValue value = value_of(json);
    RecordReader fields(value, path, kInMessages);
    Record record;
    visit_fields(record, fields);
    fields.finish();
    return record;
}
Config read_config(const nlohmann::ordered_json& json, const std::string& path);

}  // namespace autotune::records
