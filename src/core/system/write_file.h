#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "src/core/system/file_descriptor.h"

namespace autotune {

// Writes a file so that a failure does no damage: the text goes to a new file next to the existing one, and replaces it when all
// of it is on the disk. If the name is not a regular file (a pipe, /dev/stdout), the text is written directly to it. Members
// return errors; nothing but std::bad_alloc is thrown. After a failure the others do nothing and return the same error.
class FileWriter {
  public:
    // Whether commit() waits until the text has reached the disk. Not needed for many small files that can be made again.
    enum class Durable { yes, no };

    explicit FileWriter(const std::string& path, Durable durable = Durable::yes);
    // Removes the unfinished file, unless it was committed.
    ~FileWriter();
    FileWriter(const FileWriter&) = delete;
    FileWriter& operator=(const FileWriter&) = delete;

    std::error_code failure() const { return failure_; }
    std::error_code write(std::string_view text);
    // If this returns no error the file has its new content, otherwise its old one.
    std::error_code commit();

  private:
    void open_beside(const std::string& target);
    void fail(int code) { failure_.assign(code, std::generic_category()); }

    std::string target_;      // the file to which a symbolic link leads; the link stays
    std::string unfinished_;  // empty: the target is written directly
    Durable durable_;
    FileDescriptor file_;
    std::error_code failure_;
};

// Writes all of the text at once.
std::error_code replace_file(const std::string& path, std::string_view text,
                             FileWriter::Durable durable = FileWriter::Durable::yes);

// Whether a regular file with this name exists and is not empty.
bool holds_something(const std::string& path);

// The error that replace_file() would return, found without changing the file: for a check before the work whose result the file
// is to hold.
std::error_code why_not_writable(const std::string& path);

}  // namespace autotune
