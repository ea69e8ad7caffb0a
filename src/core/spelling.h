#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// How people spell the words of this product. Messages and stored rows have one spelling of each word; a person, a file or a
// binding may pass others.

// `text` without the blanks around it.
std::string_view trimmed(std::string_view text);

// The word of `allowed` that `text` is a spelling of. Spellings differ in case, in blanks around the word and in '-' for '_'; an
// element type can also have its names in torch, NumPy and C: "fp16", "half", "torch.bfloat16", "float8_e4m3fn". Text that is a
// spelling of none is returned trimmed.
std::string known_word(std::string_view text, const std::vector<std::string>& allowed);

// A shape with 'x' between its extents and without blanks: "64 X 64×64" becomes "64x64x64".
std::string plain_shape(std::string_view text);
// Whole numbers that are separated by something other than 'x', "64,64,64" or "64 64 64", as a shape; nullopt if `text` is not
// that.
std::optional<std::string> shape_with_x(std::string_view text, std::size_t extents);

// The word of `known` that was probably meant: the only one that begins with `word`, otherwise the nearest one. The nearest is at
// most one edit away for a word of 3 or 4 letters, two for up to 8, three for longer ones; an edit adds, removes or replaces a
// letter or exchanges two neighbours, and digits have to agree. Empty: none is similar, or `word` has fewer than 3 letters.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
// The text " (did you mean WORD?)", or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace autotune
