// What a plan costs the host where its kernel is loaded already: see benchmarks/README.md.
#include <algorithm>
#include <autotune/autotune.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "src/core/error.h"
#include "src/gpu/driver.h"

namespace autotune::plan_cost {
namespace {

struct Options {
    int shapes = 200;
    int n = 4096, k = 4096;  // of the weight
    const char* database = "";
    const char* shipped = nullptr;
    autotune_beta beta = AUTOTUNE_BETA_ANY;
};

// Counts what a plan had to compile.
struct Compiles {
    int count = 0;
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
        } else if (std::strcmp(argv[i], "--beta") == 0 && std::strcmp(value, "zero") == 0) {
            options.beta = AUTOTUNE_BETA_ZERO;
        } else if (std::strcmp(argv[i], "--weight") != 0 || std::sscanf(value, "%dx%d", &options.n, &options.k) != 2) {
            throw Error(ErrorCode::usage, std::string(argv[i]) + " " + value + " is no option of plan_cost");
        }
    }
    if (argc % 2 == 0 || options.shapes < 1 || options.n < 1 || options.k < 1)
        throw Error(ErrorCode::usage,
                    "usage: plan_cost [--shapes N] [--weight NxK] [--beta zero] [--database FILE] [--shipped FOLDER]");
    return options;
}

// Microseconds of one plan of m x n x k, bf16, B as weights are stored.
double plan_us(const Handle& handle, const Options& options, int m) {
    GemmProblem problem(m, options.n, options.k);
    problem.ab_type = problem.c_type = AUTOTUNE_BF16;
    problem.trans_b = 1;
    problem.beta = options.beta;
    const auto start = std::chrono::steady_clock::now();
    const GemmPlan plan(handle, problem);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

void print(const char* name, std::vector<double>& us) {
    if (us.empty()) return;
    std::sort(us.begin(), us.end());
    const auto at = [&](double part) { return us[static_cast<std::size_t>(part * static_cast<double>(us.size() - 1))]; };
    std::printf("%-28s %5zu %10.1f %10.1f %10.1f\n", name, us.size(), at(0.5), at(0.99), us.back());
}

void run(const Options& options) {
    const auto driver = gpu::Driver::load();
    const gpu::Context context(driver, 0);
    Compiles compiles;
    autotune::Options settings;
    settings.database = options.database;
    settings.shipped = options.shipped;
    settings.cache_folder = "";
    settings.log = &Compiles::hear;
    settings.log_user = &compiles;
    const Handle handle(settings);
    std::vector<double> loaded, compiled, known;
    for (int i = 0; i < options.shapes; ++i) {
        const int m = 1 + (i * 8191) / options.shapes;  // 1 to 8191
        const int before = compiles.count;
        const double us = plan_us(handle, options, m);
        (compiles.count == before ? loaded : compiled).push_back(us);
    }
    for (int i = 0; i < options.shapes; ++i) known.push_back(plan_us(handle, options, 1 + (i * 8191) / options.shapes));
    std::printf("%-28s %5s %10s %10s %10s\n", "host cost of a plan", "plans", "p50 us", "p99 us", "most us");
    print("new shape, loaded kernel", loaded);
    print("new shape, compiled kernel", compiled);
    print("planned before", known);
}

}  // namespace
}  // namespace autotune::plan_cost

int main(int argc, char** argv) {
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
