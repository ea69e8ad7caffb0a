#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// What a compiler makes of a device text, without what only people read: the tokens with one space between them, each
// preprocessor directive on a line of its own. Comments, white space, line ends and the folders of included headers leave no
// trace. Placeholders
// (`${block_m}`) are parts of the tokens that they stand in.
//
// Some texts count as they are, character for character: those with a raw string literal, and those where white space stands
// between a backslash and the end of its line, which compilers do not agree on.
std::string code_of(std::string_view text);

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
    // included_headers() of it.
    const std::vector<std::string>& headers() const;

  private:
    struct State;
    const State& read() const;
    std::shared_ptr<State> state_;
};

}  // namespace autotune
