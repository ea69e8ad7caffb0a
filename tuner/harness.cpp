#include "tuner/harness.h"

#include <algorithm>
#include <cstring>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

constexpr std::uint32_t kCanaryRounds = 1000;
constexpr std::uint64_t kItemsPerThread = 8;
constexpr std::uint64_t kMostBlocks = 2048;  // eight per SM and more of the largest card; the kernels stride over the rest

std::uint32_t blocks_for(std::uint64_t items) {
    const std::uint64_t blocks = items / (kHarnessThreads * kItemsPerThread) + 1;
    return static_cast<std::uint32_t>(std::min(blocks, kMostBlocks));
}

std::uint64_t count_of(const Tensor& tensor) {
    return static_cast<std::uint64_t>(tensor.elements());
}

// Appends the addresses of a layout's ten numbers to a kernel's parameters.
template <std::size_t count>
std::array<void*, count + 2 * Tensor::kMostDims> with_layout(const std::array<void*, count>& parameters, HarnessLayout& layout) {
    std::array<void*, count + 2 * Tensor::kMostDims> all{};
    std::copy(parameters.begin(), parameters.end(), all.begin());
    for (std::size_t i = 0; i < Tensor::kMostDims; ++i) {
        all[count + i] = &layout.extents[i];
        all[count + Tensor::kMostDims + i] = &layout.strides[i];
    }
    return all;
}

}  // namespace

Harness::Harness(std::shared_ptr<const gpu::Driver> driver, std::shared_ptr<const gpu::Library> library,
                 const gpu::Stream& stream)
    : driver_(std::move(driver)),
      library_(std::move(library)),
      stream_(stream),
      fill_(library_->function("autotune_fill")),
      poison_(library_->function("autotune_poison")),
      compare_(library_->function("autotune_compare")),
      checksum_(library_->function("autotune_checksum")),
      redzone_(library_->function("autotune_redzone_check")),
      gap_(library_->function("autotune_gap_check")),
      project_(library_->function("autotune_project")),
      canary_(library_->function("autotune_canary")),
      answers_(driver_, kMostQuestions * sizeof(CompareResult)) {}

void Harness::launch(const gpu::Function& function, Shape shape, void** parameters) {
    LaunchStep step;
    step.grid.x = shape.blocks;
    step.block.x = shape.threads;
    gpu::throw_if_failed(*driver_, function.launch(step, parameters, stream_.handle()), "launch of a harness kernel");
}

void Harness::fill(const Tensor& tensor, gpu::DeviceAddress address, int index, const Fill& fill, std::uint64_t seed) {
    HarnessLayout layout(tensor);
    Fill how = fill;
    int kind = static_cast<int>(fill.kind);
    std::uint64_t format = harness_format(tensor.dtype);
    std::uint64_t through = harness_format(fill.through);
    const std::array<void*, 11> parameters{&address,  &format,    &kind,    &how.centre, &how.spread, &how.low,
                                           &how.high, &how.every, &through, &seed,       &index};
    launch(fill_, {blocks_for(count_of(tensor)), kHarnessThreads}, with_layout(parameters, layout).data());
}

void Harness::poison(const Tensor& tensor, gpu::DeviceAddress address) {
    auto bytes = static_cast<std::uint64_t>(tensor.span_bytes());
    std::uint32_t byte = kPoisonByte;
    std::array<void*, 3> parameters{&address, &bytes, &byte};
    launch(poison_, {blocks_for(bytes / 16), kHarnessThreads}, parameters.data());
}

std::uint64_t Harness::checksum(Region region) {
    Inquiry inquiry(*this);
    const Inquiry::Question sum = inquiry.checksum(region);
    inquiry.wait();
    return inquiry.number(sum);
}

Harness::Projection Harness::project(const TypedMatrix& from_matrix, gpu::DeviceAddress address, bool transposed,
                                     const std::vector<std::int64_t>& x) {
    Inquiry inquiry(*this);
    TypedMatrix matrix = from_matrix;
    Projection result;
    result.values.resize(static_cast<std::size_t>((transposed ? matrix.cols : matrix.rows) * matrix.batch));
    gpu::Buffer from(driver_, std::max<std::size_t>(x.size() * sizeof(x[0]), 8));
    gpu::Buffer to(driver_, std::max<std::size_t>(result.values.size() * sizeof(x[0]), 8));
    from.upload(std::as_bytes(std::span(x)));
    to.fill_bytes(0);
    std::uint64_t format = harness_format(matrix.dtype);
    int is_transposed = transposed ? 1 : 0;
    gpu::DeviceAddress x_address = from.address(), y_address = to.address(), odd = inquiry.next_answer();
    std::array<void*, 11> parameters{&address,     &format,      &is_transposed, &x_address,    &y_address,          &odd,
                                     &matrix.rows, &matrix.cols, &matrix.ld,     &matrix.batch, &matrix.batch_stride};
    launch(project_, {blocks_for(static_cast<std::uint64_t>(matrix.rows * matrix.cols * matrix.batch)), kHarnessThreads},
           parameters.data());
    inquiry.wait();
    result.odd = inquiry.number(0);
    to.download(std::as_writable_bytes(std::span(result.values)));
    return result;
}

bool Harness::canary() {
    Inquiry inquiry(*this);
    gpu::DeviceAddress result = inquiry.next_answer();
    std::uint32_t rounds = kCanaryRounds;
    std::array<void*, 2> parameters{&result, &rounds};
    launch(canary_, {kCanaryThreads / kHarnessThreads, kHarnessThreads}, parameters.data());
    inquiry.wait();
    return inquiry.number(0) == canary_sum(kCanaryRounds);
}

// The buffer's own copies are ordered after everything that the host has waited for; our stream is another one.
Inquiry::Inquiry(Harness& harness) : harness_(harness) {
    harness_.answers_.fill_bytes(0);
}

gpu::DeviceAddress Inquiry::next_answer() {
    check(asked_ < Harness::kMostQuestions, "an inquiry has a bounded number of questions");
    return harness_.answers_.address() + asked_++ * sizeof(CompareResult);
}

Inquiry::Question Inquiry::compare(const Tensor& tensor, gpu::DeviceAddress address, gpu::DeviceAddress expected,
                                   gpu::DeviceAddress bound) {
    HarnessLayout layout(tensor);
    std::uint64_t format = harness_format(tensor.dtype);
    gpu::DeviceAddress result = next_answer();
    const std::array<void*, 5> parameters{&address, &format, &expected, &bound, &result};
    harness_.launch(harness_.compare_, {blocks_for(count_of(tensor)), kHarnessThreads}, with_layout(parameters, layout).data());
    return asked_ - 1;
}

Inquiry::Question Inquiry::checksum(Region region) {
    gpu::DeviceAddress result = next_answer();
    std::uint64_t bytes = region.bytes;
    std::array<void*, 3> parameters{&region.address, &bytes, &result};
    harness_.launch(harness_.checksum_, {blocks_for(bytes / 8), kHarnessThreads}, parameters.data());
    return asked_ - 1;
}

Inquiry::Question Inquiry::altered_bytes(const std::vector<Region>& zones) {
    gpu::DeviceAddress result = next_answer();
    std::uint32_t byte = kRedzoneByte;
    for (Region zone : zones) {
        std::uint64_t bytes = zone.bytes;
        std::array<void*, 4> parameters{&zone.address, &bytes, &byte, &result};
        harness_.launch(harness_.redzone_, {blocks_for(bytes), kHarnessThreads}, parameters.data());
    }
    return asked_ - 1;
}

Inquiry::Question Inquiry::altered_gap_bytes(const Tensor& tensor, gpu::DeviceAddress address) {
    HarnessLayout layout(tensor);
    std::uint64_t format = harness_format(tensor.dtype);
    std::uint32_t byte = kPoisonByte;
    gpu::DeviceAddress result = next_answer();
    const std::array<void*, 4> parameters{&address, &format, &byte, &result};
    harness_.launch(harness_.gap_, {blocks_for(static_cast<std::uint64_t>(tensor.span())), kHarnessThreads},
                    with_layout(parameters, layout).data());
    return asked_ - 1;
}

void Inquiry::wait() {
    harness_.stream_.synchronize();
    answers_.resize(asked_);
    harness_.answers_.download(std::as_writable_bytes(std::span(answers_)));
}

std::uint64_t Inquiry::number(Question question) const {
    std::uint64_t value = 0;
    std::memcpy(&value, &answers_.at(question), sizeof(value));
    return value;
}

}  // namespace autotune::tuner
