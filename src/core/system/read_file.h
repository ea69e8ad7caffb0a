#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace autotune {

// What was read of a file, or why nothing was.
struct FileContent {
    bool is_read = false;
    std::string text{};  // without the mark that editors put in front of UTF-8
    std::string why{};   // a clause: "No such file or directory", "it is a pipe, not a regular file", "it is larger than 16 MiB"
    int code = 0;        // errno behind `why`; 0: none
};

// Reads a whole regular file: all files that come from outside are read here. Never waits for the other end of a pipe, never
// reads from a device, never takes more than `most_bytes`. Throws std::bad_alloc alone.
FileContent read_regular_file(const std::string& path, std::size_t most_bytes);

// Without the mark that some editors put in front of UTF-8 text.
std::string_view without_mark(std::string_view text);

// The size as people write it where a limit is told: "16 MiB".
std::string bytes_text(std::size_t bytes);

}  // namespace autotune
