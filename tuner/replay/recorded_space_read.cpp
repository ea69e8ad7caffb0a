#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "src/core/error.h"
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

struct GzClose {
    void operator()(gzFile_s* file) const { gzclose(file); }
};

// zlib hands a plain file through unchanged.
std::string inflate_file(const std::string& path, const RecordedLimits& limits) {
    std::error_code failed;
    if (!std::filesystem::is_regular_file(path, failed)) refuse(path, failed ? failed.message() : "it is not a regular file");
    const auto stored_bytes = std::filesystem::file_size(path, failed);
    if (failed) refuse(path, failed.message());
    if (stored_bytes > limits.file_bytes) refuse(path, "it is larger than " + std::to_string(limits.file_bytes) + " bytes");
    const std::unique_ptr<gzFile_s, GzClose> file(gzopen(path.c_str(), "rb"));
    if (!file) refuse(path, "it cannot be opened");
    std::string text;
    while (true) {
        const std::size_t before = text.size();
        text.resize(before + kChunkBytes);
        const int got = gzread(file.get(), text.data() + before, kChunkBytes);
        text.resize(before + static_cast<std::size_t>(std::max(got, 0)));
        int code = Z_OK;
        const char* message = gzerror(file.get(), &code);
        if (got < 0 || code == Z_BUF_ERROR) refuse(path, std::string("the compressed data is damaged (") + message + ")");
        if (got == 0) return text;
        if (text.size() > limits.text_bytes)
            refuse(path, "its text is larger than " + std::to_string(limits.text_bytes) + " bytes");
    }
}

// The single samples, under this name in both foreign formats, are nine tenths of a file; nobody here reads them.
const json kSkippedKey = "times";

json parse_json(std::string_view text, const std::string& name) {
    const auto filter = [&](int depth, json::parse_event_t event, json& parsed) {
        if (depth > kDeepest) refuse(name, "its JSON is nested too deeply");
        return event != json::parse_event_t::key || parsed != kSkippedKey;
    };
    return json::parse(text, filter);
}

// Kernel Tuner writes its cache as it goes and closes the braces at the end: a file of a run that was stopped lacks them.
json parse_finished(std::string_view text, const std::string& name) {
    try {
        return parse_json(text, name);
    } catch (const json::exception& problem) {
        const std::size_t last = text.find_last_not_of(" \t\r\n");
        if (last == std::string_view::npos) refuse(name, "it is empty");
        std::string closed(text.substr(0, last + 1));
        if (closed.back() != ',' && closed.back() != '}') refuse(name, problem.what());
        if (closed.back() == ',') closed.pop_back();
        closed += "}}";
        try {
            return parse_json(closed, name);
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
    if (text.size() > limits.text_bytes) refuse(name, "its text is larger than " + std::to_string(limits.text_bytes) + " bytes");
    const json parsed = parse_finished(text, name);
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
    return parse_recorded_space(inflate_file(path, limits), path, limits);
}

}  // namespace autotune::tuner
