#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/gpu/driver.h"
#include "tuner/harness.h"

namespace autotune::tuner {

// Device memory between two red zones, at an address that is aligned to exactly what the problem promises: a kernel that assumes
// more, or writes outside, is found out.
class GuardedBuffer {
  public:
    static constexpr std::size_t kZoneBytes = 64 * 1024;

    GuardedBuffer() = default;
    // `alignment_bytes` 16 or more: no offset from the zone's end.
    GuardedBuffer(std::shared_ptr<const gpu::Driver> driver, std::size_t bytes, int alignment_bytes = 16)
        : offset_(kZoneBytes + (alignment_bytes < 16 ? static_cast<std::size_t>(alignment_bytes) : 0)),
          bytes_(bytes),
          memory_(std::move(driver), offset_ + bytes + kZoneBytes) {
        memory_.fill_bytes(kRedzoneByte);
    }

    gpu::DeviceAddress address() const { return memory_.address() + offset_; }
    std::size_t bytes() const { return bytes_; }
    const gpu::Buffer& memory() const { return memory_; }
    gpu::Buffer& memory() { return memory_; }
    std::size_t offset() const { return offset_; }
    Region contents() const { return {address(), bytes_}; }
    // The red zones before and after; none if there is no memory.
    std::vector<Region> zones() const {
        if (memory_.bytes() == 0) return {};
        return {{memory_.address(), offset_}, {address() + bytes_, memory_.bytes() - offset_ - bytes_}};
    }

  private:
    std::size_t offset_ = 0;
    std::size_t bytes_ = 0;
    gpu::Buffer memory_;
};

}  // namespace autotune::tuner
