#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/records/record_fields.h"

namespace autotune::records {

// Writes a record as src/records/record_fields.h describes it.
class RecordWriter {
  public:
    using Json = nlohmann::ordered_json;

    explicit RecordWriter(Forms form) : form_(form) {}

    template <class T>
    void member(const char* name, const T& value, Forms forms = kInAll) {
        if (is_ours(forms)) put(name, value);
    }
    template <class T>
    void needed(const char* name, const T& value, Forms forms = kInAll) {
        member(name, value, forms);
    }
    void known(const char* name, int count) { put(name, count < 0 && is_report() ? Json(nullptr) : Json(count)); }
    void text_if_any(const char* name, const std::string& text) {
        if (!text.empty()) put(name, text);
    }

    void candidate(const Candidate& candidate) {
        put("family", candidate.family);
        put("config", candidate.config);
    }
    void candidate(const std::optional<Candidate>& candidate) {
        if (candidate) this->candidate(*candidate);
    }

    template <class Record>
    void object(const char* name, const Record& record, Forms forms = kInAll) {
        if (is_ours(forms)) put(name, of(record));
    }
    template <class Record>
    void needed_object(const char* name, const Record& record) {
        object(name, record);
    }
    template <class Record>
    void object_if_any(const char* name, const Record& record, Forms forms = kInAll) {
        if (!is_ours(forms)) return;
        if (Json json = of(record); !json.empty()) put(name, std::move(json));
    }
    template <class Record>
    void inlined(const char* name, const Record& record) {
        if (is_report()) {
            visit_fields(record, *this);
        } else {
            object(name, record);
        }
    }
    template <class Record>
    void list(const char* name, const std::vector<Record>& records) {
        Json array = Json::array();
        for (const Record& record : records) array.push_back(of(record));
        put(name, std::move(array));
    }

    Json take() { return std::move(json_); }

  private:
    bool is_ours(Forms forms) const { return (forms & form_) != 0; }
    bool is_report() const { return form_ == kInReports; }
    template <class Record>
    Json of(const Record& record) const {
        RecordWriter inner(form_);
        visit_fields(record, inner);
        return inner.take();
    }

    template <class T>
    void put(const char* name, const T& value) {
        json_[name] = value;
    }
    template <class T>
    void put(const char* name, const std::optional<T>& value) {
        if (value) {
            put(name, *value);
        } else if (is_report()) {
            json_[name] = nullptr;
        }
    }
    template <class T>
    void put(const char* name, const std::vector<std::pair<std::string, T>>& numbers) {
        Json& object = json_[name] = Json::object();
        for (const auto& [each, number] : numbers) object[each] = number;
    }
    void put(const char* name, const std::vector<Extent>& extents) {
        Json& object = json_[name] = Json::object();
        for (const Extent& extent : extents) object[extent.name] = extent.value;
    }
    void put(const char* name, const Config& config) { put(name, config.values()); }

    Json json_ = Json::object();
    Forms form_;
};

template <class Record>
nlohmann::ordered_json json_of(const Record& record, Forms form) {
    RecordWriter fields(form);
    visit_fields(record, fields);
    return fields.take();
}

// A config has the same form in lines, messages and reports.
inline nlohmann::ordered_json json_of(const Config& config) {
    auto object = nlohmann::ordered_json::object();
    for (const auto& [name, value] : config.values()) object[name] = value;
    return object;
}

}  // namespace autotune::records
