#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace autotune::test::host_cuda {

// An array between protected pages: an access beyond its end, or before its beginning, is a fault on the side where the array
// touches that page. The remaining bytes on the other side hold a pattern, which is_whole() checks.
class GuardedArray {
  public:
    enum class Side { begin, end };  // the end at which the array touches a protected page

    // `alignment` (a power of two up to 16) divides the address.
    GuardedArray(std::size_t bytes, std::size_t alignment, Side side);
    ~GuardedArray();
    GuardedArray(GuardedArray&& other) noexcept;
    GuardedArray(const GuardedArray&) = delete;
    GuardedArray& operator=(const GuardedArray&) = delete;

    std::span<std::byte> bytes() const { return {data_, size_}; }
    bool is_whole() const;
    // "12 bytes behind the end" for an address on the array's pages, nullopt for other addresses.
    std::optional<std::string> place_of(const void* address) const;

  private:
    std::span<std::byte> open() const;  // The array and its margins, all of which are accessible.

    std::byte* memory_ = nullptr;
    std::size_t mapped_ = 0;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace autotune::test::host_cuda
