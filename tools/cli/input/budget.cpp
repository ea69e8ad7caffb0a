#include "tools/cli/input/budget.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>

#include "src/core/error.h"
#include "src/core/spelling.h"

namespace autotune::cli {
namespace {

// A tune that counts trials also ends after this time, so no GPU is reserved for longer.
constexpr double kNoTimeLimit_s = 7.0 * 24 * 3600;
// The limit keeps deadlines, which are counted in microseconds, within range.
constexpr double kLongestTime_s = 1000.0 * 24 * 3600;
// The default for users' kernels. No cost model ranks their configs, and some compile for seconds: on an H200 the search of
// examples/kernels/conv2d.toml ended after 7 s while it still expected a gain of 4.4 %.
constexpr double kKernelFile_s = 20;

// A number and the letters after it in lower case, such as "30 min".
struct Quantity {
    std::string_view number;
    std::string unit;
};

Quantity quantity_of(std::string_view text) {
    text = trimmed(text);
    std::size_t end = text.size();
    while (end > 0 && std::isalpha(static_cast<unsigned char>(text[end - 1])) != 0) --end;
    Quantity quantity{trimmed(text.substr(0, end)), std::string(text.substr(end))};
    for (char& letter : quantity.unit) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    return quantity;
}

// The unit in seconds, or 0 if this is not a unit of time.
double unit_s(std::string_view unit) {
    struct Unit {
        double seconds;
        std::vector<std::string_view> names;
    };
    static const std::vector<Unit> units = {{1e-6, {"us"}},
                                            {1e-3, {"ms"}},
                                            {1, {"s", "sec", "secs", "second", "seconds"}},
                                            {60, {"m", "min", "mins", "minute", "minutes"}},
                                            {3600, {"h", "hr", "hour", "hours"}}};
    for (const Unit& one : units)
        if (std::find(one.names.begin(), one.names.end(), unit) != one.names.end()) return one.seconds;
    return 0;
}

double parse_percent(std::string_view text, const std::string& what) {
    std::string_view number = trimmed(text);
    if (!number.empty() && number.back() == '%') number = trimmed(number.substr(0, number.size() - 1));
    double value = -1;
    const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (failure == std::errc() && end == number.data() + number.size() && value >= 0 && value <= 100) return value;
    throw Error(ErrorCode::usage, what + " is a percentage from 0 to 100, such as 0.5, not '" + std::string(text) + "'");
}

bool is_count(const Quantity& quantity) {
    return (quantity.unit == "t" || quantity.unit == "trials") && !quantity.number.empty() &&
           quantity.number.find_first_not_of("0123456789") == std::string_view::npos;
}

// Parses a time. A bare number is in `unit`.
double parse_time(std::string_view text, const std::string& what, double bare_unit_s) {
    const Quantity quantity = quantity_of(text);
    const double unit = quantity.unit.empty() ? bare_unit_s : unit_s(quantity.unit);
    if (unit == 0 || quantity.number.empty()) return parse_positive(text, what);  // refuses it
    return parse_positive(quantity.number, what) * unit;
}

}  // namespace

FlagCheck percent_value() {
    return [](const std::string& what, const std::string& value) { parse_percent(value, what); };
}

FlagCheck budget_value() {
    return [](const std::string&, const std::string& value) { parse_budget(value); };
}

FlagCheck seconds_value() {
    return [](const std::string& what, const std::string& value) { parse_seconds(value, what + " (30s, 5m, 2h)"); };
}

FlagCheck time_us_value() {
    return [](const std::string& what, const std::string& value) { parse_time_us(value, what + " (95us or 1.2ms)"); };
}

double parse_seconds(std::string_view text, const std::string& what) {
    const double seconds = parse_time(text, what, 1);
    if (seconds > kLongestTime_s) throw Error(ErrorCode::usage, what + " is at most 1000 days, not '" + std::string(text) + "'");
    return seconds;
}

double parse_time_us(std::string_view text, const std::string& what) {
    return parse_time(text, what, 1e-6) * 1e6;
}

tuner::Budget parse_budget(std::string_view text) {
    tuner::Budget budget{.seconds = 0};
    for (const std::string& item : split(text, ',')) {
        const Quantity quantity = quantity_of(item);
        if (is_count(quantity) ? budget.trials > 0 : budget.seconds > 0)
            throw Error(ErrorCode::usage, "--budget has two " + std::string(is_count(quantity) ? "counts of trials" : "times") +
                                              " in '" + std::string(text) + "'; give one");
        if (is_count(quantity)) {
            budget.trials = static_cast<int>(
                parse_integer(quantity.number, "the number of trials in --budget", {.least = 1, .most = INT_MAX}));
        } else {
            budget.seconds = parse_seconds(item, "--budget (30s, 5m, 200t or 30s,200t)");
        }
    }
    if (budget.seconds <= 0) budget.seconds = kNoTimeLimit_s;
    return budget;
}

bool has_time_limit(const tuner::Budget& budget) {
    return budget.seconds < kNoTimeLimit_s;
}

tuner::Budget budget_of(const Arguments& arguments) {
    tuner::Budget budget;
    if (arguments.has("kernel")) budget.seconds = kKernelFile_s;
    if (arguments.has("budget")) budget = parse_budget(arguments.text("budget"));
    if (arguments.has("trials")) {
        if (budget.trials > 0)
            throw Error(ErrorCode::usage, "--budget " + arguments.text("budget") + " and --trials both count trials; give one");
        budget.trials = static_cast<int>(arguments.integer("trials", 0));
        if (!arguments.has("budget")) budget.seconds = kNoTimeLimit_s;
    }
    budget.patience = static_cast<int>(arguments.integer("patience", budget.patience));
    if (arguments.has("target-gain")) budget.target_gain = parse_percent(arguments.text("target-gain"), "--target-gain") / 100;
    if (arguments.has("target")) budget.target_us = parse_time_us(arguments.text("target"), "--target (95us or 1.2ms)");
    return budget;
}

}  // namespace autotune::cli
