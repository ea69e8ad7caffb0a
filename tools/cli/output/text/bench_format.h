#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/library_choice.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/services.h"

namespace autotune::cli {

// The result of `autotune bench` for one problem.
struct Benched {
    Problem problem;
    tuner::BenchResult result;
    std::optional<UntunedChoice> untuned{};  // the library's choice for the untuned row, if that row was requested
};

// How much slower the untuned choice was than the winner in the same rounds, 0.04 for 4 %; nullopt if one of them did not race.
std::optional<double> measured_regret(const Benched& benched);

// A stored winner and the rivals of its final rounds, which ran after load. `winner` has its evidence.
Benched benched_of(const Problem& problem, const db::Winner& winner);

// "ok", another status, or "not_measured" for a valid row that has no time.
std::string bench_status_text(const tuner::BenchRow& row);
// Where a row's time is from: "rounds", "survey" or, without a time, "".
std::string measured_in(const tuner::BenchRow& row);

// How many percent faster each row is than the fastest row before it, negative if slower. It is nullopt without a time and 0 for
// the first row.
std::vector<std::optional<double>> gains_percent(const std::vector<tuner::BenchRow>& rows);

// `full`: also sample values and intervals, however wide.
std::string bench_table(const Benched& benched, const Op& op, bool full);
// Everything, with "rows".
Json bench_json(const Benched& benched, const tuner::TuneServices& services, const Op& op);
// The rows, each with its problem, for comma-separated values.
std::vector<Json> bench_csv_rows(const Benched& benched, const Op& op);

}  // namespace autotune::cli
