#include "tools/cli/output/text/drops.h"

#include <algorithm>

#include "src/core/statistics/trial.h"

namespace autotune::cli {
namespace {

// The stage at which a candidate with this status was dropped.
std::string stage_of(const std::string& status) {
    switch (parse_trial_status(status).value_or(TrialStatus::ok)) {
        case TrialStatus::compile_failed:
        case TrialStatus::rejected:
            return "compiler";
        case TrialStatus::wrong_result:
            return "verification";
        default:
            return "launch";
    }
}

Drop failures_at(const db::Evidence& evidence, const std::string& stage) {
    Drop drop{.stage = stage};
    for (const auto& [status, count] : evidence.failures) {
        if (stage_of(status) != stage || count <= 0) continue;
        drop.count += static_cast<std::uint64_t>(count);
        drop.why += (drop.why.empty() ? "" : ", ") + std::to_string(count) + " " + status;
    }
    return drop;
}

std::uint64_t difference(std::uint64_t from, std::uint64_t what) {
    return from > what ? from - what : 0;
}

}  // namespace

std::vector<Drop> drops_of(const db::Evidence& evidence) {
    const auto tried = static_cast<std::uint64_t>(std::max(evidence.tried, 0));
    const auto failed = static_cast<std::uint64_t>(std::max(evidence.failed, 0));
    const auto finalists = static_cast<std::uint64_t>(std::count_if(evidence.finalists.begin(), evidence.finalists.end(),
                                                                    [](const db::Finalist& one) { return one.candidate; }));
    std::vector<Drop> drops = {
        {"cost model", difference(evidence.space_legal, tried),
         "never tried: ranked lower, and the search ended before (" +
             (evidence.stopped_by.empty() ? "reason not recorded" : evidence.stopped_by) + ")"},
        failures_at(evidence, "compiler"),
        failures_at(evidence, "launch"),
        failures_at(evidence, "verification"),
        {"timing", difference(tried, failed + finalists), "right, but slower than the finalists"},
        {"final rounds", difference(finalists, 1), "slower in interleaved rounds, or a tie that the rule decides"}};
    std::erase_if(drops, [](const Drop& drop) { return drop.count == 0; });
    return drops;
}

}  // namespace autotune::cli
