// Checks on a real GPU that the final rounds distinguish equal from slower kernels (benchmarks/README.md).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "src/core/statistics/statistics.h"
#include "src/gpu/library_folders.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/compiler.h"
#include "tuner/fixture/problem_fixture.h"
#include "tuner/measure/meter.h"
#include "tuner/measure/racing.h"

namespace autotune::tuner {
namespace {

using Json = nlohmann::json;

constexpr double kTurn_us = 3'000;  // as in a tune
constexpr double kCalibration_us = 100'000;
constexpr int kCalibrations = 6;

struct Options {
    std::string op = "hgemm", shape = "8192x4096x4096", family;
    int races = 100;
};

// A kernel and a copy of it that also waits.
class Proof {
  public:
    Proof(WorkerGpu& gpu, const Catalogue& catalogue, const Options& options);

    struct Count {
        int races = 0, ties = 0, lost = 0, won = 0, rounds = 0;
    };
    // Races against a copy that is slower by this share; with 0 it is equal. `prefers_twin` says whether the copy or the original
    // wins a tie.
    Count race(double slower, bool prefers_twin, int races);
    double kernel_us() const { return kernel_us_; }
    double planted() const { return planted_; }
    const Candidate& candidate() const { return candidate_; }

  private:
    std::shared_ptr<const gpu::Library> load(const jit::Rendered& rendered) const;
    double median_us(Runnable& runnable, double time_us) {
        return stats::median(meter_->sample(*bench_, runnable, {.samples = 3, .time_us = time_us}));
    }
    double ratio();
    // The copy's graphs keep the wait with which they were captured.
    void set_wait(std::uint64_t wait_ns) {
        wait_ns_ = wait_ns;
        twin_->graphs.clear();
        twin_->single_us = 0;
    }
    void plant(double slower);
    Verdict one_race(std::uint64_t seed, bool prefers_twin);

    WorkerGpu& gpu_;
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    std::unique_ptr<Harness> harness_;
    std::unique_ptr<ProblemFixture> bench_;
    std::optional<Meter> meter_;
    Candidate candidate_;
    gpu::Buffer spins_;
    std::optional<gpu::Function> spin_;
    std::uint64_t wait_ns_ = 0;
    double kernel_us_ = 0, planted_ = 0;
    std::optional<Runnable> kernel_, twin_;
};

const Family& family_of(const Catalogue& catalogue, const Problem& problem, const Device& device, const std::string& wanted) {
    for (const Family* family : catalogue.families_of(problem.op)) {
        if (family->refuses(problem, device)) continue;
        if (wanted.empty() ? device.identity.cc_major != 9 || family->name() == "gemm/wgmma" : family->name() == wanted)
            return *family;
    }
    throw Error(ErrorCode::no_valid_config, "no family for this problem on this device");
}

Proof::Proof(WorkerGpu& gpu, const Catalogue& catalogue, const Options& options) : gpu_(gpu), spins_(gpu.driver, 8) {
    const auto variable = [](const char* name) { return std::getenv(name); };
    const char* path = variable("AUTOTUNE_NVRTC");
    nvrtc_ = gpu::Nvrtc::load(
        {.explicit_path = path == nullptr ? "" : path, .folders = gpu::library_folders(variable), .driver_major = 0});
    const jit::Target target{gpu.device.arch(), nvrtc_->version()};
    const auto harness = load(jit::render_harness(catalogue, target));
    harness_ = std::make_unique<Harness>(gpu.driver, harness, gpu.stream);
    meter_.emplace(gpu, harness);
    spin_.emplace(harness->function("autotune_spin_bounded"));
    const Problem problem = catalogue.problem({options.op, options.shape, {}});
    const Family& family = family_of(catalogue, problem, gpu.device, options.family);
    const SearchSpace space = family.space(problem, gpu.device);
    candidate_ = {std::string(family.name()), space.canonical(space.default_config)};
    bench_ = std::make_unique<ProblemFixture>(gpu, *harness_, catalogue.op_of(problem), problem, ProblemFixture::Options{});
    const jit::Rendered rendered = jit::render(catalogue, family, problem, space, candidate_.config, target);
    const ProblemFixture::Code code{load(rendered), rendered.symbol};
    const LaunchPlan plan = family.plan(problem, candidate_.config, gpu.device);
    kernel_.emplace(bench_->bind(code, plan));
    twin_.emplace(bench_->bind(code, plan));
    twin_->enqueue = [this, run = twin_->enqueue](std::span<const gpu::DeviceAddress> tensors) {
        run(tensors);
        if (wait_ns_ == 0) return;
        gpu::DeviceAddress spins = spins_.address();
        std::array<void*, 2> parameters{&wait_ns_, &spins};
        LaunchStep step;
        gpu::throw_if_failed(*gpu_.driver, spin_->launch(step, parameters.data(), gpu_.stream.handle()), "launch of the wait");
    };
    meter_->warm(*bench_, *kernel_, 1);
    kernel_us_ = median_us(*kernel_, kCalibration_us);
}

std::shared_ptr<const gpu::Library> Proof::load(const jit::Rendered& rendered) const {
    const jit::CompileResult result = jit::compile(*nvrtc_, jit::CubinCache(""), rendered);
    if (!result.compiled) throw Error(ErrorCode::compile_failed, result.failure + "\n" + result.log);
    return std::make_shared<const gpu::Library>(gpu_.driver, result.compiled->cubin);
}

// The copy's time / the kernel's, measured in turn.
double Proof::ratio() {
    std::vector<double> own, other;
    for (int i = 0; i < 20; ++i) {
        own.push_back(median_us(*kernel_, kCalibration_us / 20));
        other.push_back(median_us(*twin_, kCalibration_us / 20));
    }
    return stats::median(stats::paired_ratios(other, own));
}

// Finds the wait that makes the copy slower by this share. It tries several waits, because a launch takes time too.
void Proof::plant(double slower) {
    set_wait(0);
    planted_ = ratio() - 1;
    if (slower == 0) return;
    double wait_us = slower * kernel_us_ / 2;
    for (int i = 0; i < kCalibrations; ++i) {
        set_wait(static_cast<std::uint64_t>(wait_us * 1e3) + 1);
        planted_ = ratio() - 1;
        if (std::abs(planted_ - slower) < slower / 10) return;
        wait_us = std::max(0.01, wait_us + (slower - planted_) * kernel_us_);
    }
}

Verdict Proof::one_race(std::uint64_t seed, bool prefers_twin) {
    FinalRounds rounds(
        {{.name = "kernel", .is_previous_winner = !prefers_twin}, {.name = "twin", .is_previous_winner = prefers_twin}},
        {.seed = seed});
    while (!rounds.done()) {
        std::vector<double> times_us;
        for (const std::size_t who : rounds.next_round()) times_us.push_back(median_us(who == 0 ? *kernel_ : *twin_, kTurn_us));
        rounds.report_round(times_us);
    }
    return rounds.verdict();
}

Proof::Count Proof::race(double slower, bool prefers_twin, int races) {
    plant(slower);
    Count count;
    for (int i = 0; i < races; ++i) {
        const Verdict verdict = one_race(static_cast<std::uint64_t>(i) + 1, prefers_twin);
        const auto twin = std::find_if(verdict.rows.begin(), verdict.rows.end(),
                                       [&](const FinalRow& row) { return row.finalist != verdict.winner; });
        ++count.races;
        count.ties += twin->tie ? 1 : 0;
        count.won += verdict.winner == 1 ? 1 : 0;
        count.lost += verdict.winner == 0 && !twin->tie ? 1 : 0;
        count.rounds += verdict.rounds;
    }
    return count;
}

void print(const char* what, const Proof& proof, const Proof::Count& count) {
    const Json line{{"planted", proof.planted()}, {"races", count.races},   {"ties", count.ties}, {"twin_lost", count.lost},
                    {"twin_won", count.won},      {"rounds", count.rounds}, {"race", what}};
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
}

int run(const Options& options) {
    auto driver = gpu::Driver::load();
    WorkerGpu gpu{driver, gpu::Context(driver, 0), gpu::Stream(driver), driver->device(0)};
    Proof proof(gpu, Catalogue::embedded(), options);
    std::printf("%s %s on %s: %s, %.1f us\n", options.op.c_str(), options.shape.c_str(), gpu.device.identity.name.c_str(),
                proof.candidate().to_string().c_str(), proof.kernel_us());
    const Proof::Count same = proof.race(0, true, options.races);
    print("the same kernel twice", proof, same);
    const Proof::Count three = proof.race(0.03, true, options.races);
    print("3 % slower, preferred in a tie", proof, three);
    const Proof::Count one = proof.race(0.01, false, options.races);
    print("1 % slower", proof, one);
    return 100 * same.ties >= 95 * options.races && 100 * three.lost >= 99 * options.races && one.won == 0 ? 0 : 1;
}

}  // namespace
}  // namespace autotune::tuner

// Exits with 0 if the results are within the limits, with 1 if not, and with 3 without a GPU.
int main(int count, char** words) {
    autotune::tuner::Options options;
    for (int i = 1; i + 1 < count; i += 2) {
        if (std::strcmp(words[i], "--op") == 0) options.op = words[i + 1];
        if (std::strcmp(words[i], "--shape") == 0) options.shape = words[i + 1];
        if (std::strcmp(words[i], "--family") == 0) options.family = words[i + 1];
        if (std::strcmp(words[i], "--races") == 0) options.races = std::max(1, std::atoi(words[i + 1]));
    }
    try {
        return autotune::tuner::run(options);
    } catch (const autotune::Error& error) {
        std::fprintf(stderr, "meter_proof: %s\n", error.what());
        return error.code() == autotune::ErrorCode::no_gpu ? 3 : 1;
    }
}
