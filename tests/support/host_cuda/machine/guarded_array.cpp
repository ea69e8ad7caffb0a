#include "tests/support/host_cuda/machine/guarded_array.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/core/error.h"

namespace autotune::test::host_cuda {
namespace {

constexpr std::size_t kPage = 4096;
// Protected bytes on either side; many, because wrong accesses miss by more than a byte
constexpr std::size_t kGuard = 16 * kPage;
constexpr std::byte kMargin{0xA5};

}  // namespace

GuardedArray::GuardedArray(std::size_t bytes, std::size_t alignment, Side side) : size_(bytes) {
    const std::size_t open_bytes = (bytes + kPage - 1) / kPage * kPage;
    mapped_ = open_bytes + 2 * kGuard;
    void* const memory = ::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED, "there is no memory for an array of " + std::to_string(bytes) + " bytes");
    memory_ = static_cast<std::byte*>(memory);
    check(open_bytes == 0 || ::mprotect(memory_ + kGuard, open_bytes, PROT_READ | PROT_WRITE) == 0, "mprotect failed");
    data_ = memory_ + kGuard + (side == Side::end ? (open_bytes - bytes) / alignment * alignment : 0);
    std::fill(open().begin(), open().end(), kMargin);
}

GuardedArray::~GuardedArray() {
    if (memory_ != nullptr) ::munmap(memory_, mapped_);
}

GuardedArray::GuardedArray(GuardedArray&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), mapped_(other.mapped_), data_(other.data_), size_(other.size_) {}

std::span<std::byte> GuardedArray::open() const {
    return {memory_ + kGuard, mapped_ - 2 * kGuard};
}

bool GuardedArray::is_whole() const {
    const auto is_margin = [](std::byte each) { return each == kMargin; };
    return std::all_of(open().data(), data_, is_margin) && std::all_of(data_ + size_, open().data() + open().size(), is_margin);
}

std::optional<std::string> GuardedArray::place_of(const void* address) const {
    const auto* const at = static_cast<const std::byte*>(address);
    if (at < memory_ || at >= memory_ + mapped_) return std::nullopt;
    if (at < data_) return std::to_string(data_ - at) + " bytes before the begin";
    if (at < data_ + size_) return std::to_string(at - data_) + " bytes behind the begin";
    return std::to_string(at - (data_ + size_)) + " bytes behind the end";
}

}  // namespace autotune::test::host_cuda
