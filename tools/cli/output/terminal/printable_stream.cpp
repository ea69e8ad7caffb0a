#include "tools/cli/output/terminal/printable_stream.h"

#include "tools/cli/output/terminal/messages.h"

namespace autotune::cli {
namespace {

constexpr std::size_t kPendingBytes = 1 << 14;

}  // namespace

PrintableBuffer::~PrintableBuffer() {
    write_out(true);
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type letter) {
    if (traits_type::eq_int_type(letter, traits_type::eof())) return traits_type::not_eof(letter);
    pending_ += traits_type::to_char_type(letter);
    const bool goes_on = pending_.size() < kPendingBytes || write_out(false);
    return goes_on ? letter : traits_type::eof();
}

std::streamsize PrintableBuffer::xsputn(const char* letters, std::streamsize count) {
    pending_.append(letters, static_cast<std::size_t>(count));
    const bool goes_on = pending_.size() < kPendingBytes || write_out(false);
    return goes_on ? count : 0;
}

int PrintableBuffer::sync() {
    if (!write_out(true)) return -1;
    out_.flush();
    return out_ ? 0 : -1;
}

// An incomplete character or sequence is kept until the rest arrives.
bool PrintableBuffer::write_out(bool is_end) {
    const std::size_t whole = is_end ? pending_.size() : whole_characters(pending_);
    const std::string_view text = std::string_view(pending_).substr(0, whole);
    out_ << (form_ == Form::json ? printable_json(text) : printable_lines(text));
    pending_.erase(0, whole);
    return out_.good();
}

}  // namespace autotune::cli
