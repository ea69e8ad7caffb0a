#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/core/op.h"
#include "src/gpu/driver.h"
#include "src/jit/kernel.h"
#include "tuner/guarded_buffer.h"
#include "tuner/harness.h"
#include "tuner/predecessor.h"
#include "tuner/product_check.h"
#include "tuner/reference.h"

namespace autotune::tuner {

// What the bench worker has of the GPU; shared by all it does.
struct BenchGpu {
    std::shared_ptr<const gpu::Driver> driver;
    gpu::Context context;
    gpu::Stream stream;
    Device device;
    std::vector<std::string> library_folders{};  // where cuBLAS is searched
};

// One set of a problem's tensors on the device, filled for one test. An absent tensor has an empty buffer and the address 0.
struct TensorSet {
    std::vector<GuardedBuffer> buffers;
    std::vector<gpu::DeviceAddress> addresses;
    std::vector<std::uint64_t> checksums;  // of the inputs, as filled
};

// The right answer of a part of an output, or of all of it.
struct Answer {
    std::size_t output = 0;  // index into OpTest::outputs
    Tensor out;              // the part: extents and distances
    std::int64_t first = 0;  // element of the output at which it begins
    gpu::Buffer expected, bound;
};

// A test with its right answers.
struct TestBench {
    OpTest test;
    TensorSet tensors;
    std::vector<Answer> answers;
    std::optional<ProductCheck> product;  // where answers are parts and the test has a product form
};

// Launches of a runnable in a row, each after a predecessor: a multiple of the rotation.
struct TimedGraph {
    gpu::Graph graph;
    int launches = 0;
};

// Something that can be run on a set of tensors: a candidate or a vendor's library.
struct Runnable {
    std::function<void(std::span<const gpu::DeviceAddress> tensors)> enqueue;  // throws DriverError
    bool deterministic = true;
    GuardedBuffer workspace;
    std::map<Predecessor, TimedGraph> graphs;  // the meter's
    double single_us = 0;                      // rough time of one launch; 0: not known yet
    int next_set = 0;                          // of the rotation
};

// One problem on the device: tensors and right answers of every test, and, if it is to be timed, buffers to rotate through.
class Workbench {
  public:
    struct Options {
        std::uint64_t seed = 1;
        bool timing = true;
        bool l2_warm = false;
        bool bandwidth_bound = false;
        std::size_t memory_limit_bytes = 0;  // 0: most of what is free
    };
    // An instance, loaded.
    struct Code {
        std::shared_ptr<const gpu::Library> library;
        std::string symbol;
    };

    Workbench(BenchGpu& gpu, Harness& harness, const Op& op, Problem problem, const Options& options);
    // Computes the right answers; only those of the op's excerpts, and a product check, where they do not fit in memory or are
    // not `affordable`. Returns what is known now.
    Reference compute_reference(const Code& reference, bool affordable);
    // A candidate that can be run on this problem's tensors, with a workspace of its own between red zones. REQUIRES: the
    // workbench outlives it.
    Runnable bind(const Code& code, LaunchPlan plan);

    const Problem& problem() const { return problem_; }
    std::vector<TestBench>& tests() { return tests_; }
    const std::vector<std::uint64_t>& scalars() const { return scalars_; }  // Scalar::bits()
    // The test whose data are those of a user.
    TestBench& typical();
    // Tensors of the rotation's set; wraps around.
    std::span<const gpu::DeviceAddress> rotation(int set) const;
    int rotation_sets() const { return static_cast<int>(rotation_.size()); }
    std::size_t footprint_bytes() const { return footprint_bytes_; }
    // Puts an output back to what it was before a run: poison, or the input that the op reads.
    void restore_outputs(TestBench& test);

  private:
    void make_tests();
    bool fits(const TestBench& test) const;
    void compute_answer(TestBench& test, const Excerpt& part, const Code& reference);
    void make_product_check(TestBench& test);
    void rotate(std::size_t index, const Fill& fill, std::size_t sets);
    void make_rotation(const Options& options);
    void fill_set(TensorSet& set, const std::vector<Fill>& fills);
    std::size_t bytes_of_set() const;

    BenchGpu& gpu_;
    Harness& harness_;
    const Op& op_;
    Problem problem_;
    std::uint64_t seed_;
    std::vector<std::uint64_t> scalars_;
    std::vector<TestBench> tests_;
    std::vector<GuardedBuffer> arena_;
    std::vector<std::vector<gpu::DeviceAddress>> rotation_;
    std::size_t footprint_bytes_ = 0;
};

}  // namespace autotune::tuner
