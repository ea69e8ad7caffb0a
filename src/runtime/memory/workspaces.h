#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "src/gpu/driver/borrowed_context.h"
#include "src/gpu/driver/capture.h"
#include "src/gpu/driver/driver.h"
#include "src/runtime/memory/insert_only_map.h"
#include "src/runtime/process/background.h"

namespace autotune::runtime {

struct Workspace {
    void* address = nullptr;
    std::size_t bytes = 0;
};

// Scratch memory. Each stream of a context has one arena, and so has each stream of a captured graph: two streams or two graphs
// never share one. All plans of a stream use its arena, because they run one after another. It is as large as the largest plan
// needs. Its counters, which plans find zero and leave zero, lie below the scratch of all plans. Thread-safe; finding an arena
// that is large enough takes no lock outside captures.
//
// A stream's arena grows by allocating another of twice the size. All are freed only at destruction, because pending work may use
// the outgrown one. A graph's arena is freed once the graph and everything made from it are destroyed: by a thread of the
// library, because the driver's callback that reports this may not call CUDA. A capture that comes first reuses the arena.
class Workspaces {
  public:
    explicit Workspaces(std::shared_ptr<const gpu::Driver> driver) : driver_(std::move(driver)) {}
    ~Workspaces();
    Workspaces(const Workspaces&) = delete;
    Workspaces& operator=(const Workspaces&) = delete;

    struct Request {
        std::uint64_t context_id = 0;
        gpu::StreamHandle stream = nullptr;
        std::size_t bytes = 0;
        std::size_t zero_bytes = 0;  // the leading bytes, which must be zero before the first use
    };
    // REQUIRES: the context is current. Throws DriverError{out_of_memory}.
    Workspace get(const Request& request);

    // Whether get() would allocate nothing. REQUIRES: the stream is not being captured.
    bool holds(const Request& request) const;

    // Allocates an arena of the current context ahead, so that a call does not wait for the driver. The first stream whose own
    // arena is missing or too small for its request takes it. The arena has at least the size of the request and twice the size
    // of its stream's present arena, on which nothing is enqueued. Does nothing if holds(request). While the driver allocates, no
    // lock is held that get() takes. Throws DriverError{out_of_memory}.
    void reserve(const Request& request);

    std::size_t bytes() const;  // of all arenas

  private:
    // Counters end at `split` and scratch begins there: a plan with `zero_bytes` of counters gets the address that many bytes
    // before.
    struct Arena {
        gpu::DeviceAddress split = 0;
        std::size_t counter_bytes = 0;
        std::size_t scratch_bytes = 0;

        bool holds(const Request& request) const;
        bool holds(const Arena& other) const;
        Workspace part_for(const Request& request) const;
    };
    struct Key {
        std::uint64_t context_id = 0;
        std::uintptr_t stream = 0;
        std::size_t thread = 0;  // set for the per-thread default stream
        bool operator==(const Key&) const = default;
        std::size_t hash() const noexcept;
    };
    struct GraphArena {
        Arena arena;
        gpu::Buffer buffer;
        gpu::BorrowedContext context;
        std::shared_ptr<std::atomic<bool>> is_free;  // set by the driver when the graph is gone
        Key key{};
        std::uint64_t capture_id = 0;
    };
    // Receives the driver's callbacks about destroyed graphs, which may come while the Workspaces are being destroyed.
    struct CallbackTarget {
        std::mutex mutex;
        Workspaces* owner = nullptr;
    };
    struct Reserved {
        std::uint64_t context_id = 0;
        Arena arena;
    };
    static Key key_of(const Request& request) noexcept;
    // How counters are zeroed: on the request's stream, if it is not captured, or at once.
    enum class Zeroing : std::uint8_t { in_stream, beside };
    // An arena with its memory.
    struct NewMemory {
        Arena arena;
        gpu::Buffer buffer;
    };
    // At least as large as the request needs and twice as large as `outgrown`.
    NewMemory make(const Request& request, const Arena* outgrown, Zeroing zeroing) const;
    // REQUIRES: mutex_ is held.
    Arena keep(NewMemory made);
    // nullptr if none is large enough and larger than `outgrown`, which may be nullptr. REQUIRES: mutex_ is held.
    const Reserved* reserved_for(const Request& request, const Arena* outgrown) const;
    // A reserved one if it is large enough, else a new one. REQUIRES: mutex_ is held.
    Arena next_of_stream(const Request& request, const Arena* outgrown);
    Workspace of_stream(const Request& request);
    Workspace of_capture(const Request& request, const gpu::ActiveCapture& capture);
    GraphArena& free_graph_arena(const Request& request);
    void hear_of_free_arena();
    void give_back_free_arenas();
    static void give_back(GraphArena& arena, const gpu::Driver& driver);

    std::shared_ptr<const gpu::Driver> driver_;
    InsertOnlyMap<Key, Arena> of_streams_;
    std::mutex reserving_;  // while one thread allocates, others wait here and then find its result; taken before mutex_
    mutable std::mutex mutex_;
    std::list<GraphArena> of_graphs_;
    std::vector<Reserved> reserved_;
    std::deque<gpu::Buffer> buffers_;  // of streams
    std::shared_ptr<CallbackTarget> callback_target_ = std::make_shared<CallbackTarget>();
    Background giving_back_{1};  // the last member, because its thread uses the others
};

}  // namespace autotune::runtime
