// Compares the device's fills and comparisons with the host's, bit for bit, and the reference kernel with the same sums in
// double.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernel_templates/harness/fill.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/compiler.h"
#include "src/jit/kernel.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/nvrtc_for_tests.h"
#include "tuner/fixture/harness.h"

namespace autotune::test {
namespace {

constexpr std::uint64_t kSeed = 42;
constexpr double kMostBytes = 1 << 26;
constexpr double kMostFlops = 2e8;
// The denominator of relative errors is at least this, so that values near 0 do not dominate.
constexpr double kSumScale = 1e-3;

class HarnessOnGpu : public GpuTest {
  protected:
    void SetUp() override {
        GpuTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        nvrtc_ = gpu::Nvrtc::load(test::nvrtc_search());
        stream_.emplace(driver());
        harness_.emplace(driver(), load(jit::render_harness(catalogue_, target())), *stream_);
    }
    void TearDown() override {
        harness_.reset();
        stream_.reset();
        GpuTest::TearDown();
    }

    jit::Target target() const { return {device().arch(), nvrtc_->version()}; }
    std::shared_ptr<const gpu::Library> load(const jit::Rendered& rendered) const {
        const jit::CompileResult result = jit::compile(*nvrtc_, jit::CubinCache(""), rendered);
        if (!result.compiled) throw Error(ErrorCode::compile_failed, result.failure + "\n" + result.log);
        return std::make_shared<const gpu::Library>(driver(), result.compiled->cubin);
    }

    // The tensor's memory on the device, with every byte 0xFF.
    gpu::Buffer poisoned(const Tensor& tensor) const {
        gpu::Buffer buffer(driver(), static_cast<std::size_t>(tensor.span_bytes()));
        buffer.fill_bytes(0xFF);
        return buffer;
    }
    // The bits of the tensor's elements after all enqueued work.
    std::vector<std::uint64_t> bits_of(const Tensor& tensor, const gpu::Buffer& buffer) const {
        stream_->synchronize();
        std::vector<std::byte> bytes(buffer.bytes());
        buffer.download(bytes);
        const std::size_t size = size_bytes(tensor.dtype);
        std::vector<std::uint64_t> bits(bytes.size() / size);
        for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(&bits[i], bytes.data() + i * size, size);
        return bits;
    }
    gpu::Buffer uploaded(const std::vector<double>& values) const {
        gpu::Buffer buffer(driver(), values.size() * sizeof(double));
        buffer.upload(std::as_bytes(std::span(values)));
        return buffer;
    }

    std::uint64_t altered_bytes(const std::vector<tuner::Region>& zones) {
        tuner::DeviceChecks checks(*harness_);
        const auto question = checks.altered_bytes(zones);
        checks.wait();
        return checks.number(question);
    }
    std::uint64_t altered_gap_bytes(const Tensor& tensor, gpu::DeviceAddress address) {
        tuner::DeviceChecks checks(*harness_);
        const auto question = checks.altered_gap_bytes(tensor, address);
        checks.wait();
        return checks.number(question);
    }

    Catalogue catalogue_ = Catalogue::embedded();
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    std::optional<gpu::Stream> stream_;
    std::optional<tuner::Harness> harness_;
};

class ReferenceOnGpu : public HarnessOnGpu {
  protected:
    void compare_with_host(const Op& op, const Problem& problem, const OpTest& test);

    void launch_reference(const Op& op, const Problem& problem, const OpTest& test, jit::LaunchInputs inputs) {
        const std::vector<std::uint64_t> scalars = problem.scalar_bits();
        inputs.scalars = scalars;
        const jit::Rendered rendered = jit::render_reference(catalogue_, op, problem, target());
        LaunchPlan plan = op.reference_plan(problem, test);
        gpu::Buffer workspace(driver(), std::max<std::size_t>(plan.workspace_bytes, 1));
        workspace.fill_bytes(0);
        inputs.workspace = workspace.address();
        const jit::BoundLaunch launch(driver(), load(rendered), rendered.symbol, problem, std::move(plan));
        ASSERT_EQ(launch.enqueue(inputs, stream_->handle()), 0);
        stream_->synchronize();
    }
    static std::vector<double> downloaded(const gpu::Buffer& buffer) {
        std::vector<double> values(buffer.bytes() / sizeof(double));
        buffer.download(std::as_writable_bytes(std::span(values)));
        return values;
    }
    static void expect_near(const std::vector<double>& found, const std::vector<double>& wanted, double relative,
                            const std::string& what) {
        ASSERT_EQ(found.size(), wanted.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
            if (found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i]))) continue;  // infinities too
            ASSERT_NEAR(found[i], wanted[i], relative * (kSumScale + std::fabs(wanted[i]))) << what << " element " << i;
        }
    }
};

constexpr std::int64_t kBatchStride = 37 * 61 + 5;

// Two batches of 37x53 in padded rows.
Tensor padded(DType type) {
    Tensor tensor;
    tensor.name = "x";
    tensor.dtype = type;
    tensor.dims = {{2, kBatchStride}, {37, 61}, {53, 1}};
    return tensor;
}

std::vector<Fill> fills_of_every_kind() {
    Fill sparse = Fill::normal();
    sparse.every = 7;
    return {Fill::normal(),
            sparse,
            Fill::normal(0.25F, 3),
            Fill::integers(),
            Fill::indices(1000),
            Fill::constant(1.3F),
            Fill::one_hot(4, -1),
            Fill::powers(-3, 3),
            Fill::uniform(0.5F, 1.5F),
            Fill::quantised(DType::e4m3, 2),
            Fill::offsets(1 << 20, 300, 9000)};
}

TEST_F(HarnessOnGpu, FillsWithTheHostsBits) {
    for (const DTypeTraits& traits : kDTypes) {
        for (const Fill& fill : fills_of_every_kind()) {
            const Tensor tensor = padded(traits.type);
            const gpu::Buffer buffer = poisoned(tensor);
            harness_->fill(tensor, buffer.address(), 1, fill, kSeed);
            const std::vector<std::uint64_t> device_bits = bits_of(tensor, buffer);
            const std::vector<double> host = filled_tensor(fill, tensor, 1, kSeed);
            for (std::size_t i = 0; i < host.size(); ++i) {
                if (std::isnan(host[i])) continue;  // a gap
                ASSERT_EQ(device_bits[i], encode(traits.type, host[i]))
                    << traits.word << " fill " << static_cast<int>(fill.kind) << " element " << i;
            }
        }
    }
}

// The strides are of every kind that matrices do not have: the batch fastest in memory, a transposed pair, gaps at three levels.
TEST_F(HarnessOnGpu, FillsAndComparesTensorsOfFiveDimensions) {
    Tensor tensor;
    tensor.name = "x";
    tensor.dtype = DType::f16;
    tensor.dims = {{2, 1}, {3, 2000}, {5, 4}, {7, 256}, {6, 30}};
    const gpu::Buffer buffer = poisoned(tensor);
    harness_->fill(tensor, buffer.address(), 3, Fill::normal(), kSeed);
    const std::vector<std::uint64_t> device_bits = bits_of(tensor, buffer);
    const std::vector<double> host = filled_tensor(Fill::normal(), tensor, 3, kSeed);
    std::vector<double> dense;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const auto at = static_cast<std::size_t>(tensor.offset_of(i));
        dense.push_back(host[at]);
        ASSERT_EQ(device_bits[at], encode(tensor.dtype, host[at])) << i;
    }
    EXPECT_EQ(altered_gap_bytes(tensor, buffer.address()), 0U);
    const gpu::Buffer right = uploaded(dense), allowed = uploaded(std::vector<double>(dense.size(), 0));
    tuner::DeviceChecks checks(*harness_);
    const auto question = checks.compare(tensor, buffer.address(), right.address(), allowed.address());
    checks.wait();
    EXPECT_EQ(checks.comparison(question).violations, 0U);
    EXPECT_EQ(checks.comparison(question).max_ratio, 0);
}

TEST_F(HarnessOnGpu, FillLeavesTheGapsAlone) {
    const Tensor tensor = padded(DType::f16);
    const gpu::Buffer buffer = poisoned(tensor);
    harness_->fill(tensor, buffer.address(), 0, Fill::normal(), kSeed);
    EXPECT_EQ(altered_gap_bytes(tensor, buffer.address()), 0U);
}

TEST_F(HarnessOnGpu, CountsBytesWrittenIntoGapsOfRowsAndBatches) {
    const Tensor tensor = padded(DType::f16);
    gpu::Buffer buffer = poisoned(tensor);
    const std::vector<std::byte> one(1);
    buffer.upload(one, 2 * 53);                                          // after the first row
    buffer.upload(one, 2 * static_cast<std::size_t>(kBatchStride - 1));  // before the second batch
    EXPECT_EQ(altered_gap_bytes(tensor, buffer.address()), 2U);
}

TEST_F(HarnessOnGpu, NanFillIsNanInEveryType) {
    for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64, DType::e4m3, DType::e5m2}) {
        const Tensor tensor = padded(type);
        gpu::Buffer buffer(driver(), static_cast<std::size_t>(tensor.span_bytes()));
        buffer.fill_bytes(0);
        harness_->fill(tensor, buffer.address(), 2, Fill::nan(), kSeed);
        EXPECT_TRUE(std::isnan(decode(type, bits_of(tensor, buffer)[60 + 7])));
        harness_->poison(tensor, buffer.address());
        EXPECT_TRUE(std::isnan(decode(type, bits_of(tensor, buffer)[0])));
    }
}

// The values make rounding, infinities, NaN, subnormals and zero bounds matter.
TEST_F(HarnessOnGpu, ComparesAsTheHostDoes) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    const std::vector<double> expected = {1.0, 2049.5, 2049.0000001, -3.0, kNan, kInf, 1e6, 0.0, 3e-8, 5.0, kNan, 7.0};
    const std::vector<double> bound = {0.5, 0, 0, 0.25, 1, 1, 0, 0, 0, 0, 1, 10};
    const std::vector<double> out = {1.5, 2050, 2050, -3.5, kNan, kInf, kInf, -0.0, 0.0, 5.0, 1.0, kNan};
    for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
        Tensor tensor = padded(type);
        tensor.dims = dense_dims({3, 4});
        std::vector<std::byte> bytes(out.size() * size_bytes(type));
        CompareResult host;
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::uint64_t bits = encode(type, out[i]);
            std::memcpy(bytes.data() + i * size_bytes(type), &bits, size_bytes(type));
            compare_element(host, type, bits, expected[i], bound[i], i);
        }
        gpu::Buffer buffer(driver(), bytes.size());
        buffer.upload(bytes);
        const gpu::Buffer right = uploaded(expected), allowed = uploaded(bound);
        tuner::DeviceChecks checks(*harness_);
        const auto question = checks.compare(tensor, buffer.address(), right.address(), allowed.address());
        checks.wait();
        const CompareResult found = checks.comparison(question);
        EXPECT_EQ(found.violations, host.violations) << to_string(type);
        EXPECT_EQ(found.first_wrong_complement, host.first_wrong_complement) << to_string(type);
        EXPECT_EQ(found.nan_count, host.nan_count) << to_string(type);
        EXPECT_EQ(found.max_ratio, host.max_ratio) << to_string(type);
        EXPECT_DOUBLE_EQ(found.max_accumulation, host.max_accumulation) << to_string(type);
        EXPECT_DOUBLE_EQ(found.sum_error2, host.sum_error2) << to_string(type);
        EXPECT_DOUBLE_EQ(found.sum_expected2, host.sum_expected2) << to_string(type);
    }
}

TEST_F(HarnessOnGpu, ChecksumSeesOneBitAndWhereItStands) {
    gpu::Buffer buffer(driver(), 1001);
    buffer.fill_bytes(0);
    const tuner::Region all = {buffer.address(), buffer.bytes()};
    const std::uint64_t zeros = harness_->checksum(all);
    const std::vector<std::byte> one(1, std::byte{1});
    const std::vector<std::byte> zero(1);
    buffer.upload(one, 8);
    const std::uint64_t early = harness_->checksum(all);
    buffer.upload(zero, 8);
    buffer.upload(one, 1000);
    const std::uint64_t late = harness_->checksum(all);
    buffer.upload(zero, 1000);
    EXPECT_EQ(harness_->checksum(all), zeros);
    EXPECT_NE(early, zeros);
    EXPECT_NE(late, zeros);
    EXPECT_NE(late, early);
}

TEST_F(HarnessOnGpu, RedZonesCountEveryAlteredByte) {
    gpu::Buffer buffer(driver(), 4096);
    buffer.fill_bytes(static_cast<std::uint8_t>(kRedzoneByte));
    EXPECT_EQ(altered_bytes({{buffer.address(), 4096}}), 0U);
    buffer.upload(std::vector<std::byte>(3), 4000);
    EXPECT_EQ(altered_bytes({{buffer.address(), 4096}}), 3U);
}

// The tensor is so large that each block of a launch that fills the card has a part of it.
TEST_F(HarnessOnGpu, AnInquiryAnswersForTheMomentOfEachQuestion) {
    Tensor tensor;
    tensor.name = "x";
    tensor.dtype = DType::f16;
    tensor.dims = dense_dims({4096, 4096});
    gpu::Buffer buffer(driver(), static_cast<std::size_t>(tensor.span_bytes()));
    const tuner::Region all = {buffer.address(), buffer.bytes()};
    std::vector<std::uint64_t> alone;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        harness_->fill(tensor, buffer.address(), 0, Fill::normal(), seed);
        alone.push_back(harness_->checksum(all));
    }
    EXPECT_NE(alone[0], alone[1]);
    tuner::DeviceChecks checks(*harness_);
    std::vector<tuner::DeviceChecks::CheckId> sums;
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
        harness_->fill(tensor, buffer.address(), 0, Fill::normal(), seed);
        sums.push_back(checks.checksum(all));
    }
    harness_->poison(tensor, buffer.address());
    const auto changed = checks.altered_bytes({all});
    checks.wait();
    for (std::size_t i = 0; i < sums.size(); ++i) EXPECT_EQ(checks.number(sums[i]), alone[i]) << i;
    EXPECT_EQ(checks.number(changed), all.bytes);
}

TEST_F(HarnessOnGpu, TheCanaryAnswersAsTheHostComputes) {
    EXPECT_TRUE(harness_->canary());
}

// Runs the op's reference on the device and on the host, over the same values.
void ReferenceOnGpu::compare_with_host(const Op& op, const Problem& problem, const OpTest& test) {
    std::vector<gpu::Buffer> buffers;
    std::vector<gpu::DeviceAddress> addresses;
    std::vector<std::vector<double>> tensors;
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
        const Tensor& tensor = problem.tensors[i];
        if (tensor.is_absent) {
            addresses.push_back(0);
            tensors.emplace_back();
            continue;
        }
        buffers.push_back(poisoned(tensor));
        addresses.push_back(buffers.back().address());
        harness_->fill(tensor, addresses.back(), static_cast<int>(i), test.fills[i], kSeed);
        tensors.push_back(filled_tensor(test.fills[i], tensor, static_cast<int>(i), kSeed));
    }
    const std::vector<Expected> right = op.reference_on_host(problem, test, tensors);
    ASSERT_EQ(right.size(), test.outputs.size());

    std::vector<gpu::Buffer> device_expected, device_bounds;
    std::vector<gpu::DeviceAddress> expected, bounds;
    for (const Expected& output : right) {
        const std::vector<double> unset(output.values.size(), -1);
        device_expected.push_back(uploaded(unset));
        device_bounds.push_back(uploaded(unset));
        expected.push_back(device_expected.back().address());
        bounds.push_back(device_bounds.back().address());
    }
    launch_reference(op, problem, test, {.tensors = addresses, .scalars = {}, .expected = expected, .bounds = bounds});
    for (std::size_t i = 0; i < right.size(); ++i) {
        expect_near(downloaded(device_expected[i]), right[i].values, 1e-9, problem.key());
        expect_near(downloaded(device_bounds[i]), right[i].bounds, 1e-5, problem.key() + " bound");
    }
}

std::vector<std::string> op_names() {
    const Catalogue catalogue = Catalogue::embedded();
    std::vector<std::string> names;
    for (const Op* op : catalogue.ops()) names.emplace_back(op->name());
    return names;
}

// There is one test for each op, because all together take the host minutes.
class ReferenceOfOp : public ReferenceOnGpu, public ::testing::WithParamInterface<std::string> {};

TEST_P(ReferenceOfOp, AgreesWithTheHostOnEveryExample) {
    const Op& op = *catalogue_.find_op(GetParam());
    for (ProblemRequest request : op.examples()) {
        if (op.name() == "gemm") request.shape = "3*65x70x131";
        request.options.erase("ldb");
        const Problem problem = catalogue_.problem(request);
        // The host is slow, and the largest problems fit on no card.
        if (op.bytes(problem) > kMostBytes || op.flops(problem) > kMostFlops) continue;
        for (const OpTest& test : op.tests(problem)) compare_with_host(op, problem, test);
    }
}

INSTANTIATE_TEST_SUITE_P(Each, ReferenceOfOp, ::testing::ValuesIn(op_names()), [](const auto& entry) { return entry.param; });

}  // namespace
}  // namespace autotune::test
