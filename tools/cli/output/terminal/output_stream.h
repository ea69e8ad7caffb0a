#pragma once

#include <array>
#include <streambuf>

namespace autotune::cli {

// Writes to a descriptor and remembers why a write failed: for the command a reader that went away is not an error, a full disk
// is.
class OutputBuffer : public std::streambuf {
  public:
    // Does not own the descriptor.
    explicit OutputBuffer(int descriptor);
    ~OutputBuffer() override;
    OutputBuffer(const OutputBuffer&) = delete;
    OutputBuffer& operator=(const OutputBuffer&) = delete;

    // errno of the first write that failed; 0: none did. Nothing is written after a failure.
    int failure() const { return failure_; }

  protected:
    int_type overflow(int_type letter) override;
    int sync() override;

  private:
    bool write_out();

    std::array<char, 1 << 16> letters_;
    int descriptor_;
    int failure_ = 0;
};

}  // namespace autotune::cli
