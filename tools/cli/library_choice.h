#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/dispatch/dispatcher.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// The kernel that a plan of the library runs for an untuned problem.
struct UntunedChoice {
    Candidate candidate;
    dispatch::Source source = dispatch::Source::none;
    std::optional<double> predicted_us;
    dispatch::ExpectedRegret regret;
};

// The kernel that the library would choose by its own rules, from the session's database and shipped winners. A file that fails
// is a warning, as in a program's log, and contributes no winners.
class LibraryChoice {
  public:
    explicit LibraryChoice(Session& session);

    // One entry for each instance that serves a first extent from 1 to the problem's. Throws Error{no_valid_config} if no family
    // can do it.
    std::vector<dispatch::WarmupEntry> serving(const Problem& problem, const Device& device) {
        return dispatcher_.serving(problem, device);
    }
    // The choice as if the problem's own winners were not stored, or nullopt if no family can do it.
    std::optional<UntunedChoice> untuned(const Problem& problem, const Device& device);

    // Kernels of portfolios that are not offered for the problem, and why.
    std::vector<dispatch::PassedOver> portfolio_kernels_passed_over(const Problem& problem, const Device& device) {
        return dispatcher_.stored().portfolio_kernels_passed_over(problem, device);
    }

  private:
    const Catalogue& catalogue_;
    dispatch::Dispatcher dispatcher_;
};

Json untuned_json(const UntunedChoice& choice);
// The choice in words: "from the class's portfolio, predicted 12.3 us; expected to be 4.4 % slower than the best known in the
// median (p90 16 %, 98 problems)"
std::string untuned_text(const UntunedChoice& choice);

}  // namespace autotune::cli
