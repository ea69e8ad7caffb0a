#pragma once

#include <concepts>
#include <type_traits>

#include "src/core/problem/device.h"
#include "src/core/statistics/trial.h"
#include "src/records/winner.h"

// The members of each record in its JSON form: one description for every reader and writer. A member that is added here is in
// winners' lines, in messages between our processes and in the output of commands.
//
// visit_fields(record, visitor) names the members in the order of the text. A writing visitor gets a const record, a reading one
// a record to fill. Visitors have:
//
// - member(name, value, forms): a number, a text, a flag, a config, counts or extents by name. An empty optional is left out of
// lines and messages, and null in reports
// - needed(name, value, forms): the same; a reader refuses a record without it
// - known(name, count): a number for which -1 means unknown; null in reports
// - text_if_any(name, text): left out if it is empty
// - candidate(candidate): members "family" and "config"; an optional one may be missing
// - object(name, record, forms): an object of its own
// - needed_object(name, record): the same; a reader refuses a record without it
// - object_if_any(name, record, forms): the same, left out if it has no members
// - inlined(name, record): a needed object; in reports its members are those of the enclosing object
// - list(name, records): an array of objects
namespace autotune {

// The forms in which a record is written, as bits: winners' lines (export, import, shipped files), messages between our
// processes, and the --json output of commands.
using Forms = unsigned;
inline constexpr Forms kInLines = 1, kInMessages = 2, kInReports = 4;
inline constexpr Forms kInAll = kInLines | kInMessages | kInReports;

template <class Self, class Record>
concept Visited = std::same_as<std::remove_const_t<Self>, Record>;

template <Visited<Timing> Self, class Visitor>
void visit_fields(Self& timing, Visitor& fields) {
    fields.needed("median_us", timing.median_us);
    fields.member("low_us", timing.low_us);
    fields.member("high_us", timing.high_us);
    fields.member("min_us", timing.min_us);
    fields.member("samples", timing.samples);
}

template <Visited<CompileReport> Self, class Visitor>
void visit_fields(Self& report, Visitor& fields) {
    fields.known("registers", report.registers);
    fields.member("spill_bytes", report.spill_bytes);
    fields.member("static_smem_bytes", report.static_smem_bytes);
    fields.member("wgmma_serialised", report.wgmma_serialised);
    fields.member("setmaxnreg_ignored", report.setmaxnreg_ignored, kInLines | kInMessages);
    fields.member("compile_ms", report.compile_ms);
    fields.member("cubin_bytes", report.cubin_bytes);
    fields.needed("from_cache", report.from_cache, kInMessages | kInReports);  // a fact about a run, not about an instance
}

template <Visited<Conditions> Self, class Visitor>
void visit_fields(Self& conditions, Visitor& fields) {
    fields.member("sm_clock_mhz", conditions.sm_clock_mhz);
    fields.member("power_w", conditions.power_w);
    fields.member("temperature_c", conditions.temperature_c);
    fields.member("throttle_reasons", conditions.throttle_reasons);
}

// Reports give key, architecture and name separately.
template <Visited<DeviceIdentity> Self, class Visitor>
void visit_fields(Self& device, Visitor& fields) {
    fields.needed("cc_major", device.cc_major, kInLines);
    fields.needed("cc_minor", device.cc_minor, kInLines);
    fields.needed("sm_count", device.sm_count);
    fields.needed("l2_mib", device.l2_mib);
    fields.needed("memory_gib", device.memory_gib);
    fields.needed("bus_bits", device.bus_bits);
    fields.member("name", device.name, kInLines);
}

template <Visited<Provenance> Self, class Visitor>
void visit_fields(Self& provenance, Visitor& fields) {
    fields.member("driver", provenance.driver);
    fields.member("nvrtc", provenance.nvrtc);
    fields.member("device_name", provenance.device_name, kInReports);  // lines of winners have it as part of the device
    fields.member("power_limit_w", provenance.power_limit_w);
    fields.member("method", provenance.method);
    fields.member("tool_version", provenance.tool_version);
    fields.member("date", provenance.date);
}

template <Visited<Finalist> Self, class Visitor>
void visit_fields(Self& finalist, Visitor& fields) {
    fields.needed("name", finalist.name);
    fields.candidate(finalist.candidate);
    fields.inlined("timing", finalist.timing);
    fields.member("ratio", finalist.ratio);
    fields.member("ratio_low", finalist.ratio_low);
    fields.member("ratio_high", finalist.ratio_high);
    fields.member("tie", finalist.tie);
    fields.member("after_itself_us", finalist.after_itself_us);
    fields.member("after_trigger_us", finalist.after_trigger_us);
    fields.object_if_any("conditions", finalist.conditions, kInLines);
    fields.member("sm_clock_mhz", finalist.conditions.sm_clock_mhz, kInReports);
    fields.member("power_w", finalist.conditions.power_w, kInReports);
}

template <Visited<Evidence> Self, class Visitor>
void visit_fields(Self& evidence, Visitor& fields) {
    fields.member("rounds", evidence.rounds);
    fields.member("decided_by", evidence.decided_by);
    fields.member("max_error", evidence.max_error);
    fields.member("accumulation_error", evidence.accumulation_error);
    fields.member("space_legal", evidence.space_legal);
    fields.member("tried", evidence.tried);
    fields.member("failed", evidence.failed);
    fields.member("failures", evidence.failures, kInReports);
    fields.member("seconds", evidence.seconds);
    fields.member("compile_seconds", evidence.compile_seconds);
    fields.member("verify_seconds", evidence.verify_seconds);
    fields.member("measure_seconds", evidence.measure_seconds);
    fields.member("stopped_by", evidence.stopped_by);
    fields.member("expected_gain", evidence.expected_gain);
    fields.member("seed", evidence.seed);
    fields.object("conditions", evidence.conditions);
    fields.list("finalists", evidence.finalists);
    fields.member("failures", evidence.failures, kInLines);
}

}  // namespace autotune
