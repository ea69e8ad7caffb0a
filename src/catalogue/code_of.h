#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// The code of a device text as a compiler sees it: the tokens with one space between them, each preprocessor directive on a line
// of its own. Comments, white space, line ends, a byte order mark and the folders of headers in quotes are removed. Placeholders
// (`${block_m}`) are parts of the tokens that contain them.
//
// Some texts are returned unchanged: those with a raw string literal; those with a macro that turns arguments of more than one
// token into strings (`#x`), or with a word that yields a line or a file (`__LINE__`, `assert`); and those that compilers read
// differently or that use alternative spellings: white space between a backslash and the end of its line, a carriage return
// alone, `%:` and the like.
std::string code_of(std::string_view text);

// Whether white space may become part of a string. It may if a macro of the text turns an argument into a string as it is
// spelled, and if that argument has more than one token or other texts can use the macro. Then white space counts in all texts
// that are compiled with this one.
bool shows_spelling(std::string_view text);

// The headers that a text names in `#include "..."`, in its order, with their folders.
std::vector<std::string> included_headers(std::string_view text);

// The last part of a path, such as "types.cuh" of "common/types.cuh".
std::string_view base_name(std::string_view path);

// A device text with the hash of its code, which is computed at the first use: some 200 characters take a microsecond, and most
// programs need few of the texts. Copies share it. Thread-safe.
class DeviceText {
  public:
    explicit DeviceText(std::string text);

    const std::string& text() const;
    // 64 hex digits.
    const std::string& code_hash() const;
    bool shows_spelling() const;
    // The hash of this text when it is compiled with others: code_hash(), or the hash of the raw text if one of them
    // shows_spelling().
    std::string hash_among(bool some_shows_spelling) const;
    // included_headers() of it.
    const std::vector<std::string>& headers() const;

  private:
    struct State;
    const State& read() const;
    std::shared_ptr<State> state_;
};

}  // namespace autotune
