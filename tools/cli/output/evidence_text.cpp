#include "tools/cli/output/evidence_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel_templates/stored_winner.h"
#include "tools/cli/output/text_format.h"
#include "tuner/session/recall.h"

namespace autotune::cli {
namespace {

// "takes 3.1 % longer (95 % interval 2.9 .. 3.4 %)", or less.
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

// The flags that name the problem: of its attributes those that the op would not choose by itself.
std::string request_text(const Catalogue& catalogue, const Problem& problem) {
    const Problem plain = catalogue.problem({.op = problem.op, .shape = problem.shape(), .options = {}});
    std::string text = "--op " + problem.op + " --shape " + problem.shape();
    for (const Attribute& attribute : problem.attributes) {
        if (std::find(plain.attributes.begin(), plain.attributes.end(), attribute) == plain.attributes.end())
            text += " --" + attribute.name + " " + to_string(attribute.value);
    }
    return text;
}

}  // namespace

std::string wins_text(const db::Winner& winner, const Op& op, const Problem& problem) {
    return fmt::format("wins with {} us (95 % interval {}), {} {}.", us_text(winner.timing.median_us),
                       interval_text(winner.timing), rate_text(op, problem, winner.timing.median_us), rate_title(op));
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
    return fmt::format(
        "Started right after another launch of itself it takes {} us, after a kernel that lets it start early {} us.",
        us_text(*winner.after_itself_us), us_text(*winner.after_trigger_us));
}

std::string verified_text(const db::Evidence& evidence) {
    if (evidence.accumulation_error)
        return fmt::format("beyond the rounding of the output, the largest error is {:.2f} of what accumulation may add",
                           *evidence.accumulation_error);
    if (evidence.max_error)
        return fmt::format("the largest error, rounding of the output included, is {:.2f} of what is allowed",
                           *evidence.max_error);
    return "";
}

std::string phases_text(const db::Evidence& evidence) {
    return fmt::format(
        "Stopped by {} after {}: verifying took {} of it and measuring {}; compiling {} of processor time beside them. Seed {}.",
        evidence.stopped_by.empty() ? "nothing" : evidence.stopped_by, seconds_text(evidence.seconds),
        seconds_text(evidence.verify_seconds), seconds_text(evidence.measure_seconds), seconds_text(evidence.compile_seconds),
        evidence.seed);
}

std::string measured_text(const db::Winner& winner) {
    const db::Provenance& from = winner.provenance;
    return fmt::format("Measured on {}{}, driver {}, NVRTC {}, {}, {} ({}).", device_text(winner.device),
                       conditions_text(winner.evidence.conditions), from.driver, from.nvrtc, from.method, from.date,
                       winner.shipped ? "shipped with autotune " + from.tool_version : "by autotune " + from.tool_version);
}

Freshness freshness_of(const Catalogue& catalogue, const db::Winner& winner, const Problem& problem,
                       const std::optional<db::Provenance>& today) {
    const std::string request = request_text(catalogue, problem), retune = "autotune " + request + " --retune";
    TemplateIdentities identities(catalogue);
    if (const auto reason = why_unusable(identities, winner)) {
        const std::string race = winner.doubt.empty() ? "" : "autotune verify " + request + " (races it) or ";
        return {.usable = false, .because = *reason, .remedy = race + retune};
    }
    const std::string because = today ? tuner::why_stale(winner.provenance, *today) : "";
    return {.stale = !because.empty(),
            .because = because,
            .remedy = because.empty() ? "" : "autotune verify " + request + " (races it again) or " + retune};
}

std::string freshness_text(const Freshness& freshness, bool compared) {
    if (!freshness.usable) return "It is not used: " + freshness.because + ". Fresh by: " + freshness.remedy + ".";
    if (freshness.stale) return "It is used, but stale: " + freshness.because + ". Fresh by: " + freshness.remedy + ".";
    const std::string when =
        "another driver, NVRTC, device name, power limit or measuring method makes it stale; a changed template invalidates it.";
    return (compared ? "It is fresh here: " : "No GPU to compare with here: ") + when;
}

}  // namespace autotune::cli
