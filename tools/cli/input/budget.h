#pragma once

#include <string_view>

#include "tools/cli/input/arguments.h"
#include "tuner/session/tune.h"

namespace autotune::cli {

// Parses a budget such as "30s", "5m", "1h", "200t", or both as "30s,200t". A bare number is seconds. With only trials there is
// no limit on time. Throws Error{usage} naming the text.
tuner::Budget parse_budget(std::string_view text);
// Only a time, in seconds: "30s", "5m", "1h", "30".
double parse_seconds(std::string_view text, const std::string& what);

// A kernel's time in microseconds: "95us", "1.2ms", "95".
double parse_time_us(std::string_view text, const std::string& what);

// Checks for flags with such values.
FlagCheck budget_value();
FlagCheck seconds_value();
FlagCheck time_us_value();
// A share in percent: "0.5" or "0.5%", 0 to 100.
FlagCheck percent_value();

// --budget, --trials, --patience, --target and --target-gain together. Throws Error{usage} if two of them set one limit.
tuner::Budget budget_of(const Arguments& arguments);

// Whether the user has set a limit on time.
bool has_time_limit(const tuner::Budget& budget);

}  // namespace autotune::cli
