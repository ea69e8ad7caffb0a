#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/gpu/driver/driver.h"

namespace autotune::gpu {

// Finds the context and the device of streams and addresses, to detect mistakes of callers.

// The two parts of current_context(), for callers who mostly need the first part. nullopt if no context is current.
std::optional<std::uint64_t> current_context_id(const Driver& driver);
int current_ordinal(const Driver& driver);

// Whether the stream belongs to another context than the current one; false if the driver cannot tell.
bool is_stream_of_another_context(const Driver& driver, StreamHandle stream) noexcept;

// The addresses that kernels of a context can reach, in a process with several devices: a kernel that accesses another device's
// memory breaks the context. The driver is called once per 2 MiB of addresses, and the answers are kept in a table of fixed size.
// Thread-safe.
class Reach {
  public:
    // nullptr if there is only one device.
    static std::unique_ptr<Reach> of(std::shared_ptr<const Driver> driver);

    // Whether the address is already known to be in reach.
    bool knows(std::uint64_t context_id, DeviceAddress address) const noexcept {
        const std::uint64_t tag = tag_of(context_id, address);
        return known_[slot_of(tag)].load(std::memory_order_relaxed) == tag;
    }
    // The device of the address if the current context cannot reach it; nullopt otherwise, and from then on knows() is true. Pool
    // memory and mapped memory count as in reach, because the driver does not report all ways in which they may be opened to
    // other devices. REQUIRES: `context_id` is the current context's.
    std::optional<int> beyond(std::uint64_t context_id, DeviceAddress address) noexcept;

    explicit Reach(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {}

  private:
    static constexpr int kGranuleBits = 21;
    static constexpr std::size_t kSlots = 1024;

    static std::uint64_t tag_of(std::uint64_t context_id, DeviceAddress address) noexcept {
        return (context_id * 0x9e3779b97f4a7c15U) ^ ((address >> kGranuleBits) + 1);
    }
    static std::size_t slot_of(std::uint64_t tag) noexcept { return static_cast<std::size_t>((tag * 0xff51afd7ed558ccdU) >> 54); }

    std::shared_ptr<const Driver> driver_;
    std::array<std::atomic<std::uint64_t>, kSlots> known_{};
};

}  // namespace autotune::gpu
