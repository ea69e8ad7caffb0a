#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace autotune::test::host_cuda {

// An array between pages that nobody may touch: an access beyond its end, or before its begin, is a fault where the array touches
// that page. The bytes that are left over on the other side hold a pattern, which is_whole() looks at.
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
    // "12 bytes behind the end" of an address on the array's pages, nullopt for others.
    std::optional<std::string> place_of(const void* address) const;

  private:
    std::span<std::byte> open() const;  // the array and its margins

    std::byte* memory_ = nullptr;
    std::size_t mapped_ = 0;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace autotune::test::host_cuda
