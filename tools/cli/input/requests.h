#pragma once

#include <string>
#include <vector>

#include "src/core/problem/problem.h"
#include "src/dispatch/rules/refusals.h"
#include "src/records/measuring_method.h"
#include "tools/cli/session.h"
#include "tuner/session/tune.h"

namespace autotune::cli {

// The op with this name or alias. Throws Error{usage} that lists the ops if the name is unknown or missing.
const Op& op_named(Session& session, const std::string& name);

// The problems that --op, every --shape and the op's options describe, in order. Throws Error{usage} for a missing or wrong one.
std::vector<Problem> problems_of(Session& session);
// The problems for an op that is not named by --op but by another word of the command line.
std::vector<Problem> problems_of_op(Session& session, const std::string& op);
// The problems in which a first extent "*" has this value.
std::vector<Problem> problems_up_to(Session& session, std::int64_t most);
// Like problems_of(), but reads --shapes too: a file or ranges. Words of a line override flags.
std::vector<Problem> sweep_problems_of(Session& session);
// Whether the problems are of one op, so that they share a unit and a table.
bool are_of_one_op(const std::vector<Problem>& problems);

// Refuses what choice_of() and bench_candidates_of() would refuse on every device, so that a mistake gives the same message with
// and without a GPU. Checks one problem of each op.
void check_choice(Session& session, const std::vector<Problem>& problems);
// --family, --config and --param, checked against the families of `op`: an unknown name is refused before anything is compiled.
// Names and values are looked up in the spaces for `problem` and `device`.
tuner::Choice choice_of(Session& session, const Problem& problem, const Device& device);
// Full names of families of `op`; throws Error{usage} for an unknown one.
std::vector<std::string> families_named(Session& session, const std::string& op, const std::vector<std::string>& names);
// The configs that --candidate names. Throws Error{usage} for an unknown family, parameter or value.
std::vector<Candidate> bench_candidates_of(Session& session, const Problem& problem, const Device& device);

// --l2 and --streams.
MeasuringMethod measuring_method_of(const Arguments& arguments);

// Options of a tune, with the families and configs that the flags choose. `default_options` reads no other flags.
tuner::TuneOptions default_options(Session& session, const Problem& problem, const Device& device);
tuner::TuneOptions tune_options_of(Session& session, const Problem& problem, const Device& device);

// Families of the problem's op that the choice allows and that accept the problem on the device; the others' reasons are added to
// `refusals`, if given.
std::vector<const Family*> families_for(Session& session, const Problem& problem, const Device& device,
                                        const tuner::Choice& choice, Refusals* refusals = nullptr);

// Devices that --arch names, one per architecture; `fallback` if the flag is missing.
std::vector<Device> devices_of_archs(const Arguments& arguments, const std::vector<std::string>& fallback);

// The number of extents in an op's shape, from its form "MxNxK".
std::size_t extent_count(const Op& op);
// Every extent 4096: the shape for which counts and named configs are shown if none is given.
std::string showcase_shape(const Op& op);

}  // namespace autotune::cli
