#pragma once

#include <stdexcept>

// toml++ 3.3 asserts where it meets a control character in a table's header, and in a build without assertions goes on with what
// it took for granted. Here an assertion of its is an exception, in every build.
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
