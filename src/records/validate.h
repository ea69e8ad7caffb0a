#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/records/winner.h"

namespace autotune::records {

// The checks that every row must pass, whoever made it: the tuner, an import, another database, or a file someone edited. Whether
// a config is in its family's space is checked by callers who have the catalogue.
inline constexpr std::size_t kMaxName = 64;
inline constexpr std::size_t kMaxClassKey = 512;
inline constexpr std::size_t kMaxText = 256;
inline constexpr std::size_t kMaxDetail = 4000;
inline constexpr std::size_t kMaxExtents = 8;  // columns e0..e7
inline constexpr std::size_t kMaxParameters = 64;
inline constexpr std::size_t kMaxFinalists = 64;
inline constexpr std::size_t kMaxFailures = 32;
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;

// Letters, digits and _, with no digit first. Macros of users' kernels have such names too.
bool is_parameter_name(std::string_view text);
// ^[a-z][a-z0-9_]{0,63}$; for families several such words, separated by slashes.
bool is_name(std::string_view text);
bool is_family_name(std::string_view text);
// Printable ASCII without quotes or backslashes, 1 to 512 characters, starting with a name.
bool is_class_key(std::string_view text);
// No control characters, at most `limit` bytes, valid UTF-8.
bool is_text(std::string_view text, std::size_t limit = kMaxText);
// `text` changed so that it passes is_text: cut to the limit, unprintable characters replaced.
std::string cleaned(std::string_view text, std::size_t limit = kMaxText);

// The winner with its texts cut and cleaned, so that rows of the tuner itself are not refused, for example because of a device
// name from the driver.
Winner tidied(Winner winner);
// The winner without finalists and failures, which are its largest part.
Winner brief(const Winner& winner);

// The first thing wrong with the row: "extent m is -1, outside 0 to 2^40"; nullopt if all is in range.
std::optional<std::string> why_invalid(const Winner& winner);
std::optional<std::string> why_invalid(const Config& config);
std::optional<std::string> why_invalid(const DeviceIdentity& device);
std::optional<std::string> why_invalid_key(const Winner& winner);  // Checks only op, class, extents and device.

}  // namespace autotune::records
