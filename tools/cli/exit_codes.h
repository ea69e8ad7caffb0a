#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "src/core/error.h"

namespace autotune::cli {

// The meaning of each exit code. This is the only table; scripts rely on it.
enum class ExitCode : int {
    done = 0,
    error = 1,
    usage = 2,
    no_gpu = 3,
    no_valid_config = 4,
    database = 5,
    verification = 6,
    some_failed = 7,
    gpu_unhealthy = 8,
    gpu_in_use = 9,
    interrupted = 130,
};

ExitCode exit_code_of(ErrorCode code);

// Every exit code with its meaning, for `autotune --help`.
std::vector<std::pair<ExitCode, std::string_view>> exit_code_meanings();

}  // namespace autotune::cli
