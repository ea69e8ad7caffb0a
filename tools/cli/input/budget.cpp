#include "tools/cli/input/budget.h"

#include <climits>

#include "src/core/error.h"
#include "src/core/spelling.h"

namespace autotune::cli {
namespace {

// A tune that counts trials still ends some day: no GPU is lent for longer.
constexpr double kNoTimeLimit_s = 7.0 * 24 * 3600;
constexpr double kLongestTime_s = 1000.0 * 24 * 3600;  // deadlines are counted in microseconds

double unit_s(char unit) {
    switch (unit) {
        case 's':
            return 1;
        case 'm':
            return 60;
        case 'h':
            return 3600;
        default:
            return 0;
    }
}

}  // namespace

FlagCheck budget_value() {
    return [](const std::string&, const std::string& value) { parse_budget(value); };
}

FlagCheck seconds_value() {
    return [](const std::string& what, const std::string& value) { parse_seconds(value, what + " (30s, 5m, 2h)"); };
}

FlagCheck time_us_value() {
    return [](const std::string& what, const std::string& value) { parse_time_us(value, what + " (95us or 1.2ms)"); };
}

double parse_seconds(std::string_view given, const std::string& what) {
    std::string_view text = trimmed(given);
    if (text.ends_with("ms")) return parse_positive(text.substr(0, text.size() - 2), what) * 1e-3;
    const double unit = text.empty() ? 0 : unit_s(text.back());
    if (unit > 0) text.remove_suffix(1);
    const double seconds = parse_positive(text, what) * (unit > 0 ? unit : 1);
    if (seconds > kLongestTime_s) throw Error(ErrorCode::usage, what + " is at most 1000 days, not '" + std::string(given) + "'");
    return seconds;
}

double parse_time_us(std::string_view given, const std::string& what) {
    std::string_view text = trimmed(given);
    const bool is_ms = text.ends_with("ms");
    if (is_ms || text.ends_with("us")) text.remove_suffix(2);
    return parse_positive(text, what) * (is_ms ? 1e3 : 1);
}

tuner::Budget parse_budget(std::string_view text) {
    tuner::Budget budget{.seconds = 0};
    for (const std::string& item : split(text, ',')) {
        const std::string_view part = trimmed(item);
        const bool is_count = part.size() > 1 && part.find_first_not_of("0123456789") == part.size() - 1 && part.back() == 't';
        if (is_count ? budget.trials > 0 : budget.seconds > 0)
            throw Error(ErrorCode::usage, "--budget has two " + std::string(is_count ? "counts of trials" : "times") + " in '" +
                                              std::string(text) + "'; give one");
        if (is_count) {
            budget.trials = static_cast<int>(parse_integer(part.substr(0, part.size() - 1), "the number of trials in --budget",
                                                           {.least = 1, .most = INT_MAX}));
        } else {
            budget.seconds = parse_seconds(part, "--budget (30s, 5m, 200t or 30s,200t)");
        }
    }
    if (budget.seconds <= 0) budget.seconds = kNoTimeLimit_s;
    return budget;
}

tuner::Budget budget_of(const Arguments& arguments) {
    tuner::Budget budget;
    if (arguments.has("budget")) budget = parse_budget(arguments.text("budget"));
    if (arguments.has("trials")) {
        if (budget.trials > 0)
            throw Error(ErrorCode::usage, "--budget " + arguments.text("budget") + " and --trials both count trials; give one");
        budget.trials = static_cast<int>(arguments.integer("trials", 0));
        if (!arguments.has("budget")) budget.seconds = kNoTimeLimit_s;
    }
    budget.patience = static_cast<int>(arguments.integer("patience", budget.patience));
    if (arguments.has("target")) budget.target_us = parse_time_us(arguments.text("target"), "--target (95us or 1.2ms)");
    return budget;
}

}  // namespace autotune::cli
