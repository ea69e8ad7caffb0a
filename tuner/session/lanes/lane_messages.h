#pragma once

#include <string>

#include "tuner/session/lanes/lanes.h"
#include "tuner/session/tune.h"
#include "tuner/worker/protocol/protocol.h"

// Messages between the parent and a lane, in the frames of protocol.h.
//
// - From the parent: begin (settings of the lane), tune (an item), end (no more items), stop (Ctrl-C), compiled, nvrtc, quiet
// (granted)
// - From the lane: ready, take (requests an item), ahead (requests the next one, to prepare it), item (its outcome), compile,
// cancel, nvrtc, quiet, loud (the quiet is over), progress, warning, fatal
//
// Readers throw Json::exception, records::BadRecord or Error for anything that a writer did not make.
namespace autotune::tuner {

// The first message to a lane.
struct LaneBegin {
    TuneOptions each;
    Device device;
    std::string uuid;
    db::Provenance provenance;
    std::string note;
    WorkerSettings workers;
    db::OpenOptions store;
    std::vector<FamilyDefinition> families;  // families in addition to the embedded ones
    bool proves_first = true;
    bool needs_quiet = false;  // final races run alone: not while compilers or other races run
    std::size_t compilers = 1;
};
Json write(const LaneBegin& begin);
LaneBegin read_begin(const Json& json);

// Writes an item without the problem, which the reader knows.
Json write_result(const SweepItem& item);
SweepItem read_result(const Json& json, const Problem& problem);

}  // namespace autotune::tuner
