#include "tools/cli/output/text/evidence_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/output/text/command_line.h"
#include "tools/cli/output/text/text_format.h"
#include "tuner/session/tune/recall.h"

namespace autotune::cli {
namespace {

// A finalist's time in words: "takes 3.1 % longer (95 % interval 2.9 .. 3.4 %)", or "less".
std::string takes_text(const db::Finalist& finalist) {
    const double percent = (finalist.ratio - 1) * 100;
    const double low = (finalist.ratio_low - 1) * 100, high = (finalist.ratio_high - 1) * 100;
    if (percent >= 0) return fmt::format("takes {:.1f} % longer (95 % interval {:.1f} .. {:.1f} %)", percent, low, high);
    return fmt::format("takes {:.1f} % less time (95 % interval {:.1f} .. {:.1f} %)", -percent, -high, -low);
}

std::string conditions_text(const Conditions& conditions) {
    std::string text;
    if (conditions.sm_clock_mhz) text += fmt::format(" at {} MHz", *conditions.sm_clock_mhz);
    if (conditions.power_w) text += fmt::format(", {} W", *conditions.power_w);
    if (conditions.temperature_c) text += fmt::format(", {} C", *conditions.temperature_c);
    return text;
}

std::string runner_up_text(const db::Evidence& evidence) {
    const auto second = std::find_if(evidence.finalists.begin(), evidence.finalists.end(), [&](const db::Finalist& finalist) {
        return finalist.candidate && &finalist != &evidence.finalists.front();
    });
    if (second == evidence.finalists.end()) return "No other candidate reached them.";
    if (!second->tie) return fmt::format("The runner-up, {}, {}.", second->name, takes_text(*second));
    return fmt::format("The runner-up, {}, is a tie: {:.3f} of the winner's time (95 % interval {:.3f} .. {:.3f}).", second->name,
                       second->ratio, second->ratio_low, second->ratio_high);
}

}  // namespace

const db::Finalist* fastest_rival(const db::Evidence& evidence) {
    const db::Finalist* fastest = nullptr;
    for (const db::Finalist& finalist : evidence.finalists) {
        if (!finalist.candidate && (fastest == nullptr || finalist.ratio < fastest->ratio)) fastest = &finalist;
    }
    return fastest;
}

Standing standing_of(const db::Evidence& evidence) {
    constexpr double tie_gap = 0.005;  // as between finalists
    const db::Finalist* const rival = fastest_rival(evidence);
    if (rival == nullptr) return Standing::not_raced;
    const bool spans_1 = rival->ratio_low <= 1 && rival->ratio_high >= 1;
    if (spans_1 || std::abs(rival->ratio - 1) < tie_gap) return Standing::tie;
    return rival->ratio < 1 ? Standing::slower : Standing::faster;
}

std::string_view standing_word(Standing standing) {
    switch (standing) {
        case Standing::not_raced:
            return "not_raced";
        case Standing::faster:
            return "faster";
        case Standing::tie:
            return "tie";
        case Standing::slower:
            return "slower";
    }
    return "";
}

std::string result_text(const db::Winner& winner) {
    const std::string ours = winner.candidate.family, our_us = us_text(winner.timing.median_us);
    const db::Finalist* const rival = fastest_rival(winner.evidence);
    if (rival == nullptr) return fmt::format("{} takes {} us; no rival was timed beside it.", ours, our_us);
    const std::string rival_us = us_text(rival->timing.median_us);
    const double percent = 100 * std::abs(rival->ratio - 1);
    switch (standing_of(winner.evidence)) {
        case Standing::slower:
            return fmt::format("{} is faster: {} us, {:.1f} % less time than the {} us of {}.", rival->name, rival_us, percent,
                               our_us, ours);
        case Standing::tie:
            return fmt::format("{} and {} are equally fast: {} us and {} us.", ours, rival->name, our_us, rival_us);
        default:
            return fmt::format("{} is the fastest: {} us; the fastest rival, {}, takes {:.1f} % longer.", ours, our_us,
                               rival->name, percent);
    }
}

std::string rival_text(const db::Evidence& evidence) {
    const db::Finalist* const rival = fastest_rival(evidence);
    if (rival == nullptr) return "";
    const double percent = 100 * std::abs(rival->ratio - 1);
    switch (standing_of(evidence)) {
        case Standing::slower:
            return fmt::format("{} is faster: {} us, {:.1f} % less time", rival->name, us_text(rival->timing.median_us), percent);
        case Standing::tie:
            return rival->name + " is equally fast";
        default:
            return fmt::format("{} takes {:.1f} % longer", rival->name, percent);
    }
}

std::string wins_text(const db::Winner& winner, const Op& op, const Problem& problem) {
    const bool is_beaten = standing_of(winner.evidence) == Standing::slower;
    return fmt::format("{} {} us (95 % interval {}), {} {}.", is_beaten ? "is the fastest of the candidates with" : "wins with",
                       us_text(winner.timing.median_us), interval_text(winner.timing),
                       rate_text(op, problem, winner.timing.median_us), rate_title(op));
}

std::string_view origin_text(const db::Winner& winner) {
    if (winner.shipped) return "shipped";
    return winner.doubt.empty() ? "tuned" : "imported, in doubt";
}

std::string decided_text(const db::Evidence& evidence) {
    return fmt::format("Decided in {} interleaved rounds: {}. {}", evidence.rounds,
                       evidence.decided_by.empty() ? "not recorded" : evidence.decided_by, runner_up_text(evidence));
}

std::string rivals_text(const db::Evidence& evidence) {
    std::string text;
    for (const db::Finalist& finalist : evidence.finalists) {
        if (!finalist.candidate)
            text += fmt::format("{}{}, in the same rounds, {}.", text.empty() ? "" : " ", finalist.name, takes_text(finalist));
    }
    return text;
}

std::string contexts_text(const db::Evidence& evidence) {
    if (evidence.finalists.empty()) return "";
    const db::Finalist& winner = evidence.finalists.front();
    if (!winner.after_itself_us || !winner.after_trigger_us) return "";
    return fmt::format("Back to back it takes {} us; after a kernel that lets it start early, {} us.",
                       us_text(*winner.after_itself_us), us_text(*winner.after_trigger_us));
}

std::string verified_text(const db::Evidence& evidence) {
    if (evidence.accumulation_error)
        return fmt::format("the largest accumulation error is {:.1f} % of the allowed one", 100 * *evidence.accumulation_error);
    if (evidence.max_error)
        return fmt::format("the largest error, with the rounding of the output, is {:.1f} % of the allowed one",
                           100 * *evidence.max_error);
    return "";
}

std::string more_time_text(const db::Evidence& evidence) {
    if (!evidence.expected_gain) return "";
    if (*evidence.expected_gain < 0.0005) return "less than 0.1 %";
    return fmt::format("{:.1f} %", 100 * std::min(*evidence.expected_gain, 1.0));
}

std::string phases_text(const db::Evidence& evidence) {
    const std::string more = more_time_text(evidence);
    return fmt::format(
        "Stopped by {} after {}: verifying took {} of it and measuring {}; compiling {} of processor time beside them.{} Seed "
        "{}.",
        evidence.stopped_by.empty() ? "nothing" : evidence.stopped_by, seconds_text(evidence.seconds),
        seconds_text(evidence.verify_seconds), seconds_text(evidence.measure_seconds), seconds_text(evidence.compile_seconds),
        more.empty() ? "" : " More time would probably gain " + more + ".", evidence.seed);
}

std::string measured_text(const db::Winner& winner) {
    const db::Provenance& from = winner.provenance;
    return fmt::format("Measured on {}{}, driver {}, NVRTC {}, {}, {} ({}).", device_text(winner.device),
                       conditions_text(winner.evidence.conditions), from.driver, from.nvrtc, from.method, from.date,
                       winner.shipped ? "shipped with autotune " + from.tool_version : "by autotune " + from.tool_version);
}

Freshness freshness_of(const Catalogue& catalogue, const db::Winner& winner, const Problem& problem,
                       const std::optional<db::Provenance>& today, const Arguments& arguments) {
    const std::string request = problem_flags_text(catalogue, problem, arguments) + shared_flags_text(arguments);
    const std::string verify = "autotune verify " + request, retune = "autotune " + request + " --retune";
    TemplateIdentities identities(catalogue);
    if (const auto reason = why_unusable(identities, winner)) {
        const bool can_race = !winner.doubt.empty();
        return {.usable = false,
                .because = *reason,
                .remedies = can_race ? std::vector<std::string>{verify, retune} : std::vector<std::string>{retune}};
    }
    const std::string because = today ? tuner::why_stale(winner.provenance, *today) : "";
    if (because.empty()) return {};
    return {.stale = true, .because = because, .remedies = {verify, retune}};
}

std::string freshness_text(const Freshness& freshness, bool compared) {
    if (!freshness.usable) return "It is not used: " + freshness.because + ". To make it fresh:";
    if (freshness.stale) return "It is used, but stale: " + freshness.because + ". To race it again, or to search again:";
    const std::string when =
        "another driver, NVRTC, device name, power limit or measuring method makes it stale; a changed template invalidates it.";
    return (compared ? "It is fresh here: " : "No GPU to compare with here: ") + when;
}

}  // namespace autotune::cli
