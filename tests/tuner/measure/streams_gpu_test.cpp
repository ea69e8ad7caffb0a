// Whether measuring keeps its context at the faster of its two speeds (docs/measuring.md).
#include "src/catalogue/catalogue.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/compiler.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/nvrtc_for_tests.h"
#include "tuner/fixture/problem_fixture.h"
#include "tuner/measure/filler.h"

namespace autotune::tuner::test {
namespace {

class StreamsOnGpu : public autotune::test::GpuTest {};

// A card with the objects that measuring needs.
struct Card {
    Card()
        : driver(gpu::Driver::load()),
          gpu{driver, gpu::Context(driver, 0), gpu::Stream(driver), driver->device(0)},
          problem(catalogue.problem({"bgemm", "192x4096x128", {{"layout", "nt"}}})) {
        const auto nvrtc = gpu::Nvrtc::load(autotune::test::nvrtc_search());
        const jit::CompileResult result =
            jit::compile(*nvrtc, jit::CubinCache(""), jit::render_harness(catalogue, {gpu.device.arch(), nvrtc->version()}));
        harness_library = std::make_shared<const gpu::Library>(driver, result.compiled.value().cubin);
    }

    // The launch time of a small kernel among others.
    double launch_us() { return Fillers(gpu, harness_library).time(Predecessor::filler).per_launch_us; }

    std::shared_ptr<const gpu::Driver> driver;
    WorkerGpu gpu;
    Catalogue catalogue = Catalogue::embedded();
    Problem problem;
    std::shared_ptr<const gpu::Library> harness_library;
};

TEST_F(StreamsOnGpu, OperandsAndChecksLeaveLaunchesAsFastAsTheyWere) {
    Card card;
    card.launch_us();  // the first call loads code
    const double before_us = card.launch_us();
    Harness harness(card.driver, card.harness_library, card.gpu.stream);
    for (int i = 0; i < 4; ++i) ProblemFixture(card.gpu, harness, card.catalogue.op_of(card.problem), card.problem, {});
    EXPECT_LT(card.launch_us(), 1.08 * before_us) << "0.96 us before and 1.14 after on an H200 if memsets run on another stream";
    if (card.gpu.device.identity.cc_major != 9) return;  // skipped, because it is unknown whether other cards have two speeds
    Fillers(card.gpu, card.harness_library).run_on_two_streams();
    EXPECT_GT(card.launch_us(), 1.1 * before_us) << "what --streams 2 measures";
}

}  // namespace
}  // namespace autotune::tuner::test
