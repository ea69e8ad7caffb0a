#pragma once

#include <ostream>
#include <streambuf>
#include <string>

namespace autotune::cli {

// All of a command's standard output goes through this buffer. Names come from files, databases, the environment and drivers, and
// a terminal must show but not interpret them. In text it escapes what printable() would, except line ends, tabs and our own
// bold. In JSON, U+007F to U+009F, which strings may contain, become \u and four digits.
class PrintableBuffer : public std::streambuf {
  public:
    enum class Form { text, json };

    PrintableBuffer(std::ostream& out, Form form) : out_(out), form_(form) {}
    ~PrintableBuffer() override;
    PrintableBuffer(const PrintableBuffer&) = delete;
    PrintableBuffer& operator=(const PrintableBuffer&) = delete;

  protected:
    int_type overflow(int_type letter) override;
    std::streamsize xsputn(const char* letters, std::streamsize count) override;
    int sync() override;

  private:
    bool write_out(bool is_end);

    std::ostream& out_;
    Form form_;
    std::string pending_;
};

}  // namespace autotune::cli
