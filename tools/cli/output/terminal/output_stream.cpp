#include "tools/cli/output/terminal/output_stream.h"

#include <unistd.h>

#include <cerrno>

namespace autotune::cli {

OutputBuffer::OutputBuffer(int descriptor) : descriptor_(descriptor) {
    setp(letters_.data(), letters_.data() + letters_.size());
}

OutputBuffer::~OutputBuffer() {
    write_out();
}

bool OutputBuffer::write_out() {
    for (const char* from = pbase(); from < pptr() && failure_ == 0;) {
        const ssize_t written = ::write(descriptor_, from, static_cast<std::size_t>(pptr() - from));
        if (written >= 0) {
            from += written;
        } else if (errno != EINTR) {
            failure_ = errno;
        }
    }
    setp(letters_.data(), letters_.data() + letters_.size());
    return failure_ == 0;
}

OutputBuffer::int_type OutputBuffer::overflow(int_type letter) {
    if (!write_out()) return traits_type::eof();
    if (!traits_type::eq_int_type(letter, traits_type::eof())) sputc(traits_type::to_char_type(letter));
    return traits_type::not_eof(letter);
}

int OutputBuffer::sync() {
    return write_out() ? 0 : -1;
}

}  // namespace autotune::cli
