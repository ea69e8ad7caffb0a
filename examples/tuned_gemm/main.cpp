// C = A B in f16 by the fastest kernel that autotune knows: tuned_gemm [M N K]
#include <autotune/autotune.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda_driver.h"

namespace {

// Integers from -2 to 2 in f16: their products and sums are exact, so the results can be compared exactly.
std::vector<std::uint16_t> integers(std::size_t count, unsigned seed) {
    constexpr std::uint16_t words[] = {0xc000, 0xbc00, 0x0000, 0x3c00, 0x4000};
    std::vector<std::uint16_t> values(count);
    for (auto& value : values) {
        seed = seed * 1664525u + 1013904223u;
        value = words[(seed >> 16) % 5];
    }
    return values;
}

float to_float(std::uint16_t half) {
    const int exponent = (half >> 10) & 31;
    const float fraction = static_cast<float>(half & 1023) / 1024.0f;
    const float size = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0f + fraction, exponent - 15);
    return (half & 0x8000) != 0 ? -size : size;
}

struct Shape {
    std::int64_t m = 128, n = 128, k = 128;
};

bool is_right(const Shape& shape, const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b,
              const std::vector<std::uint16_t>& c) {
    const std::int64_t step = shape.m * shape.n / 64 + 1;  // checks some 64 elements, spread over the matrix
    for (std::int64_t at = 0; at < shape.m * shape.n; at += step) {
        const std::int64_t row = at / shape.n;
        const std::int64_t col = at % shape.n;
        float sum = 0;
        for (std::int64_t k = 0; k < shape.k; ++k)
            sum += to_float(a[static_cast<std::size_t>(row * shape.k + k)]) *
                   to_float(b[static_cast<std::size_t>(k * shape.n + col)]);
        const float got = to_float(c[static_cast<std::size_t>(at)]);
        if (std::fabs(got - sum) > 1e-3f * std::fabs(sum)) return false;  // f16 is exact up to 2048
    }
    return true;
}

int run(const Shape& shape) {
    autotune::Handle handle;  // throws AUTOTUNE_NO_GPU if there is none
    CudaDriver cuda;
    const auto a = integers(static_cast<std::size_t>(shape.m * shape.k), 1);
    const auto b = integers(static_cast<std::size_t>(shape.k * shape.n), 2);
    std::vector<std::uint16_t> c(static_cast<std::size_t>(shape.m * shape.n));
    void* const device_a = cuda.allocate(a.size() * 2);
    void* const device_b = cuda.allocate(b.size() * 2);
    void* const device_c = cuda.allocate(c.size() * 2);
    cuda.upload(device_a, a.data(), a.size() * 2);
    cuda.upload(device_b, b.data(), b.size() * 2);

    autotune::GemmProblem problem(shape.m, shape.n, shape.k);
    autotune::tuned_gemm(handle, problem, {device_a, device_b, device_c}, nullptr);
    cuda.synchronize();
    cuda.download(c.data(), device_c, c.size() * 2);

    problem.beta = AUTOTUNE_BETA_ZERO;  // tuned_gemm() used beta = 0, so this plan is the one that just ran
    const autotune::GemmPlan plan(handle, problem);
    std::printf("%lldx%lldx%lld: %s, origin %s\n", static_cast<long long>(shape.m), static_cast<long long>(shape.n),
                static_cast<long long>(shape.k), plan.candidate(), autotune_origin_string(plan.origin()));
    const bool right = is_right(shape, a, b, c);
    std::printf("%s\n", right ? "the answer is right" : "the answer is WRONG");
    for (void* memory : {device_a, device_b, device_c}) cuda.release(memory);
    return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Shape shape;
    if (argc == 4) shape = {std::atoll(argv[1]), std::atoll(argv[2]), std::atoll(argv[3])};
    try {
        return run(shape);
    } catch (const autotune::StatusError& error) {
        const bool no_gpu = error.status() == AUTOTUNE_NO_GPU;
        std::fprintf(stderr, "%s%s\n", no_gpu ? "no GPU: " : "", error.what());
        return no_gpu ? 3 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
