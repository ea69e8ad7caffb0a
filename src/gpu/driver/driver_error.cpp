#include "src/gpu/driver/driver_api.h"

namespace autotune::gpu {

DriverError::DriverError(int code, const std::string& name, const std::string& call)
    : Error(ErrorCode::driver, call + " failed: " + name + " (" + std::to_string(code) + ")"), code_(code) {}

// From cuda.h's comments: after a sticky error "the process must be terminated and relaunched".
Severity DriverError::severity() const {
    switch (code_) {
        case CUDA_ERROR_OUT_OF_MEMORY:
            return Severity::out_of_memory;
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        case CUDA_ERROR_CONTAINED:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_TENSOR_MEMORY_LEAK:
            return Severity::sticky;
        case CUDA_ERROR_NOT_INITIALIZED:
        case CUDA_ERROR_DEINITIALIZED:
        case CUDA_ERROR_STUB_LIBRARY:
        case CUDA_ERROR_DEVICE_UNAVAILABLE:
        case CUDA_ERROR_NO_DEVICE:
        case CUDA_ERROR_DEVICE_NOT_LICENSED:
        case CUDA_ERROR_OPERATING_SYSTEM:
        case CUDA_ERROR_SYSTEM_NOT_READY:
        case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        case CUDA_ERROR_MPS_CONNECTION_FAILED:
        case CUDA_ERROR_MPS_RPC_FAILURE:
        case CUDA_ERROR_MPS_SERVER_NOT_READY:
        case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
        case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
        case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        case CUDA_ERROR_UNKNOWN:
            return Severity::lost;
        default:
            return Severity::refused;
    }
}

bool is_in_use(int code) {
    switch (code) {
        case CUDA_ERROR_DEVICE_UNAVAILABLE:
        case CUDA_ERROR_MPS_CONNECTION_FAILED:
        case CUDA_ERROR_MPS_RPC_FAILURE:
        case CUDA_ERROR_MPS_SERVER_NOT_READY:
        case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
        case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
        case CUDA_ERROR_MPS_CLIENT_TERMINATED:
            return true;
        default:
            return false;
    }
}

std::string in_use_advice(int code) {
    switch (code) {
        case CUDA_ERROR_OUT_OF_MEMORY:
            return "wait until other processes have freed memory, end them, or choose another GPU with --device";
        case CUDA_ERROR_DEVICE_UNAVAILABLE:
            return "another process holds the GPU, whose compute mode is exclusive, or the mode prohibits computing: wait for "
                   "that "
                   "process, choose another GPU with --device, or allow several processes with `nvidia-smi -c DEFAULT`";
        case CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
        case CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED:
            return "the MPS server serves as many processes as it can: wait until one ends";
        default:
            return "the MPS daemon does not answer: start it with `nvidia-cuda-mps-control -d`, or unset CUDA_MPS_PIPE_DIRECTORY "
                   "and "
                   "stop its remains to work without MPS";
    }
}

bool is_the_kernels(int code) {
    switch (code) {
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED:
        case CUDA_ERROR_TENSOR_MEMORY_LEAK:
            return true;
        default:
            return DriverError(code, "", "").severity() == Severity::refused;
    }
}

std::string error_name(const Driver::Api& api, int code) {
    const char* name = nullptr;
    if (api.get_error_name != nullptr && api.get_error_name(static_cast<CUresult>(code), &name) == CUDA_SUCCESS &&
        name != nullptr) {
        return name;
    }
    return "error " + std::to_string(code);
}

void throw_if_failed(const Driver& driver, int code, const char* call) {
    if (code != CUDA_SUCCESS) throw DriverError(code, error_name(driver.api(), code), call);
}

}  // namespace autotune::gpu
