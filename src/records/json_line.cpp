#include "src/records/json_line.h"

#include "src/core/error.h"
#include "src/records/record_reader.h"
#include "src/records/record_writer.h"
#include "src/records/validate.h"
#include "src/records/winner.h"

namespace autotune::records {
namespace {

constexpr int kFormat = 1;

// The problem of a winner, which is an object of its own in the line.
template <class Self>
struct ProblemOf {
    Self& winner;
};

template <class Self, class Visitor>
void visit_fields(const ProblemOf<Self>& problem, Visitor& fields) {
    fields.needed("class", problem.winner.class_key);
    fields.needed("extents", problem.winner.extents);
}

// These members come first, because the shipped layer finds a line by them without parsing it.
template <class Self, class Arch, class Visitor>
void visit_line(Self& winner, Arch& arch, Visitor& fields) {
    fields.needed("op", winner.op);
    fields.needed("arch", arch);
    const ProblemOf<Self> problem{winner};
    fields.needed_object("problem", problem);
    fields.needed_object("device", winner.device);
    fields.needed("template", winner.template_identity);
    fields.candidate(winner.candidate);
    fields.inlined("timing", winner.timing);
    fields.object("compile", winner.compile);
    fields.object("provenance", winner.provenance);
    fields.object("evidence", winner.evidence);
    fields.text_if_any("doubt", winner.doubt);
    fields.text_if_any("restricted_to", winner.restricted_to);
}

void require_arch(const std::string& arch, const DeviceIdentity& device) {
    if (auto why = why_invalid(device)) throw bad_record(*why);
    const std::string expected = arch_of(device.cc_major, device.cc_minor);
    if (arch != expected) throw bad_record("\"arch\" does not match the device, which is " + expected);
}

}  // namespace

std::string to_json_line(const Winner& winner) {
    if (auto why = why_invalid(winner)) throw Error(ErrorCode::database, "a winner cannot be written as a line: " + *why);
    Winner named = winner;
    if (!named.provenance.device_name.empty()) named.device.name = named.provenance.device_name;
    const std::string arch = arch_of(named.device.cc_major, named.device.cc_minor);
    RecordWriter fields(kInLines);
    visit_line(std::as_const(named), arch, fields);
    return fields.take().dump();
}

Winner from_json_line(std::string_view line) {
    const JsonValue value = parse_line(line);
    RecordReader fields(value, "", kInLines);
    int format = kFormat;
    fields.member("format", format);
    if (format != kFormat) throw bad_record("\"format\" is not 1: a newer autotune wrote it");
    Winner winner;
    std::string arch;
    visit_line(winner, arch, fields);
    fields.finish();
    require_arch(arch, winner.device);
    winner.provenance.device_name = winner.device.name;
    if (auto why = why_invalid(winner)) throw bad_record(*why);
    return winner;
}

}  // namespace autotune::records
