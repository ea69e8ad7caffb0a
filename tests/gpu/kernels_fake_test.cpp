// The scripted driver's arithmetic for families, reference and harness kernels. Tests the scripted driver and the launch code,
// not the kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernel_templates/harness/harness.h"
#include "src/catalogue/catalogue.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/compiler.h"
#include "src/jit/kernel.h"
#include "src/jit/render.h"
#include "tests/support/fake/fake_test.h"

namespace autotune::test {
namespace {

using fake::Sandbox;

// A scripted H200 with the product's kernels.
class Card {
  public:
    // `pins` are parameters of the tested config; without any it is the default.
    CompareResult try_family(const Family& family, const Problem& problem, const std::string& name, const Config& pins = {}) {
        const Op& op = catalogue_.op_of(problem);
        const OpTest test = test_named(op.tests(problem), name);
        const Filled filled = fill(problem, test);
        const auto count = static_cast<std::size_t>(problem.tensors[2].elements());
        gpu::Buffer expected(driver_, count * sizeof(double));
        gpu::Buffer bound(driver_, count * sizeof(double));
        const std::array<gpu::DeviceAddress, 1> expected_at = {expected.address()}, bound_at = {bound.address()};
        run(jit::render_reference(catalogue_, op, problem, target_), problem, op.reference_plan(problem, test),
            {.tensors = filled.addresses, .scalars = filled.scalars, .expected = expected_at, .bounds = bound_at});
        const SearchSpace space = family.space(problem, device_);
        const Config config = pins.empty() ? space.default_config : space.enumerate(pins, 1).at(0);
        const LaunchPlan plan = family.plan(problem, config, device_);
        gpu::Buffer workspace(driver_, plan.workspace_bytes + 256);
        workspace.fill_bytes(0);
        run(jit::render(catalogue_, family, problem, space, config, target_), problem, plan,
            {.tensors = filled.addresses, .scalars = filled.scalars, .workspace = workspace.address()});
        return compare(problem.tensors[2], filled.addresses[2], expected.address(), bound.address());
    }

    const Catalogue& catalogue() const { return catalogue_; }
    const Device& device() const { return device_; }

    // Runs a harness kernel with these parameters.
    template <typename... Parameters>
    void harness(const std::string& symbol, Parameters... parameters) {
        std::array<void*, sizeof...(Parameters)> addresses{&parameters...};
        LaunchStep step;
        step.grid = {64, 1, 1};
        step.block = {256, 1, 1};
        const int code = harness_.function("autotune_" + symbol).launch(step, addresses.data(), stream_.handle());
        gpu::throw_if_failed(*driver_, code, symbol.c_str());
        stream_.synchronize();
    }
    // The driver's result for a launch of the poison kernel with `smem_bytes` of dynamic shared memory. Before it, first that
    // limit and then `allowed_later` were set, as by two plans of the same code with rings of different lengths.
    int launch_after_two_limits(std::size_t smem_bytes, std::size_t allowed_later) {
        const gpu::Buffer zone = buffer(256);
        const gpu::Function function = harness_.function("autotune_poison");
        function.allow_dynamic_smem(smem_bytes);
        function.allow_dynamic_smem(allowed_later);
        gpu::DeviceAddress address = zone.address();
        std::uint64_t bytes = 16;
        auto value = kPoisonByte;
        std::array<void*, 3> parameters{&address, &bytes, &value};
        LaunchStep step;
        step.grid = {1, 1, 1};
        step.block = {256, 1, 1};
        step.dynamic_smem_bytes = smem_bytes;
        const int code = function.launch(step, parameters.data(), stream_.handle());
        stream_.synchronize();
        return code;
    }
    gpu::Buffer buffer(std::size_t bytes, std::uint8_t value = 0) {
        gpu::Buffer made(driver_, bytes);
        made.fill_bytes(value);
        return made;
    }
    template <typename T>
    static T read(const gpu::Buffer& buffer) {
        T value{};
        buffer.download(std::as_writable_bytes(std::span(&value, 1)));
        return value;
    }

  private:
    struct Filled {
        std::vector<gpu::Buffer> buffers;
        std::vector<gpu::DeviceAddress> addresses;
        std::vector<std::uint64_t> scalars;
    };

    Filled fill(const Problem& problem, const OpTest& test) {
        Filled all;
        for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
            const Tensor& tensor = problem.tensors[i];
            const Fill& fill = test.fills[i];
            const auto [e, s] = HarnessLayout(tensor);
            all.buffers.push_back(buffer(static_cast<std::size_t>(tensor.span_bytes()) + 64));
            all.addresses.push_back(all.buffers.back().address());
            harness("fill", all.addresses.back(), harness_format(tensor.dtype), static_cast<int>(fill.kind), fill.centre,
                    fill.spread, fill.low, fill.high, fill.every, harness_format(fill.through), std::uint64_t{5},
                    static_cast<int>(i), e[0], e[1], e[2], e[3], e[4], s[0], s[1], s[2], s[3], s[4]);
        }
        all.scalars = problem.scalar_bits();
        return all;
    }

    void run(const jit::Rendered& rendered, const Problem& problem, const LaunchPlan& plan, const jit::LaunchInputs& inputs) {
        const auto result = jit::compile(*nvrtc_, jit::CubinCache(""), rendered);
        ASSERT_TRUE(result.compiled) << result.failure;
        const auto library = std::make_shared<const gpu::Library>(driver_, result.compiled->cubin);
        const jit::BoundLaunch launch(driver_, library, rendered.symbol, problem, plan);
        gpu::throw_if_failed(*driver_, launch.enqueue(inputs, stream_.handle()), "enqueue");
        stream_.synchronize();
    }

    CompareResult compare(const Tensor& c, gpu::DeviceAddress out, gpu::DeviceAddress expected, gpu::DeviceAddress bound) {
        const gpu::Buffer result = buffer(sizeof(CompareResult));
        const auto [e, s] = HarnessLayout(c);
        harness("compare", out, harness_format(c.dtype), expected, bound, result.address(), e[0], e[1], e[2], e[3], e[4], s[0],
                s[1], s[2], s[3], s[4]);
        return read<CompareResult>(result);
    }

    Catalogue catalogue_ = Catalogue::embedded();
    std::shared_ptr<const gpu::Driver> driver_ = gpu::Driver::load();
    Device device_ = driver_->device(0);
    gpu::Context context_{driver_, 0};
    gpu::Stream stream_{driver_};
    std::shared_ptr<const gpu::Nvrtc> nvrtc_ = gpu::Nvrtc::load({});
    jit::Target target_{device_.arch(), nvrtc_->version()};
    gpu::Library harness_{driver_,
                          jit::compile(*nvrtc_, jit::CubinCache(""), jit::render_harness(catalogue_, target_)).compiled->cubin};
};

Problem gemm(const Card& card, const std::string& op, const std::string& shape, std::map<std::string, std::string> options) {
    return card.catalogue().problem({op, shape, std::move(options)});
}

std::vector<Problem> small_problems(const Card& card) {
    std::vector<Problem> all;
    for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
        all.push_back(gemm(card, "hgemm", "64x48x32", {{"layout", layout}}));
        all.push_back(gemm(card, "bgemm", "33x65x17", {{"layout", layout}}));
        all.push_back(gemm(card, "hgemm", "40x24x16", {{"layout", layout}, {"alpha", "0.5"}, {"beta", "2"}, {"ldc", "32"}}));
        all.push_back(gemm(card, "hgemm", "3*16x16x64", {{"layout", layout}}));
    }
    return all;
}

TEST(FakeKernels, EveryFamilyGivesTheReferencesAnswerOnSmallProblems) {
    fake_test(
        "",
        [] {
            Card card;
            int tried = 0;
            for (const Problem& problem : small_problems(card)) {
                for (const Family* family : card.catalogue().families_of("gemm")) {
                    if (family->refuses(problem, card.device())) continue;
                    for (const std::string test : {"exact", "numeric"}) {
                        const CompareResult result = card.try_family(*family, problem, test);
                        EXPECT_EQ(result.violations, 0u) << family->name() << " " << problem.key();
                        EXPECT_GT(result.sum_expected2, 0) << family->name() << " " << problem.key();
                        ++tried;
                    }
                }
            }
            EXPECT_GE(tried, 32);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("BUG"), 0);
            EXPECT_EQ(sandbox.count_calls("leak"), 0);
        });
}

// Violations that autotune_compare finds for the first family of a problem.
std::uint64_t violations(Card& card, const std::string& shape, const std::string& test = "exact") {
    const Problem problem = gemm(card, "hgemm", shape, {});
    for (const Family* family : card.catalogue().families_of("gemm")) {
        if (!family->refuses(problem, card.device())) return card.try_family(*family, problem, test).violations;
    }
    throw std::runtime_error("no family");
}

// The second kernel of these families, which adds the parts of K, is defined in a header.
TEST(FakeKernels, ProductsOfF32ThatDivideKRun) {
    fake_test(
        "",
        [] {
            Card card;
            for (const auto& [name, compute] : {std::pair{"gemm/simt_f32", "f32"}, {"gemm/mma_tf32", "tf32"}}) {
                const Problem problem = gemm(card, "gemm", "64x48x512", {{"dtype", "f32"}, {"compute", compute}});
                const Family* const family = card.catalogue().find_family(name);
                ASSERT_NE(family, nullptr);
                EXPECT_EQ(card.try_family(*family, problem, "exact", Config({{"split_k", 2}})).violations, 0U) << name;
            }
        },
        [](const fake::Sandbox& sandbox) {
            const std::vector<std::string> calls = sandbox.calls();
            EXPECT_EQ(std::count_if(calls.begin(), calls.end(),
                                    [](const std::string& call) {
                                        return call.find(" execute ") != std::string::npos && call.ends_with("_reduce");
                                    }),
                      2)
                << "one run of it in each family";
        });
}

TEST(FakeKernels, OneWrongElementIsFound) {
    fake_test("rule symbol=^gemm_[^r] do=wrong how=element", [] {
        Card card;
        EXPECT_EQ(violations(card, "64x64x64"), 1u);
    });
}

TEST(FakeKernels, ZerosAreFound) {
    fake_test("rule symbol=^gemm_[^r] do=wrong how=zeros", [] {
        Card card;
        EXPECT_GT(violations(card, "64x64x64"), 3000u);
    });
}

TEST(FakeKernels, BigProblemsPassUnlessARuleSaysOtherwise) {
    fake_test("rule symbol=^gemm_[^r] nth=2 do=wrong how=element", [] {
        Card card;
        EXPECT_EQ(violations(card, "4096x4096x2048"), 0u);
        EXPECT_EQ(violations(card, "4096x4096x2048"), 1u);
        EXPECT_EQ(violations(card, "4096x4096x2048"), 0u);
    });
}

TEST(FakeKernels, WriteBehindTheOutputShowsInTheRedZone) {
    fake_test("", [] {
        Card card;
        const gpu::Buffer zone = card.buffer(4096, kRedzoneByte);
        const gpu::Buffer changed = card.buffer(8);
        card.harness("redzone_check", zone.address(), std::uint64_t{4096}, kRedzoneByte, changed.address());
        EXPECT_EQ(Card::read<std::uint64_t>(changed), 0u);
        card.harness("poison", zone.address() + 100, std::uint64_t{3}, kPoisonByte);
        card.harness("redzone_check", zone.address(), std::uint64_t{4096}, kRedzoneByte, changed.address());
        EXPECT_EQ(Card::read<std::uint64_t>(changed), 3u);
    });
}

TEST(FakeKernels, CanaryGivesTheKnownSum) {
    fake_test("", [] {
        Card card;
        const gpu::Buffer sum = card.buffer(8);
        card.harness("canary", sum.address(), std::uint32_t{100});
        EXPECT_EQ(Card::read<std::uint64_t>(sum), canary_sum(100));
    });
}

TEST(FakeKernels, ChecksumSeesOneByte) {
    fake_test("", [] {
        Card card;
        gpu::Buffer data = card.buffer(1000, 1);
        const gpu::Buffer before = card.buffer(8);
        const gpu::Buffer after = card.buffer(8);
        card.harness("checksum", data.address(), std::uint64_t{1000}, before.address());
        const std::array<std::byte, 1> other{std::byte{2}};
        data.upload(other, 999);
        card.harness("checksum", data.address(), std::uint64_t{1000}, after.address());
        EXPECT_NE(Card::read<std::uint64_t>(before), Card::read<std::uint64_t>(after));
    });
}

TEST(FakeKernels, AnotherPlansSmallerLimitOfSharedMemoryLowersNothing) {
    fake_test("", [] {
        Card card;
        EXPECT_EQ(card.launch_after_two_limits(200000, 100000), 0);
        EXPECT_EQ(card.launch_after_two_limits(100000, 200000), 0);
    });
}

TEST(FakeKernels, CompilesCanBeRefusedByAParameter) {
    fake_test("rule on=compile symbol=^gemm_[^r] do=fail message=\"no such tile\"", [] {
        Card card;
        const Problem problem = gemm(card, "hgemm", "64x64x64", {});
        const Family* family = card.catalogue().families_of("gemm").front();
        const SearchSpace space = family->space(problem, card.device());
        const auto nvrtc = gpu::Nvrtc::load({});
        const auto rendered =
            jit::render(card.catalogue(), *family, problem, space, space.default_config, {"sm_90a", nvrtc->version()});
        const auto result = jit::compile(*nvrtc, jit::CubinCache(""), rendered);
        EXPECT_FALSE(result.compiled);
        EXPECT_NE(result.failure.find("no such tile"), std::string::npos) << result.failure;
    });
}

}  // namespace
}  // namespace autotune::test
