#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "src/gpu/driver/driver.h"

namespace autotune::gpu {

// A stream's capture that is in progress. Streams that joined the same capture have the same id, and ids are not reused.
struct ActiveCapture {
    std::uint64_t id = 0;
    void* graph = nullptr;  // CUgraph, owned by the driver: valid until the capture ends
};
// nullopt if the stream is not being captured. Throws DriverError; also for the legacy stream while another stream of the context
// is captured (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT), because work on it would break that capture.
std::optional<ActiveCapture> active_capture(const Driver& driver, StreamHandle stream);

// Calls `released` once the captured graph, its clones and everything instantiated from them are destroyed and have run for the
// last time, or the capture has failed. It runs on a thread of the driver and must not call CUDA.
void call_when_destroyed(const Driver& driver, const ActiveCapture& capture, std::function<void()> released);

// Zeroes device memory in stream order; does not wait.
void zero_on(const Driver& driver, StreamHandle stream, DeviceAddress address, std::size_t bytes);

// Zeroes device memory on a stream of its own and waits for it. Under RelaxedCapture it disturbs no capture.
void zero_beside(std::shared_ptr<const Driver> driver, DeviceAddress address, std::size_t bytes);

}  // namespace autotune::gpu
