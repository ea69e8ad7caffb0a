#include "tests/conformance/overlap_chain.h"

#include <algorithm>
#include <cmath>

#include "src/core/error.h"

namespace autotune::test {
namespace {

std::size_t bytes_of(const Tensor& tensor) {
    return std::max<std::size_t>(static_cast<std::size_t>(tensor.span_bytes()), 1);
}

LaunchPlan without_overlap(LaunchPlan plan) {
    for (LaunchStep& step : plan.steps) step.programmatic_dependent = false;
    return plan;
}

// Fills with values that neither vanish nor grow in a chain of products. Each output sums as many terms as a row has.
Fill weights(const Tensor& tensor) {
    const std::int64_t terms = tensor.dims.empty() ? 1 : tensor.dims.back().extent;
    return Fill::normal(0, static_cast<float>(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(terms, 1)))));
}

}  // namespace

OverlapChain::OverlapChain(std::shared_ptr<const gpu::Driver> driver, const gpu::Stream& stream, tuner::Harness& harness,
                           const std::vector<Kernel>& links)
    : driver_(std::move(driver)), stream_(stream), harness_(harness) {
    check(!links.empty() && hand_over(links.front().problem), "a chain has a link, whose output another one can read");
    handed_ = links.front().problem.tensors[static_cast<std::size_t>(hand_over(links.front().problem).written)];
    for (int i = 0; i < 2; ++i) buffers_.emplace_back(driver_, bytes_of(handed_));
    for (const Kernel& kernel : links) links_.push_back(make_link(kernel));
}

OverlapChain::Link OverlapChain::make_link(const Kernel& kernel) {
    Link link{kernel.problem,
              nullptr,
              nullptr,
              gpu::Buffer(driver_, std::max<std::size_t>(kernel.plan.workspace_bytes, 1)),
              kernel.problem.scalar_bits(),
              {},
              hand_over(kernel.problem)};
    link.workspace.fill_bytes(0);
    link.overlapping = std::make_unique<jit::BoundLaunch>(driver_, kernel.library, kernel.symbol, kernel.problem, kernel.plan);
    link.apart =
        std::make_unique<jit::BoundLaunch>(driver_, kernel.library, kernel.symbol, kernel.problem, without_overlap(kernel.plan));
    for (std::size_t i = 0; i < link.problem.tensors.size(); ++i) {
        const Tensor& tensor = link.problem.tensors[i];
        const bool is_handed = static_cast<int>(i) == link.hand.read || static_cast<int>(i) == link.hand.written;
        link.tensors.emplace_back(driver_, is_handed || tensor.is_absent ? 1 : bytes_of(tensor));
        if (!is_handed && !tensor.is_absent)
            harness_.fill(tensor, link.tensors.back().address(), static_cast<int>(i), weights(tensor), 7);
    }
    return link;
}

void OverlapChain::add_in_place(const Kernel& adding) {
    check(adding.problem.tensors.size() == 3, "the adding link adds two tensors");
    check(!links_.front().hand.accumulates(), "an addition reads two buffers");
    adding_.push_back(make_link(adding));
    adding_.back().in_place = true;
}

const gpu::Buffer& OverlapChain::buffer(int step) const {
    return buffers_[links_.front().hand.accumulates() ? 0 : static_cast<std::size_t>(step % 2)];
}

void OverlapChain::launch(const Link& link, bool overlapping, int step) {
    const gpu::DeviceAddress from = buffer(step).address(), to = buffer(step + 1).address();
    std::vector<gpu::DeviceAddress> addresses;
    for (std::size_t i = 0; i < link.tensors.size(); ++i) {
        const bool is_absent = link.problem.tensors[i].is_absent;
        addresses.push_back(is_absent ? 0 : link.tensors[i].address());
    }
    if (link.in_place) {
        addresses = {to, from, to};
    } else {
        addresses[static_cast<std::size_t>(link.hand.read)] = from;
        addresses[static_cast<std::size_t>(link.hand.written)] = to;
    }
    const jit::LaunchInputs inputs{.tensors = addresses, .scalars = link.scalars, .workspace = link.workspace.address()};
    const jit::BoundLaunch& launch = overlapping ? *link.overlapping : *link.apart;
    gpu::throw_if_failed(*driver_, launch.enqueue(inputs, stream_.handle()), "launch of a chain");
}

void OverlapChain::launch_step(int step, bool overlapping) {
    const auto launch_one = [&](const Link& link) {
        launch(link, overlapping, step);
        if (!overlapping) stream_.synchronize();
    };
    launch_one(links_[static_cast<std::size_t>(step) % links_.size()]);
    for (const Link& adding : adding_) launch_one(adding);
}

void OverlapChain::begin() {
    for (int i = 0; i < 2; ++i) harness_.fill(handed_, buffers_[static_cast<std::size_t>(i)].address(), i, Fill::normal(), 99);
    stream_.synchronize();
}

std::uint64_t OverlapChain::end(int steps) const {
    return harness_.checksum({buffer(steps).address(), static_cast<std::size_t>(handed_.span_bytes())});
}

std::uint64_t OverlapChain::one_at_a_time(int steps) {
    begin();
    for (int step = 0; step < steps; ++step) launch_step(step, false);
    return end(steps);
}

int OverlapChain::wrong(int runs) {
    const std::uint64_t right = one_at_a_time(kSteps);
    const gpu::Graph graph = gpu::Graph::capture(driver_, stream_, [&] {
        for (int step = 0; step < kSteps; ++step) launch_step(step, true);
    });
    int wrong = 0;
    for (int run = 0; run < runs; ++run) {
        begin();
        graph.launch(stream_.handle());
        if (end(kSteps) != right) ++wrong;
    }
    return wrong;
}

bool OverlapChain::is_telling() {
    const std::uint64_t right = one_at_a_time(kSteps);
    harness_.poison(handed_, buffers_[0].address());
    return right != end(0) && right != one_at_a_time(kSteps + 2) && right == one_at_a_time(kSteps);
}

}  // namespace autotune::test
