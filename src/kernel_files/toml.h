#pragma once

#include <stdexcept>

// toml++ 3.3 asserts if it finds a control character in a table's header, and without assertions it continues in an invalid
// state. Here its assertions throw exceptions, in every build.
namespace autotune::kernel_files {
[[noreturn]] inline void toml_assertion() {
    throw std::logic_error("an assertion of toml++");
}
}  // namespace autotune::kernel_files
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? static_cast<void>(0) : ::autotune::kernel_files::toml_assertion())
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")
