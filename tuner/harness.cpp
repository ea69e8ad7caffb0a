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

// An operand as the kernels take it: MATRIX of harness.h.
struct Matrix {
    explicit Matrix(const Operand& o) : rows(o.rows), cols(o.cols), ld(o.ld), batch(o.batch), batch_stride(o.batch_stride) {}
    std::int64_t rows, cols, ld, batch, batch_stride;
    std::uint64_t elements() const { return static_cast<std::uint64_t>(rows * cols * batch); }
};

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

void Harness::fill(const Operand& operand, gpu::DeviceAddress address, int index, const Fill& fill, std::uint64_t seed) {
    Matrix matrix(operand);
    int dtype = harness_code(operand.dtype);
    int kind = harness_code(fill.kind);
    std::int64_t every = fill.every;
    std::array<void*, 11> parameters{&address,
                                     &dtype,
                                     &kind,
                                     &seed,
                                     &index,
                                     &every,
                                     &matrix.rows,
                                     &matrix.cols,
                                     &matrix.ld,
                                     &matrix.batch,
                                     &matrix.batch_stride};
    launch(fill_, {blocks_for(matrix.elements()), kHarnessThreads}, parameters.data());
}

void Harness::poison(const Operand& operand, gpu::DeviceAddress address) {
    auto bytes = static_cast<std::uint64_t>(operand.span_bytes());
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

Harness::Projection Harness::project(const Operand& operand, gpu::DeviceAddress address, bool transposed,
                                     const std::vector<std::int64_t>& x) {
    Inquiry inquiry(*this);
    Matrix matrix(operand);
    Projection result;
    result.values.resize(static_cast<std::size_t>((transposed ? matrix.cols : matrix.rows) * matrix.batch));
    gpu::Buffer from(driver_, std::max<std::size_t>(x.size() * sizeof(x[0]), 8));
    gpu::Buffer to(driver_, std::max<std::size_t>(result.values.size() * sizeof(x[0]), 8));
    from.upload(std::as_bytes(std::span(x)));
    to.fill_bytes(0);
    int dtype = harness_code(operand.dtype);
    int is_transposed = transposed ? 1 : 0;
    gpu::DeviceAddress x_address = from.address(), y_address = to.address(), odd = inquiry.next_answer();
    std::array<void*, 11> parameters{&address,     &dtype,       &is_transposed, &x_address,    &y_address,          &odd,
                                     &matrix.rows, &matrix.cols, &matrix.ld,     &matrix.batch, &matrix.batch_stride};
    launch(project_, {blocks_for(matrix.elements()), kHarnessThreads}, parameters.data());
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

Inquiry::Question Inquiry::compare(const Operand& operand, gpu::DeviceAddress address, gpu::DeviceAddress expected,
                                   gpu::DeviceAddress bound) {
    Matrix matrix(operand);
    int dtype = harness_code(operand.dtype);
    gpu::DeviceAddress result = next_answer();
    std::array<void*, 10> parameters{&address,     &dtype,       &expected,  &bound,        &result,
                                     &matrix.rows, &matrix.cols, &matrix.ld, &matrix.batch, &matrix.batch_stride};
    harness_.launch(harness_.compare_, {blocks_for(matrix.elements()), kHarnessThreads}, parameters.data());
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

Inquiry::Question Inquiry::altered_gap_bytes(const Operand& operand, gpu::DeviceAddress address) {
    Matrix matrix(operand);
    int dtype = harness_code(operand.dtype);
    std::uint32_t byte = kPoisonByte;
    gpu::DeviceAddress result = next_answer();
    std::array<void*, 9> parameters{
        &address, &dtype, &byte, &result, &matrix.rows, &matrix.cols, &matrix.ld, &matrix.batch, &matrix.batch_stride};
    harness_.launch(harness_.gap_, {blocks_for(matrix.elements()), kHarnessThreads}, parameters.data());
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
