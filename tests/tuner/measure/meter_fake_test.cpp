// The meter on the scripted driver: the time that a kernel adds to a stream of other kernels, and how equal and slower kernels
// are distinguished.
#include <gtest/gtest.h>

#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "src/core/statistics/statistics.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/compiler.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/fake/fake_test.h"
#include "tuner/measure/fastest_of.h"
#include "tuner/measure/meter.h"
#include "tuner/measure/racing.h"

namespace autotune::tuner::test::meter_fake_test {
namespace {

using autotune::test::fake_test;
using autotune::test::in_fake_process;

constexpr int kRaces = 100;
const std::string kQuiet = "model noise=0\n";
// If a kernel is launched with the attribute, it takes 1 us longer, and 3 us of it overlap with a kernel that triggers early.
const std::string kGainsAfterItself = kQuiet + "model pdl_us=1 overlap_us=3\n";

// Times kernels of one problem on one card.
class MeterBench {
  public:
    explicit MeterBench(const ProblemRequest& request = {"sadd", "1048576", {}})
        : driver_(gpu::Driver::load()),
          gpu_{driver_, gpu::Context(driver_, 0), gpu::Stream(driver_), driver_->device(0)},
          problem_(catalogue_.problem(request)),
          nvrtc_(gpu::Nvrtc::load({})),
          target_{gpu_.device.arch(), nvrtc_->version()} {
        const auto library = load(jit::render_harness(catalogue_, target_));
        harness_ = std::make_unique<Harness>(driver_, library, gpu_.stream);
        meter_.emplace(gpu_, library);
        bench_ =
            std::make_unique<ProblemFixture>(gpu_, *harness_, catalogue_.op_of(problem_), problem_, ProblemFixture::Options{});
    }

    Runnable kernel(const std::vector<std::pair<std::string, std::int64_t>>& parameters) {
        const Family& family = *catalogue_.find_family("add/vector");
        const SearchSpace space = family.space(problem_, gpu_.device);
        Config config = space.default_config;
        for (const auto& [name, value] : parameters) config.set(name, value);
        const jit::Rendered rendered = jit::render(catalogue_, family, problem_, space, config, target_);
        return bench_->bind({load(rendered), rendered.symbol}, family.plan(problem_, config, gpu_.device));
    }
    double median_us(Runnable& runnable, Predecessor after) {
        return stats::median(meter_->sample(*bench_, runnable, {.samples = 5, .time_us = 3'000, .after = after}));
    }
    Verdict race(Runnable& first, Runnable& second, std::uint64_t seed) {
        FinalRounds rounds({{.name = "first"}, {.name = "second", .is_previous_winner = true}}, {.seed = seed});
        while (!rounds.done()) {
            std::vector<double> times_us;
            for (const std::size_t who : rounds.next_round())
                times_us.push_back(median_us(who == 0 ? first : second, Predecessor::filler));
            rounds.report_round(times_us);
        }
        return rounds.verdict();
    }
    Meter& meter() { return *meter_; }
    ProblemFixture& bench() { return *bench_; }

  private:
    std::shared_ptr<const gpu::Library> load(const jit::Rendered& rendered) const {
        const jit::CompileResult result = jit::compile(*nvrtc_, jit::CubinCache(""), rendered);
        if (!result.compiled) throw Error(ErrorCode::compile_failed, result.failure + "\n" + result.log);
        return std::make_shared<const gpu::Library>(driver_, result.compiled->cubin);
    }

    const Catalogue& catalogue_ = autotune::test::embedded_catalogue();
    std::shared_ptr<const gpu::Driver> driver_;
    WorkerGpu gpu_;
    Problem problem_;
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    jit::Target target_;
    std::unique_ptr<Harness> harness_;
    std::optional<Meter> meter_;
    std::unique_ptr<ProblemFixture> bench_;
};

TEST(MeterOnFake, StreamTimeIsTheKernelsAloneWhereNothingOverlaps) {
    fake_test(kQuiet + "rule symbol=^add_vector do=slow us=7\n", [] {
        MeterBench card;
        Runnable kernel = card.kernel({{"pdl", 0}});
        for (const Predecessor after : {Predecessor::filler, Predecessor::itself, Predecessor::trigger})
            EXPECT_NEAR(card.median_us(kernel, after), 7, 0.01) << to_string(after);
    });
}

TEST(MeterOnFake, AKernelThatGainsOnlyAfterItselfIsSlowerInAStream) {
    fake_test(kGainsAfterItself, [] {
        MeterBench card;
        Runnable early = card.kernel({{"pdl", 1}}), plain = card.kernel({{"pdl", 0}});
        const auto lead_us = [&](Predecessor after) { return card.median_us(plain, after) - card.median_us(early, after); };
        EXPECT_NEAR(lead_us(Predecessor::itself), 2, 0.02);
        EXPECT_NEAR(lead_us(Predecessor::trigger), 2 + 1.4, 0.02)
            << "it lets the next filler start early too, which takes 1.4 us";
        EXPECT_NEAR(lead_us(Predecessor::filler), -1, 0.02);
    });
}

TEST(MeterOnFake, AGraphGoesAWholeNumberOfTimesThroughTheRotation) {
    fake_test(kQuiet, [] {
        MeterBench card;
        Runnable kernel = card.kernel({});
        const double time_us = card.median_us(kernel, Predecessor::filler);
        const int launches = kernel.graphs.at(Predecessor::filler).launches;
        ASSERT_GT(card.bench().rotation_sets(), 1);
        EXPECT_EQ(launches % card.bench().rotation_sets(), 0);
        EXPECT_GE(launches * time_us, 500);
    });
}

// The optional tensor is the lse of softmax, for which a problem promises only the alignment of its element.
TEST(MeterOnFake, OptionalTensorsAreTimedWhereProgramsHaveThemAndVerifiedWhereTheyMayBe) {
    fake_test(kQuiet, [] {
        MeterBench card({"softmax", "64x64", {{"lse", "yes"}}});
        const std::size_t lse = card.bench().problem().tensors.size() - 1;
        ASSERT_EQ(card.bench().problem().tensors[lse].alignment_bytes, 4);
        for (int set = 0; set < card.bench().rotation_sets(); ++set) EXPECT_EQ(card.bench().rotation(set)[lse] % 16, 0U);
        for (const TestFixture& tested : card.bench().tests())
            EXPECT_EQ(tested.tensors.addresses[lse] % 16, tested.test.is_typical ? 0U : 4U) << tested.test.name;
    });
}

TEST(MeterOnFake, ALaunchTooLongForAGraphIsEnqueuedAlone) {
    fake_test(kQuiet + "rule symbol=^add_vector do=slow us=30000\n", [] {
        MeterBench card;
        Runnable kernel = card.kernel({{"pdl", 0}});
        EXPECT_NEAR(card.median_us(kernel, Predecessor::filler), 30'000, 10);
        EXPECT_TRUE(kernel.graphs.empty());
    });
}

TEST(MeterOnFake, AAgainstAIsATieAtLeast95TimesIn100) {
    fake_test("", [] {
        MeterBench card;
        Runnable kernel = card.kernel({}), twin = card.kernel({});
        int ties = 0;
        for (std::uint64_t seed = 1; seed <= kRaces; ++seed) ties += card.race(kernel, twin, seed).rows[1].tie ? 1 : 0;
        EXPECT_GE(ties, 95);
    });
}

TEST(MeterOnFake, AThreePercentSlowerTwinLoses) {
    fake_test("rule symbol=^add_vector unroll=1 do=slow us=10\nrule symbol=^add_vector unroll=2 do=slow us=10.3\n", [] {
        MeterBench card;
        Runnable kernel = card.kernel({{"unroll", 1}, {"pdl", 0}}), twin = card.kernel({{"unroll", 2}, {"pdl", 0}});
        int lost = 0;
        for (std::uint64_t seed = 1; seed <= kRaces; ++seed) {
            const Verdict verdict = card.race(kernel, twin, seed);
            lost += verdict.winner == 0 && verdict.decided_by == "faster" ? 1 : 0;
        }
        EXPECT_GE(lost, 99);
    });
}

TEST(MeterOnFake, ABlockLastsAndGivesTheStreamTime) {
    fake_test(kQuiet + "rule symbol=^add_vector do=slow us=7\n", [] {
        MeterBench card;
        Runnable kernel = card.kernel({{"pdl", 0}});
        int readings = 0;
        const Meter::Block block = card.meter().block(card.bench(), kernel, 0.05, [&](std::int64_t) { ++readings; });
        EXPECT_NEAR(block.launch_us, 7, 0.01);
        EXPECT_GT(block.launches, 1'000);
        EXPECT_GT(block.gpu_us, 7 * static_cast<double>(block.launches));
        EXPECT_GT(readings, 0);
    });
}

TEST(FastestOfOnFake, NamesTheFastestAndPassesOverWhatCannotRun) {
    fake::Sandbox sandbox(
        "rule symbol=^add_vector unroll=1 do=slow us=10\nrule symbol=^add_vector unroll=2 do=slow us=9.8\n"
        "rule symbol=^add_vector unroll=4 do=slow us=30\n");
    if (!in_fake_process(sandbox)) return;
    MeterBench card;
    std::vector<Runnable> choices(1);
    choices[0].enqueue = [](std::span<const gpu::DeviceAddress>) {
        throw gpu::DriverError(1, "CUDA_ERROR_INVALID_VALUE", "cublasLtMatmul");
    };
    for (const std::int64_t unroll : {1, 2, 4}) choices.push_back(card.kernel({{"unroll", unroll}, {"pdl", 0}}));
    EXPECT_EQ(fastest_of(card.meter(), card.bench(), choices), 2u);
    choices.resize(1);
    EXPECT_EQ(fastest_of(card.meter(), card.bench(), choices), std::nullopt);
}

}  // namespace
}  // namespace autotune::tuner::test::meter_fake_test
