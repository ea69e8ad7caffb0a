#pragma once

#include <string>

namespace autotune::cli {

// Throws Error{usage} naming `flag` if the file cannot be written; called before the work whose result it will hold. An existing
// file stays unchanged, and no new file remains.
void require_writable(const std::string& path, const std::string& flag);

// Replaces the file; if that fails, its content stays. Throws Error{usage} naming `flag`.
void write_output(const std::string& path, const std::string& text, const std::string& flag);

}  // namespace autotune::cli
