#pragma once

#include <string>

#include "tuner/session/lanes/lanes.h"
#include "tuner/session/tune.h"
#include "tuner/worker/protocol/protocol.h"

// Messages between the parent and a lane, beside the frames of protocol.h.
//
//   parent: begin (what a lane needs to know), tune (an item), end (nothing more), stop (Ctrl-C), compiled, nvrtc, quiet
//   (granted) lane:   ready, take (an item now), ahead (the next one, to prepare), item (what became of it), compile, cancel,
//   nvrtc, quiet,
//           loud (the quiet is over), progress, warning, fatal
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
    std::vector<FamilyDefinition> families;  // beside the embedded ones
    bool proves_first = true;
    bool needs_quiet = false;  // final races take turns with the compilers and with each other
    std::size_t compilers = 1;
};
Json write(const LaneBegin& begin);
LaneBegin read_begin(const Json& json);

// Without the problem, which the reader has.
Json write_result(const SweepItem& item);
SweepItem read_result(const Json& json, const Problem& problem);

}  // namespace autotune::tuner
