#pragma once

#include <array>
#include <functional>
#include <streambuf>
#include <string>

#include "src/core/system/file_descriptor.h"

namespace autotune::cli {

// A file, a pipe or a terminal to read from. Reading ends when the user asks to stop, even while no data arrives.
class InputFile : public std::streambuf {
  public:
    // Throws Error{usage} naming the file if it cannot be read. `stopped` is called whenever more is read; `waits` is called
    // once, with a sentence, if no data arrives for two seconds.
    InputFile(const std::string& path, std::function<bool()> stopped, std::function<void(const std::string&)> waits = {});

    // Whether it can be read again from its start: a pipe or a terminal cannot.
    bool is_regular() const;

  protected:
    int_type underflow() override;

  private:
    bool wait_for_more();  // false: stopped

    std::array<char, 1 << 16> letters_;
    std::string path_;
    std::function<bool()> stopped_;
    std::function<void(const std::string&)> waits_;  // empty if it was called already, or was not given
    FileDescriptor file_;
};

}  // namespace autotune::cli
