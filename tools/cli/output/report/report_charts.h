#pragma once

#include <string>
#include <vector>

#include "db/winner_store.h"
#include "src/core/op/op.h"
#include "tools/cli/plot/charts.h"

namespace autotune::cli {

// Charts of one problem's tune, from the data in the database.

// The finalists' times / the winner's, with intervals.
plot::Svg finalists_chart(const db::Evidence& evidence);
// Every timed candidate, fastest first, with intervals, coloured by family. REQUIRES: at least one time.
plot::Svg sorted_times_chart(const std::vector<db::StoredTrial>& trials);
// Each trial's time and the best so far, in the order of the search. REQUIRES: at least one time.
plot::Svg progress_chart(const std::vector<db::StoredTrial>& trials);
// For each parameter of the family that took several values: the best time and the quartiles with each value.
std::vector<plot::Svg> parameter_charts(const std::vector<db::StoredTrial>& trials, const Candidate& winner);

// An outcome other than "ok", how often it happened, and the detail of one example.
struct FailureClass {
    std::string status;
    std::size_t count = 0;
    std::string example;  // candidate and detail
};
std::vector<FailureClass> failure_classes(const std::vector<db::StoredTrial>& trials);

}  // namespace autotune::cli
