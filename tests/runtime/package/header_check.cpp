#include <autotune/autotune.hpp>

// The C++ header stands alone and is C++17.
std::size_t autotune_header_check_cpp() {
    return sizeof(autotune::GemmProblem) + sizeof(autotune::Options);
}
