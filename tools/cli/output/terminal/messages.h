#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace autotune::cli {

enum class Message { error, warning, note };

// All messages to standard error go through this function: one line, "autotune: TEXT", "warning: TEXT" or "note: TEXT", made
// printable.
void say(std::ostream& err, Message kind, std::string_view text);

// Escapes text from outside (an argument, a file's name, a compiler's log) to one line that a terminal shows but does not
// interpret: control characters become \n, \t or \x1b, bytes that are not UTF-8 become \x and two digits.
std::string printable(std::string_view text);
// Makes several lines printable. Line ends and tabs stay, and so do the two sequences with which the command writes bold.
std::string printable_lines(std::string_view text);
// Makes JSON text printable. It stays valid JSON: U+007F to U+009F become \u and four digits.
std::string printable_json(std::string_view text);
// How many bytes of the text can be made printable before the rest is known: without a character or sequence that is cut at the
// end.
std::size_t whole_characters(std::string_view text);

inline constexpr std::string_view kBold = "\x1b[1m", kPlain = "\x1b[0m";

}  // namespace autotune::cli
