#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/runtime/winners.h"
#include "tools/cli/output/json_format.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// The kernel that a plan of the library runs for an untuned problem.
struct UntunedChoice {
    Candidate candidate;
    runtime::Source source = runtime::Source::none;
    std::optional<double> predicted_us;
    runtime::ExpectedRegret regret;
};

// What the library would take, by its own rules, from the session's database and shipped winners.
class LibraryChoice {
  public:
    explicit LibraryChoice(Session& session);

    // One entry for each instance that serves a first extent from 1 to the problem's.
    // Throws Error{no_valid_config} if no family can do it.
    std::vector<runtime::WarmupEntry> serving(const Problem& problem, const Device& device);
    // As if the problem's own winners were not stored; nullopt if no family can do it.
    std::optional<UntunedChoice> untuned(const Problem& problem, const Device& device);

    // Kernels of portfolios that are not offered to the problem, and why.
    std::vector<runtime::Winners::PassedOver> portfolio_kernels_passed_over(const Problem& problem, const Device& device) {
        return winners_.portfolio_kernels_passed_over(problem, device);
    }

  private:
    const Catalogue& catalogue_;
    runtime::Settings settings_;
    runtime::Log log_;
    runtime::Winners winners_;
};

Json untuned_json(const UntunedChoice& choice);
// "from the class's portfolio, predicted 12.3 us; expected to be 4.4 % slower than the best known in the median (p90 16 %, 98
// problems)"
std::string untuned_text(const UntunedChoice& choice);

}  // namespace autotune::cli
