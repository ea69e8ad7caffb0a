// c = a + b in f32, then a += b, by the fastest kernel that autotune knows: tuned_add [LENGTH]
#include <autotune/autotune.hpp>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cuda_driver.h"

namespace {

int run(std::int64_t length) {
    autotune::Handle handle;  // throws AUTOTUNE_NO_GPU if there is none
    CudaDriver cuda;
    const std::size_t bytes = static_cast<std::size_t>(length) * sizeof(float);
    std::vector<float> a(static_cast<std::size_t>(length)), b(a.size()), c(a.size()), twice(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = static_cast<float>(i % 1000);
        b[i] = static_cast<float>(i % 7) / 8;
    }
    void* const device_a = cuda.allocate(bytes);
    void* const device_b = cuda.allocate(bytes);
    void* const device_c = cuda.allocate(bytes);
    cuda.upload(device_a, a.data(), bytes);
    cuda.upload(device_b, b.data(), bytes);

    const autotune::AddProblem problem(length);
    autotune::tuned_add(handle, problem, {device_a, device_b, device_c}, nullptr);
    autotune::tuned_add(handle, problem, {device_a, device_b, device_a}, nullptr);  // in place
    cuda.synchronize();
    cuda.download(c.data(), device_c, bytes);
    cuda.download(twice.data(), device_a, bytes);

    const autotune::AddPlan plan(handle, problem);  // run() looks nothing up: this plan is the one that just ran
    std::printf("%lld: %s, origin %s\n", static_cast<long long>(length), plan.candidate(), autotune_origin_string(plan.origin()));
    bool right = true;
    for (std::size_t i = 0; i < a.size(); ++i) right = right && c[i] == a[i] + b[i] && twice[i] == c[i];
    std::printf("%s\n", right ? "the answer is right" : "the answer is WRONG");
    for (void* memory : {device_a, device_b, device_c}) cuda.release(memory);
    return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc == 2 ? std::atoll(argv[1]) : 1000003);
    } catch (const autotune::StatusError& error) {
        const bool no_gpu = error.status() == AUTOTUNE_NO_GPU;
        std::fprintf(stderr, "%s%s\n", no_gpu ? "no GPU: " : "", error.what());
        return no_gpu ? 3 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
