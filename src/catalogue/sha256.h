#pragma once

#include <string>
#include <string_view>

namespace autotune {

// SHA-256 of the bytes, as 64 hex digits: for digests that other programs compute too.
std::string sha256_hex(std::string_view bytes);

}  // namespace autotune
