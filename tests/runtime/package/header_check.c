#include <autotune/autotune.h>

/* The header is C: this file compiles as C99 with -Wpedantic, and a zeroed problem is a struct that one can fill. */
size_t autotune_header_check_c(void) {
    autotune_gemm_problem problem;
    problem.struct_size = sizeof(problem);
    return problem.struct_size;
}
