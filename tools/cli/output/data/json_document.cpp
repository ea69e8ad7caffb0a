#include "tools/cli/output/data/json_document.h"

#include "src/core/error.h"

namespace autotune::cli {

void JsonDocument::add(const std::string& object) {
    check(is_array_ || written_ == 0, "a command prints one JSON document");
    if (is_array_) out_ << (written_ == 0 ? "[\n" : ",\n");
    out_ << object;
    if (!is_array_) out_ << "\n";
    ++written_;
    out_.flush();
}

void JsonDocument::finish() {
    if (is_array_) out_ << (written_ == 0 ? "[]\n" : "\n]\n");
    is_array_ = false;
}

}  // namespace autotune::cli
