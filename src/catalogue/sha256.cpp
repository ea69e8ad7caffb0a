#include "src/catalogue/sha256.h"

#include <sodium/crypto_hash_sha256.h>

#include <array>
#include <cstdint>

#include "src/catalogue/hash.h"

namespace autotune {

std::string sha256_hex(std::string_view bytes) {
    std::array<std::uint8_t, crypto_hash_sha256_BYTES> digest{};
    crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    return to_hex(digest);
}

}  // namespace autotune
