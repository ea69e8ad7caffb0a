#include <utility>

#include "src/gpu/driver/driver_api.h"

namespace autotune::gpu {

Context::Context(std::shared_ptr<const Driver> driver, int ordinal) : driver_(std::move(driver)) {
    const int count = driver_->device_count();
    if (ordinal < 0 || ordinal >= count) throw Error(ErrorCode::no_gpu, "no device " + std::to_string(ordinal));
    const Driver::Api& api = driver_->api();
    throw_if_failed(*driver_, api.device_get(&device_, ordinal), "cuDeviceGet");
    CUcontext raw = nullptr;
    throw_if_failed(*driver_, api.primary_ctx_retain(&raw, device_), "cuDevicePrimaryCtxRetain");
    raw_ = raw;
    if (const CUresult result = api.ctx_set_current(raw); result != CUDA_SUCCESS) {
        api.primary_ctx_release(device_);
        throw_if_failed(*driver_, result, "cuCtxSetCurrent");
    }
}

Context::~Context() {
    if (raw_ == nullptr) return;
    const Driver::Api& api = driver_->api();
    CUcontext current = nullptr;
    if (api.ctx_get_current(&current) == CUDA_SUCCESS && current == raw_) api.ctx_set_current(nullptr);
    api.primary_ctx_release(device_);
}

Context::Context(Context&& other) noexcept
    : driver_(std::move(other.driver_)), device_(other.device_), raw_(std::exchange(other.raw_, nullptr)) {}

void Context::make_current() const {
    throw_if_failed(*driver_, driver_->api().ctx_set_current(static_cast<CUcontext>(raw_)), "cuCtxSetCurrent");
}

void Context::synchronize() const {
    throw_if_failed(*driver_, driver_->api().ctx_synchronize(), "cuCtxSynchronize");
}

std::size_t Context::free_bytes() const {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    throw_if_failed(*driver_, driver_->api().mem_get_info(&free_bytes, &total_bytes), "cuMemGetInfo");
    return free_bytes;
}

std::optional<CurrentContext> current_context(const Driver& driver) {
    const Driver::Api& api = driver.api();
    CUcontext raw = nullptr;
    throw_if_failed(driver, api.ctx_get_current(&raw), "cuCtxGetCurrent");
    if (raw == nullptr) return std::nullopt;
    unsigned long long id = 0;
    throw_if_failed(driver, api.ctx_get_id(raw, &id), "cuCtxGetId");
    CUdevice device = 0;
    throw_if_failed(driver, api.ctx_get_device(&device), "cuCtxGetDevice");
    return CurrentContext{.id = id, .ordinal = device};
}

bool is_capturing(const Driver& driver, StreamHandle stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = driver.api().stream_is_capturing(stream, &status);
    // The driver refuses the query for the legacy stream while another stream of the context is captured, because work on it
    // would break that capture.
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return true;
    throw_if_failed(driver, result, "cuStreamIsCapturing");
    return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

RelaxedCapture::RelaxedCapture(const Driver& driver) : driver_(driver) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    throw_if_failed(driver_, driver_.api().exchange_capture_mode(&mode), "cuThreadExchangeStreamCaptureMode");
    previous_mode_ = static_cast<int>(mode);
}

RelaxedCapture::~RelaxedCapture() {
    auto mode = static_cast<CUstreamCaptureMode>(previous_mode_);
    driver_.api().exchange_capture_mode(&mode);
}

}  // namespace autotune::gpu
