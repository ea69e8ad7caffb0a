#pragma once

#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "tools/cli/output/text/evidence_text.h"

namespace autotune::cli {

// One problem in the report.
struct ReportedProblem {
    Problem problem;
    db::Winner winner;  // includes the finalists
    std::vector<db::StoredTrial> trials{};
    Freshness freshness{};
    bool compared = false;  // whether it was measured against rivals on the present GPU
    Device device{};        // the winner's GPU, with clock and bandwidth for the roofline
};

struct Report {
    std::string database{};
    std::string version{}, date{};
    std::uint64_t winners = 0;  // number of winners that match; `problems` are those shown
    std::vector<ReportedProblem> problems{};
};

// One page that fetches nothing and runs nothing: styles and drawings are part of it.
std::string report_html(const Report& report, const Catalogue& catalogue);

}  // namespace autotune::cli
