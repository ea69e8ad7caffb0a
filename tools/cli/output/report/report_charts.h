#pragma once

#include <string>
#include <vector>

#include "db/winner_store.h"
#include "src/core/op/op.h"
#include "tools/cli/plot/charts.h"

namespace autotune::cli {

// Pictures of one problem's tune, from what the database holds.

// The finalists' times over the winner's, with intervals.
plot::Svg finalists_chart(const db::Evidence& evidence);
// Every timed candidate, fastest first, with intervals, in the colour of its family. REQUIRES: one has a time.
plot::Svg sorted_times_chart(const std::vector<db::StoredTrial>& trials);
// Each trial's time and the best so far, in the order of the search. REQUIRES: one has a time.
plot::Svg progress_chart(const std::vector<db::StoredTrial>& trials);
// For each parameter of the family that took several values: the best time and the quartiles with each value.
std::vector<plot::Svg> parameter_charts(const std::vector<db::StoredTrial>& trials, const Candidate& winner);

// An outcome that is not "ok", how often it happened, and what was said of one of them.
struct FailureClass {
    std::string status;
    std::size_t count = 0;
    std::string example;  // candidate and detail
};
std::vector<FailureClass> failure_classes(const std::vector<db::StoredTrial>& trials);

}  // namespace autotune::cli
