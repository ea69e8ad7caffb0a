#pragma once

#include <string>

namespace autotune::tuner {

// The current time, as ISO 8601 in UTC: "2026-11-21T01:02:03Z".
std::string now_utc_iso8601();

}  // namespace autotune::tuner
