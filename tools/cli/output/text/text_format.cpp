#include "tools/cli/output/text/text_format.h"

#include <fmt/format.h>

#include <cmath>

#include "src/core/error.h"
#include "tools/cli/input/arguments.h"
#include "tools/cli/input/budget.h"
#include "tools/cli/output/text/common_words.h"

namespace autotune::cli {

std::string us_text(double us) {
    if (us >= 1000) return fmt::format("{:.0f}", us);
    return us >= 100 ? fmt::format("{:.1f}", us) : us >= 10 ? fmt::format("{:.2f}", us) : fmt::format("{:.3f}", us);
}

std::string interval_text(const Timing& timing) {
    return us_text(timing.low_us) + " .. " + us_text(timing.high_us);
}

std::string seconds_text(double seconds) {
    if (seconds < 60) return fmt::format("{:.1f} s", seconds);
    const auto whole = static_cast<long>(std::lround(seconds));
    if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
    return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string bytes_text(std::size_t bytes) {
    if (bytes < 1024) return fmt::format("{} B", bytes);
    return bytes < (1u << 20) ? fmt::format("{:.4g} KiB", static_cast<double>(bytes) / 1024)
                              : fmt::format("{:.4g} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string count_text(std::uint64_t count) {
    std::string text = std::to_string(count);
    for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
    return text;
}

std::string budget_text(const tuner::Budget& budget) {
    const std::string trials =
        budget.trials > 0 ? count_text(static_cast<std::uint64_t>(budget.trials)) + (budget.trials == 1 ? " trial" : " trials")
                          : "";
    if (trials.empty()) return seconds_text(budget.seconds);
    return has_time_limit(budget) ? seconds_text(budget.seconds) + " or " + trials : trials;
}

double rate(const Op& op, const Problem& problem, double us) {
    if (us <= 0) return 0;
    return op.rate_unit() == "gb_per_s" ? op.bytes(problem) / us * 1e-3 : op.flops(problem) / us * 1e-6;
}

std::string rate_text(const Op& op, const Problem& problem, double us) {
    return fmt::format("{:.4g}", rate(op, problem, us));
}

std::string rate_title(const Op& op) {
    return op.rate_unit() == "gb_per_s" ? "GB/s" : "TFLOP/s";
}

std::string problem_text(const Problem& problem) {
    std::string text = problem.op + " " + problem.shape();
    for (const Attribute& attribute : problem.attributes) text += " " + attribute.name + "=" + to_string(attribute.value);
    return text;
}

std::string arch_or_empty(const DeviceIdentity& identity) {
    try {
        return arch_of(identity.cc_major, identity.cc_minor);
    } catch (const Error&) {
        return "";
    }
}

std::string device_text(const DeviceIdentity& identity) {
    const std::string arch = arch_or_empty(identity);
    return fmt::format("{} ({}, {} SMs)", identity.name.empty() ? identity.key() : identity.name,
                       arch.empty() ? fmt::format("compute capability {}.{}", identity.cc_major, identity.cc_minor) : arch,
                       identity.sm_count);
}

std::string_view state_text(tuner::SweepItem::State state) {
    using State = tuner::SweepItem::State;
    switch (state) {
        case State::fresh:
            return "fresh";
        case State::tuned:
            return "tuned";
        case State::failed:
            return "failed";
        case State::skipped_for_budget:
            return "skipped_for_budget";
        case State::interrupted:
            return "interrupted";
        case State::in_work:
            return "in_work";
    }
    return "";
}

// Candidates are long and come last, so that a narrow terminal cuts them and not the numbers.
std::string finalists_table(const db::Evidence& evidence, const Op& op, const Problem& problem, bool full) {
    CommonWords names(full);
    for (const db::Finalist& finalist : evidence.finalists) {
        if (finalist.candidate) names.add(*finalist.candidate);
    }
    Table table({{"#"},
                 {"median us"},
                 {"95 % interval"},
                 {rate_title(op)},
                 {"time ratio"},
                 {"", Table::Align::left},
                 {"candidate", Table::Align::wrap}});
    int place = 0;
    for (const db::Finalist& finalist : evidence.finalists) {
        table.add({std::to_string(++place), us_text(finalist.timing.median_us), interval_text(finalist.timing),
                   rate_text(op, problem, finalist.timing.median_us),
                   fmt::format("{:.3f} ({:.3f} .. {:.3f})", finalist.ratio, finalist.ratio_low, finalist.ratio_high),
                   place == 1     ? "winner"
                   : finalist.tie ? "tie"
                                  : "",
                   finalist.candidate ? names.name(*finalist.candidate) : finalist.name});
    }
    return names.legend() + table.to_string(full ? SIZE_MAX : kTextColumns);
}

}  // namespace autotune::cli
