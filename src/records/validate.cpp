#include "src/records/validate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

namespace autotune::records {
namespace {

constexpr double kMaxMicroseconds = 1e12;
constexpr double kMaxSeconds = 1e9;
constexpr double kMaxRatio = 1e9;
constexpr int kMaxCount = 1'000'000'000;

using Why = std::optional<std::string>;

bool is_lower(char letter) {
    return letter >= 'a' && letter <= 'z';
}
bool is_name_letter(char letter) {
    return is_lower(letter) || (letter >= '0' && letter <= '9') || letter == '_';
}

// Bytes of the UTF-8 sequence at the start of `text`; 0 if there is no valid one.
std::size_t sequence_length(std::string_view text) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t length = first >= 0xF0 && first <= 0xF4  ? 4
                               : first >= 0xE0 && first < 0xF0 ? 3
                               : first >= 0xC2 && first < 0xE0 ? 2
                                                               : 0;
    if (length == 0 || text.size() < length) return 0;
    for (std::size_t at = 1; at < length; ++at) {
        if ((byte(at) & 0xC0) != 0x80) return 0;
    }
    const unsigned second = byte(1);
    const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    const bool out_of_range = (first == 0xED && second >= 0xA0) || (first == 0xF4 && second >= 0x90);
    const bool is_c1_control = first == 0xC2 && second < 0xA0;  // terminals obey these too
    return overlong || out_of_range || is_c1_control ? 0 : length;
}

bool is_printable(std::string_view text) {
    const auto letter = static_cast<unsigned char>(text[0]);
    return letter >= 0x20 && letter != 0x7F;
}

bool in_range(double value, double low, double high) {
    return value >= low && value <= high;
}  // false for NaN

Why outside(std::string_view what, double value, std::string_view range) {
    return std::string(what) + " is " + std::to_string(value) + ", outside " + std::string(range);
}

Why flaw_of(const Timing& timing) {
    if (!in_range(timing.median_us, 1e-6, kMaxMicroseconds)) return outside("median_us", timing.median_us, "1e-6 to 1e12");
    const std::array<std::pair<const char*, double>, 3> others = {
        {{"low_us", timing.low_us}, {"high_us", timing.high_us}, {"min_us", timing.min_us}}};
    for (const auto& [name, value] : others) {
        if (!in_range(value, 0, kMaxMicroseconds)) return outside(name, value, "0 to 1e12");
    }
    if (timing.samples < 0 || timing.samples > kMaxCount) return outside("samples", timing.samples, "0 to 1e9");
    return std::nullopt;
}

Why flaw_of(const CompileReport& report) {
    if (report.registers < -1 || report.registers > 65536) return outside("registers", report.registers, "-1 to 65536");
    if (report.spill_bytes < 0) return outside("spill_bytes", report.spill_bytes, "0 and more");
    if (report.static_smem_bytes < 0) return outside("static_smem_bytes", report.static_smem_bytes, "0 and more");
    if (!in_range(report.compile_ms, 0, kMaxMicroseconds)) return outside("compile_ms", report.compile_ms, "0 to 1e12");
    if (report.cubin_bytes > static_cast<std::size_t>(kMaxExtent)) return std::string("cubin_bytes is too large");
    return std::nullopt;
}

Why flaw_of(const Provenance& provenance) {
    const std::array<std::pair<const char*, const std::string*>, 6> texts = {{{"driver", &provenance.driver},
                                                                              {"nvrtc", &provenance.nvrtc},
                                                                              {"device_name", &provenance.device_name},
                                                                              {"method", &provenance.method},
                                                                              {"tool_version", &provenance.tool_version},
                                                                              {"date", &provenance.date}}};
    for (const auto& [name, text] : texts) {
        if (!is_text(*text)) return std::string(name) + " is not a short line of text";
    }
    if (provenance.power_limit_w < 0 || provenance.power_limit_w > 100'000) {
        return outside("power_limit_w", provenance.power_limit_w, "0 to 100000");
    }
    return std::nullopt;
}

Why flaw_of(const Conditions& conditions) {
    const std::array<std::pair<const char*, std::optional<int>>, 3> readings = {{{"sm_clock_mhz", conditions.sm_clock_mhz},
                                                                                 {"power_w", conditions.power_w},
                                                                                 {"temperature_c", conditions.temperature_c}}};
    for (const auto& [name, value] : readings) {
        if (value && (*value < -300 || *value > 1'000'000)) return outside(name, *value, "-300 to 1000000");
    }
    return std::nullopt;
}

Why flaw_of(const Candidate& candidate) {
    if (!is_family_name(candidate.family)) return std::string("the family's name is not one of [a-z0-9_/]");
    return why_invalid(candidate.config);
}

Why flaw_of(const Finalist& finalist) {
    if (!is_text(finalist.name, kMaxDetail)) return std::string("a finalist's name is not a line of text");
    if (auto why = finalist.candidate ? flaw_of(*finalist.candidate) : std::nullopt) return why;
    if (auto why = flaw_of(finalist.timing)) return why;
    for (const double ratio : {finalist.ratio, finalist.ratio_low, finalist.ratio_high}) {
        if (!in_range(ratio, 0, kMaxRatio)) return outside("a finalist's ratio", ratio, "0 to 1e9");
    }
    for (const std::optional<double>& time_us : {finalist.after_itself_us, finalist.after_trigger_us}) {
        if (time_us && !in_range(*time_us, 0, kMaxMicroseconds))
            return outside("a finalist's time after another kernel", *time_us, "0 to 1e12");
    }
    return flaw_of(finalist.conditions);
}

Why flaw_of(const Evidence& evidence) {
    if (!is_text(evidence.decided_by)) return std::string("decided_by is not a short line of text");
    if (!is_text(evidence.stopped_by)) return std::string("stopped_by is not a short line of text");
    if (evidence.max_error && !in_range(*evidence.max_error, 0, 1e300))
        return outside("max_error", *evidence.max_error, "0 to 1e300");
    if (evidence.accumulation_error && !in_range(*evidence.accumulation_error, 0, 1e300))
        return outside("accumulation_error", *evidence.accumulation_error, "0 to 1e300");
    if (evidence.expected_gain && !in_range(*evidence.expected_gain, 0, 1e300))
        return outside("expected_gain", *evidence.expected_gain, "0 to 1e300");
    for (const int count : {evidence.rounds, evidence.tried, evidence.failed}) {
        if (count < 0 || count > kMaxCount) return outside("a count of the evidence", count, "0 to 1e9");
    }
    for (const double seconds : {evidence.seconds, evidence.compile_seconds, evidence.verify_seconds, evidence.measure_seconds}) {
        if (!in_range(seconds, 0, kMaxSeconds)) return outside("a time of the evidence in seconds", seconds, "0 to 1e9");
    }
    if (evidence.finalists.size() > kMaxFinalists) return std::string("there are more than 64 finalists");
    if (evidence.failures.size() > kMaxFailures) return std::string("there are more than 32 kinds of failures");
    for (const Finalist& finalist : evidence.finalists) {
        if (auto why = flaw_of(finalist)) return why;
    }
    std::set<std::string_view> seen;
    for (const auto& [status, count] : evidence.failures) {
        if (!is_name(status) || count < 0 || !seen.insert(status).second)
            return std::string("the counts of failures are not valid");
    }
    return flaw_of(evidence.conditions);
}

Why flaw_of(const std::vector<Extent>& extents) {
    if (extents.empty() || extents.size() > kMaxExtents) return std::string("a problem needs 1 to 8 extents");
    std::set<std::string_view> seen;
    for (const Extent& extent : extents) {
        if (!is_name(extent.name)) return std::string("an extent's name is not one of [a-z0-9_]");
        if (!seen.insert(extent.name).second) return "extent " + extent.name + " is there twice";
        if (extent.value < 0 || extent.value > kMaxExtent) {
            return "extent " + extent.name + " is " + std::to_string(extent.value) + ", outside 0 to 2^40";
        }
    }
    return std::nullopt;
}

}  // namespace

bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= kMaxName && is_lower(text[0]) && std::all_of(text.begin(), text.end(), is_name_letter);
}

bool is_parameter_name(std::string_view text) {
    const auto is_letter = [](char letter) { return is_name_letter(letter) || (letter >= 'A' && letter <= 'Z'); };
    return !text.empty() && text.size() <= kMaxName && !(text[0] >= '0' && text[0] <= '9') &&
           std::all_of(text.begin(), text.end(), is_letter);
}

bool is_family_name(std::string_view text) {
    if (text.size() > kMaxName) return false;
    while (true) {
        const auto slash = text.find('/');
        if (!is_name(text.substr(0, slash))) return false;
        if (slash == std::string_view::npos) return true;
        text.remove_prefix(slash + 1);
    }
}

bool is_class_key(std::string_view text) {
    const auto fits = [](char letter) {
        return letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\' && letter != '\'';
    };
    return text.size() <= kMaxClassKey && is_name(text.substr(0, text.find(' '))) && std::all_of(text.begin(), text.end(), fits);
}

bool is_text(std::string_view text, std::size_t limit) {
    if (text.size() > limit) return false;
    while (!text.empty()) {
        const std::size_t length = is_printable(text) ? sequence_length(text) : 0;
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::string cleaned(std::string_view text, std::size_t limit) {
    std::string result;
    while (!text.empty()) {
        const std::size_t length = is_printable(text) ? sequence_length(text) : 0;
        const std::string_view piece = length == 0 ? std::string_view(" ") : text.substr(0, length);
        if (result.size() + piece.size() > limit) break;
        result += piece;
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return result;
}

std::optional<std::string> why_invalid(const Config& config) {
    if (config.values().size() > kMaxParameters) return "a config of more than 64 parameters";
    std::set<std::string_view> seen;
    for (const auto& [name, value] : config.values()) {
        if (!is_parameter_name(name)) return "a parameter's name is not one of [A-Za-z0-9_]";
        if (!seen.insert(name).second) return "parameter " + name + " is there twice";
    }
    return std::nullopt;
}

std::optional<std::string> why_invalid(const DeviceIdentity& device) {
    if (device.cc_major < 8 || device.cc_major > 99) return outside("cc_major", device.cc_major, "8 to 99");
    if (device.cc_minor < 0 || device.cc_minor > 9) return outside("cc_minor", device.cc_minor, "0 to 9");
    const std::array<std::pair<const char*, int>, 4> counts = {{{"sm_count", device.sm_count},
                                                                {"l2_mib", device.l2_mib},
                                                                {"memory_gib", device.memory_gib},
                                                                {"bus_bits", device.bus_bits}}};
    for (const auto& [name, value] : counts) {
        if (value < 0 || value > 1'000'000) return outside(name, value, "0 to 1000000");
    }
    if (!is_text(device.name)) return "the device's name is not a short line of text";
    return std::nullopt;
}

std::optional<std::string> why_invalid_key(const Winner& winner) {
    if (!is_name(winner.op)) return "the op's name is not one of [a-z0-9_]";
    if (!is_class_key(winner.class_key)) return "the class of the problem is not a short line of words";
    if (winner.class_key != winner.op && !winner.class_key.starts_with(winner.op + " ")) {
        return "the class of the problem does not begin with its op " + winner.op;
    }
    if (auto why = flaw_of(winner.extents)) return why;
    return why_invalid(winner.device);
}

std::optional<std::string> why_invalid(const Winner& winner) {
    if (auto why = why_invalid_key(winner)) return why;
    if (winner.template_identity.empty() || !is_text(winner.template_identity))
        return "the template's identity is missing or too long";
    if (auto why = flaw_of(winner.candidate)) return why;
    if (winner.candidate.family.substr(0, winner.candidate.family.find('/')) != winner.op) {
        return "family " + winner.candidate.family + " is not one of op " + winner.op;
    }
    if (auto why = flaw_of(winner.timing)) return why;
    if (auto why = flaw_of(winner.compile)) return why;
    if (auto why = flaw_of(winner.provenance)) return why;
    if (!is_text(winner.doubt)) return "doubt is not a short line of text";
    if (!is_text(winner.restricted_to)) return "restricted_to is not a short line of text";
    return flaw_of(winner.evidence);
}

Winner tidied(Winner winner) {
    winner.device.name = cleaned(winner.device.name);
    Provenance& from = winner.provenance;
    for (std::string* text : {&from.driver, &from.nvrtc, &from.device_name, &from.method, &from.tool_version, &from.date}) {
        *text = cleaned(*text);
    }
    winner.doubt = cleaned(winner.doubt);
    winner.restricted_to = cleaned(winner.restricted_to);
    Evidence& evidence = winner.evidence;
    evidence.decided_by = cleaned(evidence.decided_by);
    evidence.stopped_by = cleaned(evidence.stopped_by);
    if (evidence.finalists.size() > kMaxFinalists) evidence.finalists.resize(kMaxFinalists);
    for (Finalist& finalist : evidence.finalists) finalist.name = cleaned(finalist.name, kMaxDetail);
    return winner;
}

Winner brief(const Winner& winner) {
    Winner copy{.op = winner.op,
                .class_key = winner.class_key,
                .extents = winner.extents,
                .device = winner.device,
                .template_identity = winner.template_identity,
                .candidate = winner.candidate,
                .timing = winner.timing,
                .compile = winner.compile,
                .provenance = winner.provenance,
                .shipped = winner.shipped};
    const Evidence& from = winner.evidence;
    copy.evidence.rounds = from.rounds;
    copy.evidence.decided_by = from.decided_by;
    copy.evidence.max_error = from.max_error;
    copy.evidence.conditions = from.conditions;
    return copy;
}

}  // namespace autotune::records
