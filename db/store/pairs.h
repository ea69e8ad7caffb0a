#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace autotune::db {

using Pairs = std::vector<std::pair<std::string, std::int64_t>>;

// The canonical text of names and integers, in their order, as it is stored: "block_m=128 stages=3".
std::string pairs_to_text(const Pairs& pairs);
// The pairs of a text, or nullopt unless it is exactly what pairs_to_text makes of valid, distinct names.
std::optional<Pairs> pairs_from_text(std::string_view text);

std::string words_to_text(const std::vector<std::string>& words);  // "m n k"
std::vector<std::string> words_from_text(std::string_view text);

}  // namespace autotune::db
