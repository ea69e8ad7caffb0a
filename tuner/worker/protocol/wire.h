#pragma once

#include "src/core/family/family_definition.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/core/statistics/trial.h"
#include "src/jit/render.h"
#include "tuner/measure/racing.h"
#include "tuner/worker/protocol/protocol.h"

// Plain values as JSON, for messages between our own processes and for the journal. Readers throw Json::exception,
// records::BadRecord or Error{internal} for anything that the writer cannot have made; the caller then treats the peer, or the
// line, as broken.
namespace autotune::tuner::wire {

Json write(const Candidate& candidate);
Json write(const CompileReport& report);
Json write(const Trial& trial);
Json write(const Problem& problem);
Json write(const Device& device);
Json write(const jit::Rendered& rendered);
Json write(const Measurement& measurement);
Json write(const Step& step);
Json write(const FamilyDefinition& definition);

Candidate read_candidate(const Json& json);
CompileReport read_report(const Json& json);
Trial read_trial(const Json& json);
Problem read_problem(const Json& json);
Device read_device(const Json& json);
jit::Rendered read_rendered(const Json& json);
Measurement read_measurement(const Json& json);
Step read_step(const Json& json);
FamilyDefinition read_definition(const Json& json);

}  // namespace autotune::tuner::wire
