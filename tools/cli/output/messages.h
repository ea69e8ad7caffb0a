#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace autotune::cli {

enum class Message { error, warning };

// The only way to standard error for what a person is told: one line, "autotune: TEXT" or "warning: TEXT", made printable.
void say(std::ostream& err, Message kind, std::string_view text);

// Text from outside (an argument, a file's name, a compiler's log) in one line that a terminal shows and does not obey: control
// characters become \n, \t or \x1b, bytes that are not UTF-8 become \x and two digits.
std::string printable(std::string_view text);

}  // namespace autotune::cli
