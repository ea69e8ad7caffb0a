#include "tuner/workbench.h"

#include <algorithm>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

constexpr std::size_t kMostRotationSets = 1024;  // a graph of more launches takes longer to build than to run
constexpr std::size_t kSetAlignment = 512;

std::size_t round_up(std::size_t value, std::size_t unit) {
    return (value + unit - 1) / unit * unit;
}

bool is_written(const Operand& operand) {
    return operand.access != Access::in;
}

}  // namespace

Workbench::Workbench(BenchGpu& gpu, Harness& harness, const Op& op, Problem problem, const Options& options)
    : gpu_(gpu), harness_(harness), op_(op), problem_(std::move(problem)), seed_(options.seed) {
    for (const Scalar& scalar : problem_.scalars) scalars_.push_back(static_cast<float>(scalar.value));
    make_tests();
    if (options.timing) make_rotation(options);
    gpu_.stream.synchronize();
}

std::size_t Workbench::bytes_of_set() const {
    std::size_t bytes = 0;
    for (const Operand& operand : problem_.operands) bytes += static_cast<std::size_t>(operand.span_bytes());
    return bytes;
}

void Workbench::make_tests() {
    for (const TestKind kind : {TestKind::exact, TestKind::numeric}) {
        TestBench test;
        test.kind = kind;
        test.check = op_.check(problem_, kind);
        check(test.check.fills.size() == problem_.operands.size(), "an op's check has one fill per operand");
        for (const Operand& operand : problem_.operands) {
            test.operands.buffers.emplace_back(gpu_.driver, static_cast<std::size_t>(operand.span_bytes()),
                                               operand.alignment_bytes);
            test.operands.addresses.push_back(test.operands.buffers.back().address());
        }
        fill_set(test.operands, test.check);
        tests_.push_back(std::move(test));
    }
}

void Workbench::fill_set(OperandSet& set, const Check& check) {
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
        harness_.fill(problem_.operands[i], set.addresses[i], static_cast<int>(i), check.fills[i], seed_);
        const bool is_input = problem_.operands[i].access == Access::in;
        set.checksums.push_back(is_input ? harness_.checksum(set.buffers[i].contents()) : 0);
    }
}

void Workbench::restore_outputs(TestBench& test) {
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
        const Operand& operand = problem_.operands[i];
        if (!is_written(operand)) continue;
        harness_.poison(operand, test.operands.addresses[i]);
        if (operand.access == Access::inout) {
            harness_.fill(operand, test.operands.addresses[i], static_cast<int>(i), test.check.fills[i], seed_);
        }
    }
}

Reference Workbench::compute_reference(const Code& reference, bool affordable) {
    if (affordable && std::all_of(tests_.begin(), tests_.end(), [&](const TestBench& test) { return fits(test); })) {
        const Excerpt whole{problem_, std::vector<std::int64_t>(problem_.operands.size(), 0)};
        for (TestBench& test : tests_) compute_answer(test, whole, reference);
        return Reference::full;
    }
    const std::vector<Excerpt> parts = op_.excerpts(problem_, seed_);
    if (parts.empty()) return Reference::none;
    for (TestBench& test : tests_) {
        if (test.kind == TestKind::exact) make_product_check(test);
        for (const Excerpt& part : parts) compute_answer(test, part, reference);
    }
    return Reference::sampled;
}

// Expected values and bounds of all tests, beside what else is to live there.
bool Workbench::fits(const TestBench& test) const {
    const Operand& out = problem_.operands[static_cast<std::size_t>(test.check.operand)];
    const auto bytes = static_cast<std::size_t>(out.rows * out.cols * out.batch) * sizeof(double);
    return 2 * bytes * tests_.size() <= gpu_.context.free_bytes() / 10 * 9;
}

void Workbench::compute_answer(TestBench& test, const Excerpt& part, const Code& reference) {
    const auto index = static_cast<std::size_t>(test.check.operand);
    Answer answer{part.problem.operands[index], part.first[index], {}, {}};
    const auto bytes = static_cast<std::size_t>(answer.out.rows * answer.out.cols * answer.out.batch) * sizeof(double);
    answer.expected = gpu::Buffer(gpu_.driver, std::max<std::size_t>(bytes, 8));
    answer.bound = gpu::Buffer(gpu_.driver, std::max<std::size_t>(bytes, 8));
    std::vector<gpu::DeviceAddress> addresses;
    for (std::size_t i = 0; i < part.first.size(); ++i) {
        const auto first = static_cast<std::size_t>(part.first[i]) * size_bytes(problem_.operands[i].dtype);
        addresses.push_back(test.operands.addresses[i] + first);
    }
    restore_outputs(test);
    const jit::BoundLaunch launch(gpu_.driver, reference.library, reference.symbol, part.problem,
                                  op_.reference_plan(part.problem, test.kind));
    jit::LaunchInputs inputs;
    inputs.operands = addresses;
    inputs.scalars = scalars_;
    inputs.expected = answer.expected.address();
    inputs.bound = answer.bound.address();
    gpu::throw_if_failed(*gpu_.driver, launch.enqueue(inputs, gpu_.stream.handle()), "launch of the reference");
    gpu_.stream.synchronize();
    test.answers.push_back(std::move(answer));
}

// The exact test's numbers give way to those with which the whole answer can be checked as a product.
void Workbench::make_product_check(TestBench& test) {
    const std::optional<ProductForm> form = op_.product_form(problem_);
    if (!form) return;
    test.check.fills = form->fills;
    test.operands.checksums.clear();
    fill_set(test.operands, test.check);
    restore_outputs(test);
    test.product.emplace(harness_, problem_, *form, test.operands.addresses, seed_);
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
    runnable.enqueue = [this, launch, workspace](std::span<const gpu::DeviceAddress> operands) {
        const jit::LaunchInputs inputs{.operands = operands, .scalars = scalars_, .workspace = workspace};
        gpu::throw_if_failed(*gpu_.driver, launch->enqueue(inputs, gpu_.stream.handle()), "launch");
    };
    return runnable;
}

// Operands of the same kind lie side by side in one guarded buffer, so that thousands of small sets cost a few allocations.
void Workbench::make_rotation(const Options& options) {
    const std::size_t l2_bytes = static_cast<std::size_t>(std::max(gpu_.device.identity.l2_mib, 1)) << 20;
    const std::size_t set_bytes = std::max<std::size_t>(bytes_of_set(), 1);
    const std::size_t wanted = options.l2_warm ? set_bytes : l2_bytes * (options.bandwidth_bound ? 8 : 2);
    const std::size_t room = std::max<std::size_t>(gpu_.context.free_bytes() / 2 / (set_bytes + 4 * kSetAlignment), 1);
    const std::size_t sets = std::clamp<std::size_t>((wanted + set_bytes - 1) / set_bytes, 1, std::min(kMostRotationSets, room));
    rotation_.resize(sets);
    const Check numeric = op_.check(problem_, TestKind::numeric);
    for (std::size_t i = 0; i < problem_.operands.size(); ++i) {
        const Operand& operand = problem_.operands[i];
        const std::size_t stride = round_up(static_cast<std::size_t>(operand.span_bytes()) + 16, kSetAlignment);
        arena_.emplace_back(gpu_.driver, stride * sets, operand.alignment_bytes);
        for (std::size_t set = 0; set < sets; ++set) rotation_[set].push_back(arena_.back().address() + set * stride);
        // One launch for all sets where they can be told as a batch: a thousand launches an operand would be felt.
        Operand all = operand;
        if (operand.batch == 1) {
            all.batch = static_cast<std::int64_t>(sets);
            all.batch_stride = static_cast<std::int64_t>(stride / size_bytes(operand.dtype));
        }
        const std::size_t fills = operand.batch == 1 ? 1 : sets;
        for (std::size_t set = 0; set < fills; ++set) {
            harness_.fill(all, rotation_[set].back(), static_cast<int>(i), numeric.fills[i], seed_ + set);
        }
    }
    footprint_bytes_ = sets * set_bytes;
}

std::span<const gpu::DeviceAddress> Workbench::rotation(int set) const {
    return rotation_[static_cast<std::size_t>(set) % rotation_.size()];
}

}  // namespace autotune::tuner
