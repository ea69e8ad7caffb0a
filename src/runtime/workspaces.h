#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "src/gpu/driver.h"
#include "src/runtime/insert_only_map.h"

namespace autotune::runtime {

struct Workspace {
    void* address = nullptr;
    std::size_t bytes = 0;
};

// Scratch memory by context and stream, so that two streams never share one. It grows on demand and is given back at destruction
// alone: a graph that was captured with a block keeps using it. Thread-safe; finding a block that is large enough takes no lock.
class Workspaces {
  public:
    explicit Workspaces(std::shared_ptr<const gpu::Driver> driver) : driver_(std::move(driver)) {}

    struct Request {
        std::uint64_t context_id = 0;
        gpu::StreamHandle stream = nullptr;
        const void* owner = nullptr;  // a plan that needs zeroed bytes has a block of its own
        std::size_t bytes = 0;
        std::size_t zero_bytes = 0;
    };
    // REQUIRES: the context is current. Throws DriverError{out_of_memory}, and Failure{not planned} where zeroing would break a
    // capture.
    Workspace get(const Request& request);

  private:
    struct Key {
        std::uint64_t context_id = 0;
        std::uintptr_t stream = 0;
        std::uintptr_t owner = 0;
        std::size_t thread = 0;
        bool operator==(const Key&) const = default;
        std::size_t hash() const noexcept;
    };
    static Key key_of(const Request& request) noexcept;

    std::shared_ptr<const gpu::Driver> driver_;
    InsertOnlyMap<Key, Workspace> map_;
    std::mutex mutex_;
    std::deque<gpu::Buffer> buffers_;
};

}  // namespace autotune::runtime
