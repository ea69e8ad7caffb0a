#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotune::kernel_files {

// The text with comments replaced by blanks, and with `no_literals` strings and characters too. Lengths and line ends are kept.
std::string blanked(std::string_view text, bool no_literals);

// A __global__ function that a text defines.
struct KernelFound {
    std::string name;
    std::size_t global_at = 0;  // offset of the word __global__
    bool is_extern_c = false;
    bool is_template = false;
    std::size_t parameters = 0;
};
std::vector<KernelFound> kernels_in(std::string_view text);

// The text with `extern "C"` in front of those of the named kernels that lack it, so that the driver finds them. Line numbers are
// kept.
std::string with_c_names(const std::string& text, const std::vector<std::string>& names);

// Whether the code contains the word as an identifier.
bool mentions(std::string_view code, std::string_view word);

// Whether the code declares this name itself: as a word after another one, or by assigning to it. Then it must not become a
// macro.
bool declares(std::string_view code, std::string_view word);

// The code without the blocks between `#ifndef AUTOTUNE` and their `#else` or `#endif`, which autotune never compiles.
std::string seen_by_autotune(std::string_view code);

struct IncludeFound {
    std::string name;
    bool is_quoted = false;
    std::size_t line = 0;
};
std::vector<IncludeFound> includes_in(std::string_view text);

std::size_t line_of(std::string_view text, std::size_t at);

}  // namespace autotune::kernel_files
