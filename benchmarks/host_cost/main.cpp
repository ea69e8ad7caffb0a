// Measures what one call costs the host (benchmarks/README.md).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "benchmarks/host_cost/rivals.h"
#include "src/core/error.h"

namespace autotune::host_cost {
namespace {

struct Options {
    long long m = 128, n = 128, k = 128;
    int rounds = 200;
    int calls = 64;  // The calls of a round are fewer than fit into the driver's queue, so that no call waits for the GPU.
    bool json = false;
};

struct Row {
    std::string name;
    double median_ns = 0, low_ns = 0, high_ns = 0;  // the quartiles
};

double ns_per_call(const Rival& rival, const Bench& bench, int calls) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) rival.call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    bench.stream.synchronize();
    return took.count() / calls;
}

std::vector<Row> measure(const std::vector<Rival>& rivals, const Bench& bench, const Options& options) {
    std::vector<std::vector<double>> samples(rivals.size());
    for (const Rival& rival : rivals) ns_per_call(rival, bench, options.calls);  // warm
    for (int round = 0; round < options.rounds; ++round) {
        for (std::size_t i = 0; i < rivals.size(); ++i) {
            const std::size_t turn = (i + static_cast<std::size_t>(round)) % rivals.size();
            samples[turn].push_back(ns_per_call(rivals[turn], bench, options.calls));
        }
    }
    std::vector<Row> rows;
    for (std::size_t i = 0; i < rivals.size(); ++i) {
        std::sort(samples[i].begin(), samples[i].end());
        const auto at = [&](double part) {
            return samples[i][static_cast<std::size_t>(part * static_cast<double>(samples[i].size() - 1))];
        };
        rows.push_back({rivals[i].name, at(0.5), at(0.25), at(0.75)});
    }
    return rows;
}

// Microseconds of one replay of 1,000 captured tuned_gemm() calls.
double replay_us(const Rival& one_call, const Bench& bench) {
    const gpu::Graph graph = gpu::Graph::capture(bench.driver, bench.stream, [&] {
        for (int i = 0; i < 1000; ++i) one_call.call();
    });
    graph.launch(bench.stream.handle());
    bench.stream.synchronize();
    const auto start = std::chrono::steady_clock::now();
    graph.launch(bench.stream.handle());
    bench.stream.synchronize();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

void print(const std::vector<Row>& rows, const Bench& bench, const std::string& missing, double graph_us) {
    std::printf("%lldx%lldx%lld f16, %s, origin %s\n", static_cast<long long>(bench.problem.m),
                static_cast<long long>(bench.problem.n), static_cast<long long>(bench.problem.k), bench.plan.candidate(),
                autotune_origin_string(bench.plan.origin()));
    std::printf("%-18s %10s %18s %12s\n", "host cost a call", "median ns", "quartiles ns", "over raw ns");
    for (const Row& row : rows)
        std::printf("%-18s %10.0f %9.0f-%8.0f %12.0f\n", row.name.c_str(), row.median_ns, row.low_ns, row.high_ns,
                    row.median_ns - rows.front().median_ns);
    if (!missing.empty()) std::printf("cublasGemmEx       %s\n", missing.c_str());
    std::printf("graph of 1000 tuned_gemm calls: one replay %.1f us\n", graph_us);
}

void print_json(const std::vector<Row>& rows, const Bench& bench, double graph_us) {
    nlohmann::json out = {{"shape", std::to_string(bench.problem.m) + "x" + std::to_string(bench.problem.n) + "x" +
                                        std::to_string(bench.problem.k)},
                          {"device", bench.driver->device(0).identity.name},
                          {"candidate", bench.plan.candidate()},
                          {"graph_replay_us", graph_us},
                          {"rows", nlohmann::json::array()}};
    for (const Row& row : rows)
        out["rows"].push_back(
            {{"name", row.name}, {"median_ns", row.median_ns}, {"low_ns", row.low_ns}, {"high_ns", row.high_ns}});
    std::printf("%s\n", out.dump().c_str());
}

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const bool has_value = i + 1 < argc;
        const bool shape = std::strcmp(argv[i], "--shape") == 0 && has_value;
        if (std::strcmp(argv[i], "--json") == 0) {
            options.json = true;
        } else if (shape && std::sscanf(argv[i + 1], "%lldx%lldx%lld", &options.m, &options.n, &options.k) == 3) {
            ++i;
        } else if (std::strcmp(argv[i], "--rounds") == 0 && has_value && std::atoi(argv[i + 1]) > 0) {
            options.rounds = std::atoi(argv[++i]);
        } else if (std::strcmp(argv[i], "--calls") == 0 && has_value && std::atoi(argv[i + 1]) > 0) {
            options.calls = std::atoi(argv[++i]);
        } else {
            throw Error(ErrorCode::usage, "usage: host_cost [--shape MxNxK] [--rounds N] [--calls N] [--json]");
        }
    }
    return options;
}

void run(const Options& options) {
    const auto driver = gpu::Driver::load();
    const gpu::Context context(driver, 0);
    const gpu::Stream stream(driver);
    const Handle handle;
    GemmProblem problem(options.m, options.n, options.k);
    problem.beta = AUTOTUNE_BETA_ZERO;
    const GemmPlan plan(handle, problem);
    const auto bytes = [](long long rows, long long cols) { return static_cast<std::size_t>(rows * cols * 2); };
    gpu::Buffer a(driver, bytes(options.m, options.k)), b(driver, bytes(options.k, options.n)),
        c(driver, bytes(options.m, options.n));
    gpu::Buffer workspace(driver, std::max<std::size_t>(plan.workspace_bytes(), 256));
    for (gpu::Buffer* each : {&a, &b, &c, &workspace}) each->fill_bytes(0);
    const auto pointer = [](const gpu::Buffer& buffer) { return reinterpret_cast<void*>(buffer.address()); };
    const Bench bench{driver,  stream, handle,
                      problem, plan,   {pointer(a), pointer(b), pointer(c), 1, 0, pointer(workspace), workspace.bytes()}};

    std::string missing;
    std::vector<Rival> rivals = {raw_launches(bench), through_plan(bench), through_one_call(bench), through_generic_plan(bench),
                                 through_generic_call(bench)};
    for (Rival& vendor : through_vendor(bench, missing)) rivals.push_back(std::move(vendor));
    const std::vector<Row> rows = measure(rivals, bench, options);
    const double graph_us = replay_us(rivals[2], bench);
    if (options.json) {
        print_json(rows, bench, graph_us);
    } else {
        print(rows, bench, missing, graph_us);
    }
}

}  // namespace
}  // namespace autotune::host_cost

int main(int argc, char** argv) {
    try {
        autotune::host_cost::run(autotune::host_cost::parse(argc, argv));
        return 0;
    } catch (const autotune::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return error.code() == autotune::ErrorCode::usage ? 2 : error.code() == autotune::ErrorCode::no_gpu ? 3 : 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
