#include <zlib.h>

#include <algorithm>
#include <utility>

#include "src/core/error.h"
#include "src/core/system/read_file.h"
#include "tuner/replay/recorded_space.h"
#include "tuner/replay/recorded_space_table.h"

namespace autotune::tuner {
namespace {

using nlohmann::json;

constexpr int kDeepest = 12;  // the formats need 5
constexpr std::size_t kChunkBytes = 1u << 18;

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
    throw Error(ErrorCode::usage, "cannot read the recorded space '" + name + "': " + why);
}

// Owns a zlib stream.
class Inflater {
  public:
    Inflater() {
        constexpr int kGzipAlone = 15 + 16;
        check(inflateInit2(&stream_, kGzipAlone) == Z_OK, "zlib cannot be started");
    }
    ~Inflater() { inflateEnd(&stream_); }
    Inflater(const Inflater&) = delete;
    Inflater& operator=(const Inflater&) = delete;
    z_stream* operator->() { return &stream_; }
    z_stream* get() { return &stream_; }

  private:
    z_stream stream_{};
};

bool is_gzip(std::string_view bytes) {
    return bytes.starts_with("\x1F\x8B");
}

// The text of a gzip file, which may have several members. The output is limited, because kilobytes may expand to gigabytes.
std::string inflated(std::string_view bytes, const std::string& path, const RecordedLimits& limits) {
    const auto damaged = [&](const char* why) { refuse(path, std::string("the compressed data is damaged (") + why + ")"); };
    std::string text;
    while (is_gzip(bytes)) {
        Inflater inflater;
        inflater->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
        inflater->avail_in = static_cast<uInt>(bytes.size());  // fits, because a file is far below 4 GiB
        for (int code = Z_OK; code != Z_STREAM_END;) {
            const std::size_t before = text.size();
            text.resize(before + kChunkBytes);
            inflater->next_out = reinterpret_cast<Bytef*>(text.data() + before);
            inflater->avail_out = kChunkBytes;
            code = inflate(inflater.get(), Z_NO_FLUSH);
            text.resize(before + kChunkBytes - inflater->avail_out);
            if (text.size() > limits.text_bytes) refuse(path, "its text is larger than " + bytes_text(limits.text_bytes));
            if (code == Z_BUF_ERROR || (code == Z_OK && inflater->avail_in == 0 && inflater->avail_out > 0))
                damaged("unexpected end of file");
            if (code != Z_OK && code != Z_STREAM_END) damaged(inflater->msg == nullptr ? "no gzip data" : inflater->msg);
        }
        bytes.remove_prefix(bytes.size() - inflater->avail_in);
    }
    return text;
}

std::string text_of_file(const std::string& path, const RecordedLimits& limits) {
    FileContent content = read_regular_file(path, limits.file_bytes);
    if (!content.is_read) refuse(path, content.why);
    return is_gzip(content.text) ? inflated(content.text, path, limits) : std::move(content.text);
}

// Both foreign formats have the individual samples under this name. They are nine tenths of a file, and this reader does not need
// them.
const json kSkippedKey = "times";

// The approximate memory of one more element in nlohmann's tree: a map node, the characters of a string and an allocation. An
// array that grows exists twice for a moment.
std::size_t bytes_of(json::parse_event_t event, const json& parsed) {
    constexpr std::size_t kAllocation = 32, kMapNode = 96, kElement = 3 * sizeof(json);
    switch (event) {
        case json::parse_event_t::key:
            return kMapNode + parsed.get_ref<const std::string&>().size();
        case json::parse_event_t::value:
            return kElement + (parsed.is_string() ? kAllocation + parsed.get_ref<const std::string&>().size() : 0);
        case json::parse_event_t::object_start:
        case json::parse_event_t::array_start:
            return kElement + 2 * kAllocation;
        case json::parse_event_t::object_end:
        case json::parse_event_t::array_end:
            break;
    }
    return 0;
}

json parse_json(std::string_view text, const std::string& name, const RecordedLimits& limits) {
    std::size_t bytes = 0;
    int skipped_depth = -1;  // the depth of a key whose value is skipped
    const auto filter = [&](int depth, json::parse_event_t event, json& parsed) {
        if (depth > kDeepest) refuse(name, "its JSON is nested too deeply");
        const bool is_next = depth < skipped_depth || (depth == skipped_depth && event == json::parse_event_t::key);
        if (is_next) skipped_depth = -1;
        if (event == json::parse_event_t::key && parsed == kSkippedKey) skipped_depth = depth;
        if (skipped_depth >= 0) return false;
        bytes += bytes_of(event, parsed);
        if (bytes > limits.parsed_bytes)
            refuse(name, "it would take more than " + bytes_text(limits.parsed_bytes) + " of memory");
        return true;
    };
    return json::parse(text, filter);
}

// Kernel Tuner writes its cache as it goes and closes the braces at the end, so the file of an interrupted run lacks them.
json parse_finished(std::string_view text, const std::string& name, const RecordedLimits& limits) {
    try {
        return parse_json(text, name, limits);
    } catch (const json::exception& problem) {
        const std::size_t last = text.find_last_not_of(" \t\r\n");
        if (last == std::string_view::npos) refuse(name, "it is empty");
        std::string closed(text.substr(0, last + 1));
        if (closed.back() != ',' && closed.back() != '}') refuse(name, problem.what());
        if (closed.back() == ',') closed.pop_back();
        closed += "}}";
        try {
            return parse_json(closed, name, limits);
        } catch (const json::exception&) {
            refuse(name, problem.what());
        }
    }
}

RawTable table_of(const json& parsed, const RecordedLimits& limits) {
    if (parsed.is_object() && parsed.contains("cache")) return table_of_kernel_tuner(parsed, limits);
    if (parsed.is_object() && parsed.contains("results")) return table_of_t4(parsed, limits);
    if (parsed.is_object() && parsed.contains("format")) return table_of_export(parsed, limits);
    throw Error(ErrorCode::usage,
                "it is neither a Kernel Tuner cache (\"cache\"), nor T4 results (\"results\"), nor our own export (\"format\")");
}

}  // namespace

RecordedSpace parse_recorded_space(std::string_view text, const std::string& name, const RecordedLimits& limits) {
    if (text.size() > limits.text_bytes) refuse(name, "its text is larger than " + bytes_text(limits.text_bytes));
    const json parsed = parse_finished(text, name, limits);
    try {
        RecordedSpace space = space_of(table_of(parsed, limits));
        if (space.name.empty()) space.name = name;
        return space;
    } catch (const json::exception& problem) {
        refuse(name, problem.what());
    } catch (const Error& problem) {
        refuse(name, problem.what());
    }
}

RecordedSpace read_recorded_space(const std::string& path, const RecordedLimits& limits) {
    return parse_recorded_space(text_of_file(path, limits), path, limits);
}

}  // namespace autotune::tuner
