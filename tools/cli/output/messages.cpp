#include "tools/cli/output/messages.h"

#include <fmt/format.h>

namespace autotune::cli {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]);
}

// Length of the UTF-8 character that begins at `at`, 0 if none does. Overlong forms and surrogates pass: they do a terminal no
// harm.
std::size_t character_bytes(std::string_view text, std::size_t at) {
    const unsigned lead = byte_at(text, at);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xC2 && lead < 0xE0 ? 2
                               : lead >= 0xE0 && lead < 0xF0 ? 3
                               : lead >= 0xF0 && lead < 0xF5 ? 4
                                                             : 0;
    if (length == 0 || at + length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte_at(text, at + i) & 0xC0) != 0x80) return 0;
    }
    return length;
}

// U+0000 to U+001F, U+007F, and U+0080 to U+009F, which terminals obey as they obey ESC.
bool is_control(std::string_view text, std::size_t at, std::size_t length) {
    const unsigned lead = byte_at(text, at);
    return length == 1 ? lead < 0x20 || lead == 0x7F : length == 2 && lead == 0xC2 && byte_at(text, at + 1) < 0xA0;
}

void append_escaped(std::string& out, unsigned byte) {
    switch (byte) {
        case '\n':
            out += "\\n";
            return;
        case '\r':
            out += "\\r";
            return;
        case '\t':
            out += "\\t";
            return;
        default:
            out += fmt::format("\\x{:02x}", byte);
    }
}

}  // namespace

std::string printable(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = character_bytes(text, at);
        const std::size_t taken = length == 0 ? 1 : length;
        if (length != 0 && !is_control(text, at, length)) {
            out += text.substr(at, length);
        } else {
            for (std::size_t i = 0; i < taken; ++i) append_escaped(out, byte_at(text, at + i));
        }
        at += taken;
    }
    return out;
}

void say(std::ostream& err, Message kind, std::string_view text) {
    err << (kind == Message::error ? "autotune: " : "warning: ") << printable(text) << std::endl;
}

}  // namespace autotune::cli
