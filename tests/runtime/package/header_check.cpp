#include <autotune/autotune.hpp>

// The C++ header compiles alone, as C++17.
std::size_t autotune_header_check_cpp() {
    return sizeof(autotune::GemmProblem) + sizeof(autotune::Options);
}
