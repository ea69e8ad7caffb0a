#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "src/core/system/file_descriptor.h"

namespace autotune {

// Writes a file so that a failure costs nothing: the text goes to a new file beside the one that is there, which takes its place
// when all of it is on the disk. Where something else than a file has the name (a pipe, /dev/stdout), the text goes straight to
// it. Members return what failed; nothing is thrown but std::bad_alloc. After a failure the others do nothing and return it
// again.
class FileWriter {
  public:
    // Whether the text has reached the disk when it is committed. Of many small files that can be made again it need not.
    enum class Durable { yes, no };

    explicit FileWriter(const std::string& path, Durable durable = Durable::yes);
    // Removes what was written, unless it was committed.
    ~FileWriter();
    FileWriter(const FileWriter&) = delete;
    FileWriter& operator=(const FileWriter&) = delete;

    std::error_code failure() const { return failure_; }
    std::error_code write(std::string_view text);
    // The file has its new content if this returns no error, and its old one otherwise.
    std::error_code commit();

  private:
    void open_beside(const std::string& target);
    void fail(int code) { failure_.assign(code, std::generic_category()); }

    std::string target_;      // after following symbolic links: the link stays
    std::string unfinished_;  // empty: written to directly
    Durable durable_;
    FileDescriptor file_;
    std::error_code failure_;
};

// All of it at once.
std::error_code replace_file(const std::string& path, std::string_view text,
                             FileWriter::Durable durable = FileWriter::Durable::yes);

// Whether a regular file with something in it has this name.
bool holds_something(const std::string& path);

// What replace_file() would fail with, found without a change to the file: before the work whose result it is to hold.
std::error_code why_not_writable(const std::string& path);

}  // namespace autotune
