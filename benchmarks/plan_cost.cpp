// Measures what a plan costs the host if its kernel is loaded already (benchmarks/README.md).
#include <time.h>

#include <algorithm>
#include <atomic>
#include <autotune/autotune.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/core/error.h"
#include "src/gpu/driver/driver.h"

namespace autotune::plan_cost {
namespace {

struct Options {
    int shapes = 200;
    int n = 4096, k = 4096;  // the extents of the weight matrix
    const char* database = "";
    const char* shipped = nullptr;
    const char* cache = "";  // a folder of cubins, so that the second handle compiles nothing
    bool is_warm = false;    // whether all instances for the weight matrix are loaded first
    int weights = 0;  // the number of first calls in the background, each with another weight matrix; 0: row counts of one matrix
    int largest = 16384;  // N and K of those matrices
    int seed = 2;         // seed of those matrices
    autotune_beta beta = AUTOTUNE_BETA_ANY;
};

// Counts the compilations for a plan.
struct Compiles {
    std::atomic<int> count{0};
    static void hear(void* user, autotune_log_level, const char* message) {
        if (std::strncmp(message, "compiling ", 10) == 0) ++static_cast<Compiles*>(user)->count;
    }
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char* value = argv[i + 1];
        if (std::strcmp(argv[i], "--shapes") == 0) {
            options.shapes = std::atoi(value);
        } else if (std::strcmp(argv[i], "--database") == 0) {
            options.database = value;
        } else if (std::strcmp(argv[i], "--shipped") == 0) {
            options.shipped = value;
        } else if (std::strcmp(argv[i], "--cache") == 0) {
            options.cache = value;
        } else if (std::strcmp(argv[i], "--warm") == 0) {
            options.is_warm = std::strcmp(value, "1") == 0;
        } else if (std::strcmp(argv[i], "--weights") == 0) {
            options.weights = std::atoi(value);
        } else if (std::strcmp(argv[i], "--largest") == 0) {
            options.largest = std::atoi(value);
        } else if (std::strcmp(argv[i], "--seed") == 0) {
            options.seed = std::atoi(value);
        } else if (std::strcmp(argv[i], "--beta") == 0 && std::strcmp(value, "zero") == 0) {
            options.beta = AUTOTUNE_BETA_ZERO;
        } else if (std::strcmp(argv[i], "--weight") != 0 || std::sscanf(value, "%dx%d", &options.n, &options.k) != 2) {
            throw Error(ErrorCode::usage, std::string(argv[i]) + " " + value + " is no option of plan_cost");
        }
    }
    if (argc % 2 == 0 || options.shapes < 1 || options.n < 1 || options.k < 1 || options.largest < 64)
        throw Error(ErrorCode::usage,
                    "usage: plan_cost [--shapes N] [--weight NxK] [--beta zero] [--database FILE] [--shipped FOLDER] "
                    "[--cache FOLDER] [--warm 1] [--weights N [--largest N] [--seed N]]");
    return options;
}

double now_us(clockid_t clock) {
    timespec now{};
    ::clock_gettime(clock, &now);
    return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// The time of one plan: wall time, and processor time of this thread, which other load on the machine does not increase.
struct Cost {
    double us = 0;
    double processor_us = 0;
};

template <typename Work>
Cost cost_of(Work work) {
    const double begun_us = now_us(CLOCK_MONOTONIC);
    const double begun_processor_us = now_us(CLOCK_THREAD_CPUTIME_ID);
    work();
    return {now_us(CLOCK_MONOTONIC) - begun_us, now_us(CLOCK_THREAD_CPUTIME_ID) - begun_processor_us};
}

// An m x n x k product in bf16, with B in the usual layout of weights.
GemmProblem problem_of(const Options& options, int m) {
    GemmProblem problem(m, options.n, options.k);
    problem.ab_type = problem.c_type = AUTOTUNE_BF16;
    problem.trans_b = 1;
    problem.beta = options.beta;
    return problem;
}

Cost plan_cost(const Handle& handle, const Options& options, int m) {
    const GemmProblem problem = problem_of(options, m);
    return cost_of([&] { const GemmPlan plan(handle, problem); });
}

// p50 and p99 of one clock.
void print_clock(std::vector<double> us) {
    std::sort(us.begin(), us.end());
    const auto at = [&](double part) { return us[static_cast<std::size_t>(part * static_cast<double>(us.size() - 1))]; };
    std::printf(" %10.1f %10.1f", at(0.5), at(0.99));
}

void print(const char* name, const std::vector<Cost>& costs) {
    if (costs.empty()) return;
    std::vector<double> us, processor_us;
    for (const Cost& cost : costs) {
        us.push_back(cost.us);
        processor_us.push_back(cost.processor_us);
    }
    std::printf("%-28s %5zu", name, costs.size());
    print_clock(us);
    print_clock(processor_us);
    std::printf("\n");
}

// Opens a handle that reports every compilation.
Handle open(const Options& options, autotune_on_miss on_miss, Compiles& compiles) {
    autotune::Options settings;
    settings.database = options.database;
    settings.shipped = options.shipped;
    settings.cache_folder = options.cache;
    settings.on_miss = on_miss;
    settings.log = &Compiles::hear;
    settings.log_user = &compiles;
    return Handle(settings);
}

// 1 to 8191.
int rows_of(const Options& options, int i) {
    return 1 + i * 8191 / options.shapes;
}

// Calls the one-call forms with new shapes. Each call runs a loaded kernel, and the library's threads make the plan.
void run_in_background(const Options& options, const std::shared_ptr<const gpu::Driver>& driver) {
    Compiles compiles;
    const Handle handle = open(options, AUTOTUNE_ON_MISS_BACKGROUND, compiles);
    const auto elements = [&](std::size_t rows, int columns) { return 2 * rows * static_cast<std::size_t>(columns); };
    const gpu::Buffer a(driver, elements(8192, options.k)), b(driver, elements(static_cast<std::size_t>(options.n), options.k)),
        c(driver, elements(8192, options.n));
    const auto pointer = [](const gpu::Buffer& buffer) { return reinterpret_cast<void*>(buffer.address()); };
    const gpu::Stream stream(driver);
    const auto call = [&](int m) {
        return cost_of([&] {
            tuned_gemm(handle, problem_of(options, m), {pointer(a), pointer(b), pointer(c)}, stream.handle());
        });
    };
    std::vector<Cost> apart, in_a_row, later;
    const auto begin_another = [&](int i) { return rows_of(options, i) + 1; };
    for (int i = 0; i < options.shapes; ++i) {
        apart.push_back(call(rows_of(options, i)));
        autotune_finish(handle.get());
    }
    for (int i = 0; i < options.shapes; ++i) in_a_row.push_back(call(begin_another(i)));
    autotune_finish(handle.get());
    for (int i = 0; i < options.shapes; ++i) later.push_back(call(rows_of(options, i)));
    stream.synchronize();
    print("in background, threads idle", apart);
    print("in background, threads busy", in_a_row);
    print("in background, later calls", later);
}

// A random problem: log-uniform extents (M in 1..16384, N and K in 64..`largest`), half of them in multiples of 8, all layouts,
// f16 and bf16.
GemmProblem drawn(std::mt19937_64& random, int largest) {
    const auto chance = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    const bool is_aligned = chance() < 0.5;
    const auto extent = [&](double low, double high) {
        const auto value = static_cast<std::int64_t>(std::exp(std::log(low) + chance() * std::log(high / low)));
        return is_aligned ? (value + 7) / 8 * 8 : value;
    };
    const std::int64_t m = extent(1, 16384), n = extent(64, largest);
    GemmProblem problem(m, n, extent(64, largest));
    problem.ab_type = problem.c_type = chance() < 0.5 ? AUTOTUNE_BF16 : AUTOTUNE_F16;
    problem.trans_a = chance() < 0.5 ? 1 : 0;
    problem.trans_b = chance() < 0.5 ? 1 : 0;
    return problem;
}

// Makes first calls with new weight matrices, one after the other, while the library's threads make the plans for earlier ones.
void run_weights(const Options& options, const std::shared_ptr<const gpu::Driver>& driver) {
    Compiles compiles;
    const Handle handle = open(options, AUTOTUNE_ON_MISS_BACKGROUND, compiles);
    const auto elements = [](std::size_t rows, std::size_t columns) { return 2 * rows * columns; };
    const auto largest = static_cast<std::size_t>(options.largest + 7) / 8 * 8;
    const gpu::Buffer a(driver, elements(16384, largest)), b(driver, elements(largest, largest)),
        c(driver, elements(16384, largest));
    const auto pointer = [](const gpu::Buffer& buffer) { return reinterpret_cast<void*>(buffer.address()); };
    const gpu::Stream stream(driver);
    std::mt19937_64 random(static_cast<std::uint64_t>(options.seed));
    std::size_t refused = 0;
    std::vector<Cost> costs;
    std::vector<std::pair<double, std::string>> slowest;
    for (int i = 0; i < options.weights; ++i) {
        const GemmProblem problem = drawn(random, options.largest);
        const float one = 1, zero = 0;
        autotune_status status = AUTOTUNE_OK;
        costs.push_back(cost_of([&] {
            status =
                autotune_tuned_gemm(handle.get(), &problem, &one, pointer(a), pointer(b), &zero, pointer(c), stream.handle());
        }));
        if (status == AUTOTUNE_NOT_PLANNED)
            ++refused;
        else if (status != AUTOTUNE_OK)
            throw Error(ErrorCode::driver, autotune_last_error(handle.get()));
        slowest.emplace_back(-costs.back().us, "call " + std::to_string(i) + ", " + std::to_string(problem.m) + "x" +
                                                   std::to_string(problem.n) + "x" + std::to_string(problem.k) + ": " +
                                                   std::to_string(costs.back().us) + " us, " +
                                                   std::to_string(costs.back().processor_us) + " of processor time");
        stream.synchronize();
    }
    print("in background, new weights", costs);
    const auto slow = std::count_if(costs.begin(), costs.end(), [](const Cost& cost) { return cost.us > 200; });
    std::printf("  %td of them took more than 200 us; %zu had no kernel yet\n", slow, refused);
    std::sort(slowest.begin(), slowest.end());
    for (std::size_t i = 0; i < std::min<std::size_t>(5, slowest.size()); ++i) std::printf("  %s\n", slowest[i].second.c_str());
}

void print_head() {
    std::printf("%-28s %5s %10s %10s %10s %10s\n", "host cost of a plan", "plans", "p50 us", "p99 us", "cpu p50 us",
                "cpu p99 us");
}

void run(const Options& options) {
    const auto driver = gpu::Driver::load();
    const gpu::Context context(driver, 0);
    if (options.weights > 0) {
        print_head();
        return run_weights(options, driver);
    }
    Compiles compiles;
    const Handle handle = open(options, AUTOTUNE_ON_MISS_COMPILE, compiles);
    if (options.is_warm) handle.warm(problem_of(options, 8192));
    std::vector<Cost> loaded, compiled, known;
    for (int i = 0; i < options.shapes; ++i) {
        const int before = compiles.count;
        const Cost cost = plan_cost(handle, options, rows_of(options, i));
        (compiles.count == before ? loaded : compiled).push_back(cost);
    }
    for (int i = 0; i < options.shapes; ++i) known.push_back(plan_cost(handle, options, rows_of(options, i)));
    print_head();
    print("new shape, loaded kernel", loaded);
    print("new shape, compiled kernel", compiled);
    print("planned before", known);
    run_in_background(options, driver);
}

}  // namespace
}  // namespace autotune::plan_cost

int main(int argc, char** argv) {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a row is printed at once, even if the next one is never reached
    try {
        autotune::plan_cost::run(autotune::plan_cost::parse(argc, argv));
        return 0;
    } catch (const autotune::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return error.code() == autotune::ErrorCode::usage ? 2 : error.code() == autotune::ErrorCode::no_gpu ? 3 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
