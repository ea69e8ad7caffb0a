#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "src/gpu/driver/driver.h"

namespace autotune::gpu {

// What belongs to which context and device, for callers who mix them up.

// The two halves of current_context(), for a caller who mostly needs the first. nullopt if no context is current.
std::optional<std::uint64_t> current_context_id(const Driver& driver);
int current_ordinal(const Driver& driver);

// Whether the stream is of another context than the current one; false where the driver does not say.
bool is_stream_of_another_context(const Driver& driver, StreamHandle stream) noexcept;

// What kernels of a context can reach, of a process with several devices: a kernel that is given an address of another device
// ends the context. The driver is asked once for each 2 MiB of addresses, and answers are kept in a table of fixed size.
// Thread-safe.
class Reach {
  public:
    // nullptr where there is one device: nothing can be mixed up.
    static std::unique_ptr<Reach> of(std::shared_ptr<const Driver> driver);

    // Whether the address was found to be in reach before.
    bool knows(std::uint64_t context_id, DeviceAddress address) const noexcept {
        const std::uint64_t tag = tag_of(context_id, address);
        return known_[slot_of(tag)].load(std::memory_order_relaxed) == tag;
    }
    // The device that the address is on, if that is another one and the current context cannot reach it; nullopt otherwise, and
    // then knows() is true from now on. Memory of pools and mapped memory may be opened to other devices in ways that the driver
    // does not tell of: they count as in reach. REQUIRES: `context_id` is the current context's.
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
