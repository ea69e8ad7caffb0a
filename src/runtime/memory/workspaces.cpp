#include "src/runtime/memory/workspaces.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <thread>

#include "src/runtime/process/no_cancel.h"

namespace autotune::runtime {
namespace {

constexpr std::size_t kAlignment = 256;            // the alignment of a workspace and of its parts
constexpr std::size_t kLeastCounterBytes = 16384;  // 4,096 tiles
constexpr std::uintptr_t kPerThreadStream = 2;     // CU_STREAM_PER_THREAD, a handle that means a different stream on every thread

std::size_t rounded(std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Bytes of a request's counters, with the padding before its scratch.
std::size_t counter_bytes(const Workspaces::Request& request) {
    return rounded(request.zero_bytes);
}

std::size_t scratch_bytes(const Workspaces::Request& request) {
    const std::size_t counters = counter_bytes(request);
    return request.bytes > counters ? request.bytes - counters : 0;
}

}  // namespace

std::size_t Workspaces::Key::hash() const noexcept {
    std::uint64_t hash = context_id * 0x9e3779b97f4a7c15U;
    for (const std::uint64_t word : {std::uint64_t{stream}, std::uint64_t{thread}}) {
        hash ^= word;
        hash *= 0xff51afd7ed558ccdU;
        hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
}

Workspaces::Key Workspaces::key_of(const Request& request) noexcept {
    const auto stream = reinterpret_cast<std::uintptr_t>(request.stream);
    const std::size_t thread = stream == kPerThreadStream ? std::hash<std::thread::id>{}(std::this_thread::get_id()) : 0;
    return {request.context_id, stream, thread};
}

bool Workspaces::Arena::holds(const Request& request) const {
    return counter_bytes >= runtime::counter_bytes(request) && scratch_bytes >= runtime::scratch_bytes(request);
}

bool Workspaces::Arena::holds(const Arena& other) const {
    return counter_bytes >= other.counter_bytes && scratch_bytes >= other.scratch_bytes;
}

Workspace Workspaces::Arena::part_for(const Request& request) const {
    const gpu::DeviceAddress address = split - runtime::counter_bytes(request);
    return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), request.bytes};
}

Workspaces::NewMemory Workspaces::make(const Request& request, const Arena* outgrown, Zeroing zeroing) const {
    const auto grown = [&](std::size_t wanted, std::size_t before) {
        return before >= wanted ? before : std::max(wanted, 2 * before);
    };
    Arena arena;
    arena.counter_bytes = std::max(kLeastCounterBytes, grown(counter_bytes(request), outgrown ? outgrown->counter_bytes : 0));
    arena.scratch_bytes = rounded(grown(scratch_bytes(request), outgrown ? outgrown->scratch_bytes : 0));
    const gpu::RelaxedCapture relaxed(*driver_);
    gpu::Buffer buffer(driver_, arena.counter_bytes + arena.scratch_bytes);
    if (zeroing == Zeroing::in_stream)
        gpu::zero_on(*driver_, request.stream, buffer.address(), arena.counter_bytes);
    else
        gpu::zero_beside(driver_, buffer.address(), arena.counter_bytes);
    arena.split = buffer.address() + arena.counter_bytes;
    return {arena, std::move(buffer)};
}

Workspaces::Arena Workspaces::keep(NewMemory made) {
    buffers_.push_back(std::move(made.buffer));
    return made.arena;
}

const Workspaces::Reserved* Workspaces::reserved_for(const Request& request, const Arena* outgrown) const {
    const auto is_enough = [&](const Reserved& each) {
        return each.context_id == request.context_id && each.arena.holds(request) && (!outgrown || each.arena.holds(*outgrown));
    };
    const auto found = std::find_if(reserved_.begin(), reserved_.end(), is_enough);
    return found == reserved_.end() ? nullptr : &*found;
}

bool Workspaces::holds(const Request& request) const {
    if (request.bytes == 0) return true;
    const Arena* const found = of_streams_.find(key_of(request));
    if (found != nullptr && found->holds(request)) return true;
    const std::lock_guard lock(mutex_);
    return reserved_for(request, found) != nullptr;
}

void Workspaces::reserve(const Request& request) {
    const std::lock_guard reserving(reserving_);
    if (holds(request)) return;
    NewMemory made = make(request, of_streams_.find(key_of(request)), Zeroing::beside);
    const std::lock_guard lock(mutex_);
    reserved_.reserve(reserved_.size() + 1);
    reserved_.push_back({request.context_id, keep(std::move(made))});
}

Workspaces::Arena Workspaces::next_of_stream(const Request& request, const Arena* outgrown) {
    const Reserved* const found = reserved_for(request, outgrown);
    if (found == nullptr) return keep(make(request, outgrown, Zeroing::in_stream));
    const Arena arena = found->arena;
    reserved_.erase(reserved_.begin() + (found - reserved_.data()));
    return arena;
}

Workspace Workspaces::get(const Request& request) {
    if (const auto capture = gpu::active_capture(*driver_, request.stream)) return of_capture(request, *capture);
    return of_stream(request);
}

Workspace Workspaces::of_stream(const Request& request) {
    const Key key = key_of(request);
    if (const Arena* found = of_streams_.find(key); found != nullptr && found->holds(request)) return found->part_for(request);
    const NoCancel no_cancel;
    const std::lock_guard lock(mutex_);
    const Arena* found = of_streams_.find(key);
    if (found == nullptr || !found->holds(request)) found = of_streams_.assign(key, next_of_stream(request, found));
    return found->part_for(request);
}

Workspaces::~Workspaces() {
    const std::lock_guard lock(callback_target_->mutex);
    callback_target_->owner = nullptr;
}

// The driver calls this on a thread of its own, or in a call of the caller that destroys a graph.
void Workspaces::hear_of_free_arena() {
    try {
        giving_back_.add([this] { give_back_free_arenas(); });
    } catch (...) {
        // If there is no memory or no thread, the arena is given back at the next capture or at the end.
    }
}

void Workspaces::give_back_free_arenas() {
    std::list<GraphArena> unused;
    {
        const std::lock_guard lock(mutex_);
        for (auto at = of_graphs_.begin(); at != of_graphs_.end();) {
            const auto next = std::next(at);
            if (at->is_free->load(std::memory_order_acquire)) unused.splice(unused.end(), of_graphs_, at);
            at = next;
        }
    }
    for (GraphArena& each : unused) give_back(each, *driver_);
}

// If the context is gone, its memory is too, and the address may belong to another allocation.
void Workspaces::give_back(GraphArena& arena, const gpu::Driver& driver) {
    try {
        arena.context.make_current();
    } catch (const gpu::DriverError&) {
        static_cast<void>(new gpu::Buffer(std::move(arena.buffer)));
        return;
    }
    const gpu::RelaxedCapture relaxed(driver);  // other threads may be capturing
    arena.buffer = gpu::Buffer();
}

// An arena whose graph is destroyed, or a new one. REQUIRES: mutex_ is held.
Workspaces::GraphArena& Workspaces::free_graph_arena(const Request& request) {
    for (GraphArena& each : of_graphs_)
        if (each.is_free->load(std::memory_order_acquire) && each.key.context_id == request.context_id &&
            each.arena.holds(request))
            return each;
    NewMemory made = make(request, nullptr, Zeroing::beside);
    of_graphs_.push_back(
        {made.arena, std::move(made.buffer), gpu::BorrowedContext(driver_), std::make_shared<std::atomic<bool>>(true)});
    return of_graphs_.back();
}

Workspace Workspaces::of_capture(const Request& request, const gpu::ActiveCapture& capture) {
    const NoCancel no_cancel;
    const Key key = key_of(request);
    giving_back_.start();  // The thread starts here, because the driver's callback must not start it.
    const std::lock_guard lock(mutex_);
    for (const GraphArena& each : of_graphs_)
        if (!each.is_free->load(std::memory_order_acquire) && each.capture_id == capture.id && each.key == key &&
            each.arena.holds(request))
            return each.arena.part_for(request);
    GraphArena& chosen = free_graph_arena(request);
    {
        const std::lock_guard hearing(callback_target_->mutex);
        callback_target_->owner = this;
    }
    gpu::call_when_destroyed(*driver_, capture, [is_free = chosen.is_free, ear = callback_target_] {
        is_free->store(true, std::memory_order_release);
        const std::lock_guard hearing(ear->mutex);
        if (ear->owner != nullptr) ear->owner->hear_of_free_arena();
    });
    chosen.is_free->store(false, std::memory_order_release);
    chosen.key = key;
    chosen.capture_id = capture.id;
    return chosen.arena.part_for(request);
}

std::size_t Workspaces::bytes() const {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const gpu::Buffer& buffer : buffers_) bytes += buffer.bytes();
    for (const GraphArena& each : of_graphs_) bytes += each.buffer.bytes();
    return bytes;
}

}  // namespace autotune::runtime
