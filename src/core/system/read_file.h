#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace autotune {

// The content of a file, or why it could not be read.
struct FileContent {
    bool is_read = false;
    std::string text{};  // without the byte order mark that editors put in front of UTF-8
    std::string why{};   // a clause: "No such file or directory", "it is a pipe, not a regular file", "it is larger than 16 MiB"
    int code = 0;        // the errno that caused `why`, or 0
};

// Reads a whole regular file: all files that come from outside are read with this. Never waits for the other end of a pipe, never
// reads from a device, never reads more than `most_bytes`. Throws only std::bad_alloc.
FileContent read_regular_file(const std::string& path, std::size_t most_bytes);

// Without the byte order mark that some editors put in front of UTF-8 text.
std::string_view without_mark(std::string_view text);

// A size as people write a limit: "16 MiB".
std::string bytes_text(std::size_t bytes);

}  // namespace autotune
