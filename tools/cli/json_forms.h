#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "src/core/op.h"
#include "tools/cli/services.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// The JSON forms of values. Members stand in the order of the documentation; what is unknown is null or left out.
using Json = nlohmann::ordered_json;

Json problem_json(const Problem& problem);
Json device_json(const Device& device);
Json identity_json(const DeviceIdentity& identity);
Json config_json(const Config& config);
Json compile_json(const CompileReport& report);
Json conditions_json(const Conditions& conditions);
Json provenance_json(const db::Provenance& provenance);
// {"median_us", "low_us", "high_us", "min_us", "samples"}, and the op's rate where op and problem are given.
Json timing_json(const Timing& timing, const Op* op = nullptr, const Problem* problem = nullptr);
Json winner_json(const db::Winner& winner, const Op* op, const Problem* problem);
Json evidence_json(const db::Evidence& evidence);
// Seconds of each phase, by name.
Json phases_json(const tuner::TunePhases& phases);
Json compiled_row_json(const tuner::CompiledRow& row);

// One line.
void print_json(Session& session, const Json& json);

}  // namespace autotune::cli
