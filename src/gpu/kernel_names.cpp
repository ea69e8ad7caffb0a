#include "src/gpu/kernel_names.h"

#include <charconv>
#include <string_view>

namespace autotune::gpu {
namespace {

// The last bytes are the length of the names in 8 digits, then this mark. Each name ends with a line end, which no name contains.
constexpr std::string_view kMark = "ATNAMES1";
constexpr std::size_t kDigits = 8;

void append(std::vector<std::byte>& bytes, std::string_view text) {
    const auto* const first = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), first, first + text.size());
}

}  // namespace

std::vector<std::byte> with_kernel_names(std::vector<std::byte> image,
                                         const std::vector<std::pair<std::string, std::string>>& names) {
    if (names.empty()) return image;
    std::string text;
    for (const auto& [name, in_image] : names) text += name + "\n" + in_image + "\n";
    const std::string length = std::to_string(text.size());
    if (length.size() > kDigits) return image;
    append(image, text);
    append(image, std::string(kDigits - length.size(), '0') + length);
    append(image, kMark);
    return image;
}

std::map<std::string, std::string> kernel_names_of(std::span<const std::byte> image) {
    const std::string_view whole(reinterpret_cast<const char*>(image.data()), image.size());
    std::map<std::string, std::string> names;
    constexpr std::size_t kEnd = kDigits + kMark.size();
    if (whole.size() < kEnd || !whole.ends_with(kMark)) return names;
    const std::string_view digits = whole.substr(whole.size() - kEnd, kDigits);
    std::size_t length = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), length).ptr != digits.data() + digits.size()) return names;
    if (length > whole.size() - kEnd) return names;
    std::string_view left = whole.substr(whole.size() - kEnd - length, length);
    const auto line = [&] {
        const std::size_t end = std::min(left.find('\n'), left.size());
        std::string text(left.substr(0, end));
        left.remove_prefix(std::min(end + 1, left.size()));
        return text;
    };
    while (!left.empty()) {
        std::string name = line();
        names[std::move(name)] = line();
    }
    return names;
}

}  // namespace autotune::gpu
