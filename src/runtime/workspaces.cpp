#include "src/runtime/workspaces.h"

#include <algorithm>
#include <functional>
#include <thread>

#include "src/runtime/status.h"

namespace autotune::runtime {
namespace {

// CU_STREAM_PER_THREAD: one handle that is another stream on every thread.
constexpr std::uintptr_t kPerThreadStream = 2;

}  // namespace

std::size_t Workspaces::Key::hash() const noexcept {
    std::uint64_t hash = context_id * 0x9e3779b97f4a7c15U;
    for (const std::uint64_t word : {std::uint64_t{stream}, std::uint64_t{owner}, std::uint64_t{thread}}) {
        hash ^= word;
        hash *= 0xff51afd7ed558ccdU;
        hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
}

Workspaces::Key Workspaces::key_of(const Request& request) noexcept {
    const auto stream = reinterpret_cast<std::uintptr_t>(request.stream);
    const std::size_t thread = stream == kPerThreadStream ? std::hash<std::thread::id>{}(std::this_thread::get_id()) : 0;
    const auto owner = request.zero_bytes == 0 ? 0 : reinterpret_cast<std::uintptr_t>(request.owner);
    return {request.context_id, stream, owner, thread};
}

Workspace Workspaces::get(const Request& request) {
    const Key key = key_of(request);
    if (const Workspace* found = map_.find(key); found != nullptr && found->bytes >= request.bytes) return *found;

    const std::lock_guard lock(mutex_);
    const Workspace* found = map_.find(key);
    if (found != nullptr && found->bytes >= request.bytes) return *found;
    if (request.zero_bytes > 0 && gpu::is_capturing(*driver_, request.stream))
        throw Failure(
            AUTOTUNE_NOT_PLANNED,
            "this problem's workspace must be zeroed, which cannot be done during a capture; run it once on the stream before");
    const gpu::RelaxedCapture relaxed(*driver_);
    // Twice the old size, so that a stream that meets ever larger problems keeps few outgrown blocks.
    gpu::Buffer buffer(driver_, std::max(request.bytes, found == nullptr ? 0 : 2 * found->bytes));
    if (request.zero_bytes > 0) buffer.fill_bytes(0);
    const Workspace made{reinterpret_cast<void*>(static_cast<std::uintptr_t>(buffer.address())), buffer.bytes()};
    buffers_.push_back(std::move(buffer));
    return *map_.assign(key, made);
}

}  // namespace autotune::runtime
