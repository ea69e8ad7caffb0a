#pragma once

#include <string>

namespace autotune::cli {

// Throws Error{usage} naming `flag` if the file could not be written: before the work whose result it is to hold. An existing
// file is left as it is, and none is left where there was none.
void require_writable(const std::string& path, const std::string& flag);

// Replaces the file, which keeps what it holds where that fails. Throws Error{usage} naming `flag`.
void write_output(const std::string& path, const std::string& text, const std::string& flag);

}  // namespace autotune::cli
