#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/former_templates.h"
#include "src/core/statistics/trial.h"

namespace autotune::db {

// Instances of one class of problems that together are near the best for all extents (db/winners/README.md).
struct Portfolio {
    std::string op{};
    std::string arch{};  // "sm_90a"
    std::string class_key{};
    std::vector<Candidate> candidates{};
    // By family: the identity of its template when the candidates were chosen. Those of a family whose template is another today,
    // or that is not here, are not used.
    std::map<std::string, std::string> templates{};
    // What the library's choice among them loses against the best known, of problems that were left out of its making: 0.04 is
    // 4 %. Negative: not known.
    double regret_median = -1, regret_p90 = -1;
    int problems = 0;  // that these rest on
};

// Those of a file of JSON lines; none if there is no such file. A file that cannot be read and a line that is not valid are
// passed over and told to `warn`, the line with its number. What earlier versions chose counts as today's where `former` says so.
std::vector<Portfolio> read_portfolios(const std::string& path, const std::function<void(const std::string&)>& warn,
                                       const FormerTemplates& former = {});
// Where a folder of shipped winners has them.
std::string portfolio_path(const std::string& shipped_folder);
std::string to_json_line(const Portfolio& portfolio);
// One line of such a file. Throws BadRecord.
Portfolio parse_portfolio(std::string_view line);

}  // namespace autotune::db
