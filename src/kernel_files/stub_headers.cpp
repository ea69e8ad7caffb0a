#include "src/kernel_files/stub_headers.h"

#include <array>
#include <utility>

namespace autotune::kernel_files {
namespace {

constexpr std::string_view kPrelude = R"(#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned int uint;
typedef unsigned long long uintptr_t;
typedef long long intptr_t;
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38F
#define FLT_MIN 1.175494351e-38F
#define FLT_EPSILON 1.192092896e-07F
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#endif
#ifndef INT_MAX
#define CHAR_BIT 8
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 0xffffffffU
#define LLONG_MAX 9223372036854775807LL
#define ULLONG_MAX 0xffffffffffffffffULL
#endif
)";

constexpr std::string_view kAlgorithm = R"(#pragma once
namespace std {
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr void swap(T& a, T& b) { T c = a; a = b; b = c; }
}
)";

constexpr std::string_view kLimits = R"(#pragma once
namespace std {
template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
    __host__ __device__ static constexpr float max() { return FLT_MAX; }
    __host__ __device__ static constexpr float min() { return FLT_MIN; }
    __host__ __device__ static constexpr float lowest() { return -FLT_MAX; }
    __host__ __device__ static constexpr float epsilon() { return FLT_EPSILON; }
    __host__ __device__ static constexpr float infinity() { return __builtin_huge_valf(); }
};
template <> struct numeric_limits<double> {
    __host__ __device__ static constexpr double max() { return DBL_MAX; }
    __host__ __device__ static constexpr double min() { return DBL_MIN; }
    __host__ __device__ static constexpr double lowest() { return -DBL_MAX; }
    __host__ __device__ static constexpr double epsilon() { return DBL_EPSILON; }
    __host__ __device__ static constexpr double infinity() { return __builtin_huge_val(); }
};
template <> struct numeric_limits<int> {
    __host__ __device__ static constexpr int max() { return INT_MAX; }
    __host__ __device__ static constexpr int min() { return INT_MIN; }
    __host__ __device__ static constexpr int lowest() { return INT_MIN; }
};
template <> struct numeric_limits<unsigned int> {
    __host__ __device__ static constexpr unsigned int max() { return UINT_MAX; }
    __host__ __device__ static constexpr unsigned int min() { return 0; }
    __host__ __device__ static constexpr unsigned int lowest() { return 0; }
};
}
)";

constexpr std::string_view kTypeTraits = R"(#pragma once
namespace std {
template <class T, T v> struct integral_constant { static constexpr T value = v; };
using true_type = integral_constant<bool, true>;
using false_type = integral_constant<bool, false>;
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <bool c, class A, class B> struct conditional { using type = A; };
template <class A, class B> struct conditional<false, A, B> { using type = B; };
template <bool c, class A, class B> using conditional_t = typename conditional<c, A, B>::type;
template <bool c, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { using type = T; };
template <bool c, class T = void> using enable_if_t = typename enable_if<c, T>::type;
}
)";

constexpr std::string_view kCmath = R"(#pragma once
namespace std {
using ::sqrt; using ::exp; using ::log; using ::pow; using ::fabs; using ::floor; using ::ceil; using ::sin; using ::cos;
using ::tan; using ::tanh; using ::fmin; using ::fmax; using ::fma; using ::isnan; using ::isinf; using ::abs;
}
)";

constexpr std::string_view kNothing = "#pragma once\n";  // an empty header, because the prelude or NVRTC has its contents

constexpr std::array<std::pair<std::string_view, std::string_view>, 38> kStubs = {{
    {"algorithm", kAlgorithm},
    {"utility", kAlgorithm},
    {"limits", kLimits},
    {"type_traits", kTypeTraits},
    {"cmath", kCmath},
    {"math.h", kNothing},
    {"cstdint", kNothing},
    {"stdint.h", kNothing},
    {"inttypes.h", kNothing},
    {"cstddef", kNothing},
    {"stddef.h", kNothing},
    {"cfloat", kNothing},
    {"float.h", kNothing},
    {"climits", kNothing},
    {"limits.h", kNothing},
    {"cstdio", kNothing},
    {"stdio.h", kNothing},
    {"cstdlib", kNothing},
    {"stdlib.h", kNothing},
    {"cstring", kNothing},
    {"string.h", kNothing},
    {"cassert", kNothing},
    {"assert.h", kNothing},
    {"iostream", kNothing},
    {"cuda.h", kNothing},
    {"cuda_runtime.h", kNothing},
    {"cuda_runtime_api.h", kNothing},
    {"device_launch_parameters.h", kNothing},
    // Libraries that host code calls. Kernels of other people include them at the top of their files.
    {"cublas.h", kNothing},
    {"cublas_v2.h", kNothing},
    {"cublasLt.h", kNothing},
    {"cusparse.h", kNothing},
    {"cufft.h", kNothing},
    {"cudnn.h", kNothing},
    {"cuda_profiler_api.h", kNothing},
    {"nvToolsExt.h", kNothing},
    {"nvtx3/nvToolsExt.h", kNothing},
    {"time.h", kNothing},
}};

}  // namespace

std::string_view prelude() {
    return kPrelude;
}

std::string_view stub_header(std::string_view name) {
    for (const auto& [known, text] : kStubs)
        if (known == name) return text;
    return {};
}

}  // namespace autotune::kernel_files
