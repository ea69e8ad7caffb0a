#include "src/gpu/driver/capture.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "src/gpu/driver/driver_api.h"

namespace autotune::gpu {
namespace {

using Released = std::function<void()>;

void CUDA_CB call_and_forget(void* payload) {
    const std::unique_ptr<Released> released(static_cast<Released*>(payload));
    (*released)();
}

}  // namespace

std::optional<ActiveCapture> active_capture(const Driver& driver, StreamHandle stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    throw_if_failed(driver, driver.api().stream_get_capture_info(stream, &status, &id, &graph, nullptr, nullptr),
                    "cuStreamGetCaptureInfo");
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) return std::nullopt;
    if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        throw_if_failed(driver, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamGetCaptureInfo");
    return ActiveCapture{id, graph};
}

void call_when_destroyed(const Driver& driver, const ActiveCapture& capture, Released released) {
    auto payload = std::make_unique<Released>(std::move(released));
    CUuserObject object = nullptr;
    throw_if_failed(
        driver, driver.api().user_object_create(&object, payload.get(), call_and_forget, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
        "cuUserObjectCreate");
    static_cast<void>(payload.release());
    const CUresult result =
        driver.api().graph_retain_user_object(static_cast<CUgraph>(capture.graph), object, 1, CU_GRAPH_USER_OBJECT_MOVE);
    if (result == CUDA_SUCCESS) return;
    driver.api().user_object_release(object, 1);
    throw_if_failed(driver, result, "cuGraphRetainUserObject");
}

void zero_on(const Driver& driver, StreamHandle stream, DeviceAddress address, std::size_t bytes) {
    throw_if_failed(driver, driver.api().memset_d8_async(address, 0, bytes, stream), "cuMemsetD8Async");
}

void zero_beside(std::shared_ptr<const Driver> driver, DeviceAddress address, std::size_t bytes) {
    // The driver executes a larger memset as a kernel, and kernels that alternate between two streams slow down all later
    // launches of the caller's context (docs/measuring.md).
    constexpr std::size_t kNoKernel = 4096;
    const Stream stream(driver);
    for (std::size_t at = 0; at < bytes; at += kNoKernel)
        zero_on(*driver, stream.handle(), address + at, std::min(kNoKernel, bytes - at));
    stream.synchronize();
}

}  // namespace autotune::gpu
