#include "src/catalogue/hash.h"

#include <sodium.h>

namespace autotune {

struct Hash::State {
    crypto_generichash_state raw;
};

Hash::Hash() : state_(std::make_unique<State>()) {
    crypto_generichash_init(&state_->raw, nullptr, 0, std::tuple_size_v<Digest>);
}

Hash::~Hash() = default;

void Hash::field(std::string_view text) {
    field(std::as_bytes(std::span(text.data(), text.size())));
}

void Hash::field(std::span<const std::byte> bytes) {
    std::array<unsigned char, 8> length{};
    for (std::size_t i = 0; i < length.size(); ++i) length[i] = static_cast<unsigned char>((bytes.size() >> (8 * i)) & 0xff);
    crypto_generichash_update(&state_->raw, length.data(), length.size());
    crypto_generichash_update(&state_->raw, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

void Hash::raw(std::string_view text) {
    crypto_generichash_update(&state_->raw, reinterpret_cast<const unsigned char*>(text.data()), text.size());
}

Hash::Digest Hash::digest() {
    Digest digest{};
    crypto_generichash_final(&state_->raw, digest.data(), digest.size());
    return digest;
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string hex;
    hex.reserve(bytes.size() * 2);
    for (const std::uint8_t byte : bytes) {
        hex += digits[byte >> 4];
        hex += digits[byte & 15];
    }
    return hex;
}

}  // namespace autotune
