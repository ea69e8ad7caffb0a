#include "tools/cli/exit_codes.h"

namespace autotune::cli {

ExitCode exit_code_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::usage:
            return ExitCode::usage;
        case ErrorCode::no_gpu:
            return ExitCode::no_gpu;
        case ErrorCode::no_valid_config:
            return ExitCode::no_valid_config;
        case ErrorCode::database:
            return ExitCode::database;
        case ErrorCode::verification:
            return ExitCode::verification;
        case ErrorCode::gpu_unhealthy:
            return ExitCode::gpu_unhealthy;
        case ErrorCode::gpu_in_use:
        case ErrorCode::gpu_memory:
            return ExitCode::gpu_in_use;
        case ErrorCode::interrupted:
            return ExitCode::interrupted;
        case ErrorCode::internal:
        case ErrorCode::compile_failed:
        case ErrorCode::no_compiler:
        case ErrorCode::driver:
        case ErrorCode::system:
            break;
    }
    return ExitCode::error;
}

std::vector<std::pair<ExitCode, std::string_view>> exit_code_meanings() {
    return {{ExitCode::done, "done"},
            {ExitCode::error, "error"},
            {ExitCode::usage, "usage: an argument is wrong"},
            {ExitCode::no_gpu, "no usable GPU"},
            {ExitCode::no_valid_config, "no valid config"},
            {ExitCode::database, "the database cannot be used"},
            {ExitCode::verification, "verification failed"},
            {ExitCode::some_failed, "finished, some items failed"},
            {ExitCode::gpu_unhealthy, "the GPU is unhealthy"},
            {ExitCode::gpu_in_use, "the GPU is in use: its memory, the whole of it, or its MPS server"},
            {ExitCode::interrupted, "interrupted, state saved"}};
}

}  // namespace autotune::cli
