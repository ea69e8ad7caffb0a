#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/jit/cubin_cache.h"

namespace autotune::jit {

// The bytes of a cache file: magic, version, then length-prefixed symbol, identity, report and cubin, then a checksum of
// everything before it.
std::vector<std::byte> encode_cubin_file(const Compiled& compiled);
// nullopt unless the bytes are exactly a file of this version with this identity and a matching checksum.
std::optional<Compiled> decode_cubin_file(std::span<const std::byte> bytes, const std::string& identity);

}  // namespace autotune::jit
