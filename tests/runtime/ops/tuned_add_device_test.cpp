#include <gtest/gtest.h>

#include <autotune/autotune.hpp>

#include "tests/runtime/ops/add_data.h"
#include "tests/runtime/sample.h"
#include "tests/support/gpu_gate.h"

namespace autotune::runtime {
namespace {

using test::add;
using test::AddData;

constexpr autotune_dtype kTypes[] = {AUTOTUNE_F32, AUTOTUNE_F16, AUTOTUNE_BF16};

// tuned_add() on a real GPU, compared with the host's sums.
class TunedAdd : public autotune::test::GpuTest {
  protected:
    // It has no database and uses the test's own cubin cache, so that the result does not depend on earlier tunes.
    Handle open(const char* pin = nullptr) {
        Options options;
        options.database = "";
        options.pin = pin;
        options.cache_folder = cache_.c_str();
        return Handle(options);
    }
    int wrong(const Handle& handle, const autotune_add_problem& problem, std::size_t offset = 0) {
        const gpu::Stream stream(driver());
        const AddData data(driver(), problem, offset);
        tuned_add(handle, problem, {data.a(), data.b(), data.c()}, stream.handle());
        stream.synchronize();
        return data.wrong();
    }

  private:
    test::TempFolder folder_;
    std::string cache_ = folder_ / "cubins";
};

// Among the numbers are infinities of both signs and NaN.
TEST_F(TunedAdd, IsRightForEveryTypeAndLength) {
    const Handle handle = open();
    for (const autotune_dtype type : kTypes) {
        for (const std::int64_t length : {1, 7, 8, 9, 1000, 65536, 100003, 1 << 20})
            EXPECT_EQ(wrong(handle, add(length, type)), 0) << type << " " << length;
    }
}

TEST_F(TunedAdd, IsRightForUnalignedBases) {
    const Handle handle = open();
    for (const autotune_dtype type : kTypes) {
        for (const std::size_t offset : {1, 2, 3, 4})
            EXPECT_EQ(wrong(handle, add(100003, type), offset), 0) << type << " " << offset;
    }
}

TEST_F(TunedAdd, IsRightWithBulkCopies) {
    if (device().identity.cc() < 90) GTEST_SKIP() << "the device has no bulk copies";
    for (const char* pin : {"add/bulk", "add/bulk bulk_store=1", "add/bulk stages=4 bulk_store=1 tile_bytes=4096"}) {
        const Handle handle = open(pin);
        for (const autotune_dtype type : kTypes) {
            for (const std::int64_t length : {1, 7, 9, 4096, 100003, 3000001})
                EXPECT_EQ(wrong(handle, add(length, type)), 0) << pin << " " << type << " " << length;
        }
    }
}

TEST_F(TunedAdd, IsRightInPlace) {
    for (const char* pin : {"add/vector", "add/bulk"}) {
        if (std::string(pin) == "add/bulk" && device().identity.cc() < 90) continue;
        const Handle handle = open(pin);
        for (const std::size_t target : {0, 1}) {
            const gpu::Stream stream(driver());
            const AddData data(driver(), add(1000003));
            void* const inputs[] = {data.a(), data.b()};
            tuned_add(handle, add(1000003), {inputs[0], inputs[1], inputs[target]}, stream.handle());
            stream.synchronize();
            EXPECT_EQ(data.wrong(target), 0) << pin << " " << target;
        }
    }
}

TEST_F(TunedAdd, CapturesAndReplays) {
    const Handle handle = open();
    const gpu::Stream stream(driver());
    const autotune_add_problem problem = add(100003, AUTOTUNE_F16);
    const AddData data(driver(), problem);
    const AddPlan plan(handle, problem);
    const gpu::Graph graph = gpu::Graph::capture(driver(), stream, [&] {
        for (int i = 0; i < 100; ++i) plan.run(data.a(), data.b(), data.c(), stream.handle());
    });
    graph.launch(stream.handle());
    graph.launch(stream.handle());
    stream.synchronize();
    EXPECT_EQ(data.wrong(), 0);
}

}  // namespace
}  // namespace autotune::runtime
