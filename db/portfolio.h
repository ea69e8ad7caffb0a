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
    // For each family, the identity of its template when the candidates were chosen. Candidates of a family are not used if its
    // template has another identity today, or if the family does not exist here.
    std::map<std::string, std::string> templates{};
    // The regret of the library's choice among the candidates, compared with the best known kernel, for problems that were left
    // out when the candidates were chosen. 0.04 means 4 %, and a negative number means unknown.
    double regret_median = -1, regret_p90 = -1;
    int problems = 0;  // number of problems that these figures are based on
};

// Reads a file of JSON lines. Returns no portfolios if there is no such file. A file that cannot be read and an invalid line are
// skipped and reported to `warn`, a line with its number. `former` tells which identities of earlier versions count as today's.
std::vector<Portfolio> read_portfolios(const std::string& path, const std::function<void(const std::string&)>& warn,
                                       const FormerTemplates& former = {});
// The path of the portfolios in a folder of shipped winners.
std::string portfolio_path(const std::string& shipped_folder);
std::string to_json_line(const Portfolio& portfolio);
// Parses one line of such a file. Throws BadRecord.
Portfolio parse_portfolio(std::string_view line);

}  // namespace autotune::db
