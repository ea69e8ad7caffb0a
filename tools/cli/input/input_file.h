#pragma once

#include <array>
#include <functional>
#include <streambuf>
#include <string>

#include "src/core/system/file_descriptor.h"

namespace autotune::cli {

// A file, a pipe or a terminal to read from that ends when the user asks to stop, also while nothing comes.
class InputFile : public std::streambuf {
  public:
    // Throws Error{usage} naming the file where it cannot be read. `stopped` is asked whenever more is read; `waits` hears once,
    // with a sentence, that nothing has come for two seconds.
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
    std::function<void(const std::string&)> waits_;  // empty: it was told, or nobody listens
    FileDescriptor file_;
};

}  // namespace autotune::cli
