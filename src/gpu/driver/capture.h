#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "src/gpu/driver/driver.h"

namespace autotune::gpu {

// A capture that goes on on a stream. Streams that were joined to one capture have the same id; ids are not reused.
struct ActiveCapture {
    std::uint64_t id = 0;
    void* graph = nullptr;  // CUgraph, the driver's: valid until the capture ends
};
// nullopt if the stream is not being captured. Throws DriverError, also for the legacy stream while another stream of the context
// is captured (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT): work on it would break that capture.
std::optional<ActiveCapture> active_capture(const Driver& driver, StreamHandle stream);

// Calls `released` when the captured graph, its clones and all that was instantiated from them are destroyed and have run for
// the last time, also where the capture fails. It is called on a thread of the driver and must call nothing of CUDA.
void call_when_destroyed(const Driver& driver, const ActiveCapture& capture, std::function<void()> released);

// Zeroes device memory before what is enqueued on the stream from now on; does not wait.
void zero_on(const Driver& driver, StreamHandle stream, DeviceAddress address, std::size_t bytes);

// Zeroes device memory on a stream of its own and waits for it. Under RelaxedCapture it disturbs no capture.
void zero_beside(std::shared_ptr<const Driver> driver, DeviceAddress address, std::size_t bytes);

}  // namespace autotune::gpu
