#include "tools/cli/output/terminal/messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace autotune::cli {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
    return static_cast<unsigned char>(text[at]);
}

// Length of the UTF-8 character that begins at `at`, 0 if none does. Overlong forms and surrogates are accepted, because they do
// a terminal no harm.
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

// Whether the character is U+0000 to U+001F, U+007F, or U+0080 to U+009F, which terminals interpret like ESC sequences.
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

void append_printable(std::string& out, std::string_view text) {
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
}

}  // namespace

std::string printable(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    append_printable(out, text);
    return out;
}

std::string printable_lines(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const std::size_t plain = std::min(text.find_first_of("\n\t\x1b"), text.size());
        append_printable(out, text.substr(0, plain));
        text.remove_prefix(plain);
        if (text.empty()) break;
        const std::string_view ours = text.starts_with(kBold) ? kBold : text.starts_with(kPlain) ? kPlain : text.substr(0, 1);
        if (ours == "\x1b")
            append_printable(out, ours);
        else
            out += ours;
        text.remove_prefix(ours.size());
    }
    return out;
}

std::string printable_json(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size(); ++at) {
        const bool is_c1 = byte_at(text, at) == 0xC2 && at + 1 < text.size() && byte_at(text, at + 1) < 0xA0;
        if (is_c1 || byte_at(text, at) == 0x7F)
            out += fmt::format("\\u{:04x}", is_c1 ? byte_at(text, ++at) : 0x7F);
        else
            out += text[at];
    }
    return out;
}

std::size_t whole_characters(std::string_view text) {
    constexpr std::size_t kLongest = 4;  // the longest UTF-8 character and our longest escape sequence have this many bytes
    for (std::size_t back = 1; back <= std::min(kLongest - 1, text.size()); ++back) {
        const unsigned lead = byte_at(text, text.size() - back);
        const bool is_continued = lead >= 0x80 && lead < 0xC0;
        if (is_continued) continue;
        const bool may_be_cut = lead == 0x1B || (lead >= 0xC2 && character_bytes(text, text.size() - back) == 0);
        if (may_be_cut) return text.size() - back;
        if (lead >= 0x80) break;
    }
    return text.size();
}

void say(std::ostream& err, Message kind, std::string_view text) {
    const std::string_view front = kind == Message::error ? "autotune: " : kind == Message::warning ? "warning: " : "note: ";
    err << front << printable(text) << std::endl;
}

}  // namespace autotune::cli
