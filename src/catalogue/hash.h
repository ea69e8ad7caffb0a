#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace autotune {

// BLAKE2b with 32 bytes of output, computed over fields. Each field is preceded by its length, so moving a byte from one field to
// the next changes the hash.
class Hash {
  public:
    using Digest = std::array<std::uint8_t, 32>;

    Hash();
    ~Hash();
    Hash(const Hash&) = delete;
    Hash& operator=(const Hash&) = delete;

    void field(std::string_view text);
    void field(std::span<const std::byte> bytes);
    // Without its length.
    void raw(std::string_view text);
    // Ends the hash; call it once.
    Digest digest();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// Lower-case hexadecimal, two characters a byte.
std::string to_hex(std::span<const std::uint8_t> bytes);

}  // namespace autotune
