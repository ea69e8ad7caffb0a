#include "tuner/workbench.h"

#include <algorithm>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

constexpr std::size_t kMostRotationSets = 1024;  // a graph of more launches takes longer to build than to run
constexpr std::size_t kSetAlignment = 512;
// With a footprint of two L2s an H200 sometimes kept part of a rotation: cublasGemmEx 512^3 took 3.5, 3.7 or 4.2 us by the run.
constexpr std::size_t kL2s = 4, kL2sOfBandwidth = 8;

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

gpu::Buffer doubles_for(const std::shared_ptr<const gpu::Driver>& driver, std::int64_t count) {
    return {driver, std::max<std::size_t>(static_cast<std::size_t>(count) * sizeof(double), sizeof(double))};
}

}  // namespace

Workbench::Workbench(BenchGpu& gpu, Harness& harness, const Op& op, Problem problem, const Options& options)
    : gpu_(gpu), harness_(harness), op_(op), problem_(std::move(problem)), seed_(options.seed) {
    scalars_ = problem_.scalar_bits();
    make_tests();
    if (options.timing) make_rotation(options);
    gpu_.stream.synchronize();
}

std::size_t Workbench::bytes_of_set() const {
    std::size_t bytes = 0;
    for (const Tensor& tensor : problem_.tensors) bytes += static_cast<std::size_t>(tensor.span_bytes());
    return bytes;
}

void Workbench::make_tests() {
    for (OpTest& test : op_.tests(problem_)) {
        check(test.fills.size() == problem_.tensors.size(), "a test has one fill per tensor");
        TestBench bench{std::move(test), {}, {}, {}};
        for (const Tensor& tensor : problem_.tensors) {
            if (tensor.is_absent) {
                bench.tensors.buffers.emplace_back();
                bench.tensors.addresses.push_back(0);
                continue;
            }
            bench.tensors.buffers.emplace_back(gpu_.driver, static_cast<std::size_t>(tensor.span_bytes()),
                                               tensor.alignment_bytes);
            bench.tensors.addresses.push_back(bench.tensors.buffers.back().address());
        }
        fill_set(bench.tensors, bench.test.fills);
        tests_.push_back(std::move(bench));
    }
}

TestBench& Workbench::typical() {
    const auto found = std::find_if(tests_.begin(), tests_.end(), [](const TestBench& bench) { return bench.test.is_typical; });
    check(found != tests_.end(), "an op has one typical test");
    return *found;
}

void Workbench::fill_set(TensorSet& set, const std::vector<Fill>& fills) {
    set.checksums.assign(problem_.tensors.size(), 0);
    for (std::size_t i = 0; i < problem_.tensors.size(); ++i) {
        const Tensor& tensor = problem_.tensors[i];
        if (tensor.is_absent) continue;
        harness_.fill(tensor, set.addresses[i], static_cast<int>(i), fills[i], seed_);
        if (tensor.access == Access::in) set.checksums[i] = harness_.checksum(set.buffers[i].contents());
    }
}

void Workbench::restore_outputs(TestBench& bench) {
    for (std::size_t i = 0; i < problem_.tensors.size(); ++i) {
        const Tensor& tensor = problem_.tensors[i];
        if (!tensor.is_written()) continue;
        harness_.poison(tensor, bench.tensors.addresses[i]);
        if (tensor.access == Access::inout) {
            harness_.fill(tensor, bench.tensors.addresses[i], static_cast<int>(i), bench.test.fills[i], seed_);
        }
    }
}

Reference Workbench::compute_reference(const Code& reference, bool affordable) {
    if (affordable && std::all_of(tests_.begin(), tests_.end(), [&](const TestBench& test) { return fits(test); })) {
        const Excerpt whole{problem_, std::vector<std::int64_t>(problem_.tensors.size(), 0)};
        for (TestBench& test : tests_) compute_answer(test, whole, reference);
        return Reference::full;
    }
    const std::vector<Excerpt> parts = op_.excerpts(problem_, seed_);
    if (parts.empty()) return Reference::none;
    for (TestBench& test : tests_) {
        make_product_check(test);
        for (const Excerpt& part : parts) compute_answer(test, part, reference);
    }
    return Reference::sampled;
}

// Expected values and bounds of all tests, beside what else is to live there.
bool Workbench::fits(const TestBench& bench) const {
    std::size_t bytes = 0;
    for (const OutputCheck& output : bench.test.outputs) {
        const Tensor& out = problem_.tensors[static_cast<std::size_t>(output.tensor)];
        bytes += static_cast<std::size_t>(out.elements()) * sizeof(double);
    }
    return 2 * bytes * tests_.size() <= gpu_.context.free_bytes() / 10 * 9;
}

void Workbench::compute_answer(TestBench& bench, const Excerpt& part, const Code& reference) {
    std::vector<gpu::DeviceAddress> expected, bounds, addresses;
    const std::size_t first_answer = bench.answers.size();
    for (std::size_t output = 0; output < bench.test.outputs.size(); ++output) {
        const auto index = static_cast<std::size_t>(bench.test.outputs[output].tensor);
        Answer answer{output, part.problem.tensors[index], part.first[index], {}, {}};
        answer.expected = doubles_for(gpu_.driver, answer.out.elements());
        answer.bound = doubles_for(gpu_.driver, answer.out.elements());
        bench.answers.push_back(std::move(answer));
    }
    for (std::size_t i = first_answer; i < bench.answers.size(); ++i) {
        expected.push_back(bench.answers[i].expected.address());
        bounds.push_back(bench.answers[i].bound.address());
    }
    for (std::size_t i = 0; i < part.first.size(); ++i) {
        const auto first = static_cast<std::size_t>(part.first[i]) * size_bytes(problem_.tensors[i].dtype);
        addresses.push_back(bench.tensors.addresses[i] + first);
    }
    restore_outputs(bench);
    LaunchPlan plan = op_.reference_plan(part.problem, bench.test);
    gpu::Buffer workspace(gpu_.driver, std::max<std::size_t>(plan.workspace_bytes, 1));
    workspace.fill_bytes(0);
    const jit::BoundLaunch launch(gpu_.driver, reference.library, reference.symbol, part.problem, std::move(plan));
    jit::LaunchInputs inputs;
    inputs.tensors = addresses;
    inputs.scalars = scalars_;
    inputs.workspace = workspace.address();
    inputs.expected = expected;
    inputs.bounds = bounds;
    gpu::throw_if_failed(*gpu_.driver, launch.enqueue(inputs, gpu_.stream.handle()), "launch of the reference");
    gpu_.stream.synchronize();
}

// The test's numbers give way to those with which the whole answer can be checked as a product.
void Workbench::make_product_check(TestBench& bench) {
    if (!bench.test.product) return;
    bench.test.fills = bench.test.product->fills;
    fill_set(bench.tensors, bench.test.fills);
    restore_outputs(bench);
    bench.product.emplace(harness_, problem_, *bench.test.product, bench.tensors.addresses, seed_);
}

Runnable Workbench::bind(const Code& code, LaunchPlan plan) {
    Runnable runnable;
    runnable.deterministic = plan.deterministic;
    gpu::DeviceAddress workspace = 0;
    if (plan.workspace_bytes > 0) {
        runnable.workspace = GuardedBuffer(gpu_.driver, plan.workspace_bytes);
        const std::vector<std::byte> zeros(plan.workspace_zero_bytes);
        if (!zeros.empty()) runnable.workspace.memory().upload(zeros, runnable.workspace.offset());
        workspace = runnable.workspace.address();
    }
    const auto launch = std::make_shared<jit::BoundLaunch>(gpu_.driver, code.library, code.symbol, problem_, std::move(plan));
    runnable.enqueue = [this, launch, workspace](std::span<const gpu::DeviceAddress> tensors) {
        const jit::LaunchInputs inputs{.tensors = tensors, .scalars = scalars_, .workspace = workspace};
        gpu::throw_if_failed(*gpu_.driver, launch->enqueue(inputs, gpu_.stream.handle()), "launch");
    };
    return runnable;
}

// Tensors of the same name lie side by side in one guarded buffer, so that thousands of small sets cost a few allocations.
void Workbench::make_rotation(const Options& options) {
    const std::size_t l2_bytes = static_cast<std::size_t>(std::max(gpu_.device.identity.l2_mib, 1)) << 20;
    const std::size_t set_bytes = std::max<std::size_t>(bytes_of_set(), 1);
    const std::size_t wanted = options.l2_warm ? set_bytes : l2_bytes * (options.bandwidth_bound ? kL2sOfBandwidth : kL2s);
    const std::size_t room = std::max<std::size_t>(gpu_.context.free_bytes() / 2 / (set_bytes + 4 * kSetAlignment), 1);
    const std::size_t sets = std::clamp<std::size_t>((wanted + set_bytes - 1) / set_bytes, 1, std::min(kMostRotationSets, room));
    rotation_.resize(sets);
    const std::vector<Fill>& fills = typical().test.fills;
    for (std::size_t i = 0; i < problem_.tensors.size(); ++i) rotate(i, fills[i], sets);
    footprint_bytes_ = sets * set_bytes;
}

// One launch for all sets where they can be told as one more dimension: a thousand launches a tensor take noticeable time.
void Workbench::rotate(std::size_t index, const Fill& fill, std::size_t sets) {
    const Tensor& tensor = problem_.tensors[index];
    if (tensor.is_absent) {
        for (auto& set : rotation_) set.push_back(0);
        return;
    }
    const std::size_t stride = round_up(static_cast<std::size_t>(tensor.span_bytes()) + 16, kSetAlignment);
    arena_.emplace_back(gpu_.driver, stride * sets, tensor.alignment_bytes);
    for (std::size_t set = 0; set < sets; ++set) rotation_[set].push_back(arena_.back().address() + set * stride);
    const bool at_once = tensor.dims.size() < Tensor::kMostDims;
    Tensor filled = tensor;
    if (at_once) {
        filled.dims.insert(filled.dims.begin(),
                           {static_cast<std::int64_t>(sets), static_cast<std::int64_t>(stride / size_bytes(tensor.dtype))});
    }
    for (std::size_t set = 0; set < (at_once ? 1 : sets); ++set)
        harness_.fill(filled, rotation_[set][index], static_cast<int>(index), fill, seed_ + set);
}

std::span<const gpu::DeviceAddress> Workbench::rotation(int set) const {
    return rotation_[static_cast<std::size_t>(set) % rotation_.size()];
}

}  // namespace autotune::tuner
