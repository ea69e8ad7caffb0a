#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// What a compiler makes of a device text, without what only people read: the tokens with one space between them, each
// preprocessor directive on a line of its own. Comments, white space, line ends, a byte order mark and the folders of headers in
// quotes leave no trace. Placeholders (`${block_m}`) are parts of the tokens that they stand in.
//
// Some texts count as they are, character for character: those with a raw string literal; those with a macro that makes strings
// of arguments (`#x`) of more than one token, or with a word that tells a line or a file (`__LINE__`, `assert`); and those that
// compilers do not agree on or that spell an operator in another way: white space between a backslash and the end of its line, a
// carriage return alone, `%:` and its like.
std::string code_of(std::string_view text);

// Whether a macro of the text makes strings of arguments as they are spelled, and is given one of more than a token or is left
// for other texts to use: white space then counts in all texts that are compiled with this one.
bool shows_spelling(std::string_view text);

// The headers that a text names in `#include "..."`, in its order, with their folders.
std::vector<std::string> included_headers(std::string_view text);

// "types.cuh" of "common/types.cuh".
std::string_view base_name(std::string_view path);

// A device text with the hash of its code, which is computed when it is first asked for: a microsecond takes some 200 characters,
// and most programs need few of the texts. Copies share it. Thread-safe.
class DeviceText {
  public:
    explicit DeviceText(std::string text);

    const std::string& text() const;
    // 64 hex digits.
    const std::string& code_hash() const;
    bool shows_spelling() const;
    // The hash that counts where this text is compiled together with others: code_hash(), or that of the whole text where one of
    // them shows_spelling().
    std::string hash_among(bool some_shows_spelling) const;
    // included_headers() of it.
    const std::vector<std::string>& headers() const;

  private:
    struct State;
    const State& read() const;
    std::shared_ptr<State> state_;
};

}  // namespace autotune
