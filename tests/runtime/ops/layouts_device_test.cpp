// Empty problems, repeated operands and wide outputs of few rows on a real GPU, through the interface of every op.
#include <gtest/gtest.h>

#include <autotune/autotune.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "src/core/problem/dtype.h"
#include "tests/runtime/sample.h"
#include "tests/support/gpu_gate.h"

namespace autotune::runtime::layouts_device_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

autotune_dtype public_type(DType type) {
    return static_cast<autotune_dtype>(static_cast<int>(type) + 1);
}

// Numbers of one type in device memory, with nothing after them.
class Array {
  public:
    Array(const std::shared_ptr<const gpu::Driver>& driver, DType type, std::vector<float> values)
        : type_(type), values_(std::move(values)), buffer_(driver, values_.size() * size_bytes(type)) {
        std::vector<std::byte> bytes(buffer_.bytes());
        for (std::size_t i = 0; i < values_.size(); ++i) {
            const std::uint64_t bits = encode(type, static_cast<double>(values_[i]));
            std::memcpy(bytes.data() + i * size_bytes(type), &bits, size_bytes(type));
        }
        buffer_.upload(bytes);
    }

    void* address() const { return reinterpret_cast<void*>(buffer_.address()); }
    float host(std::int64_t index) const { return values_[static_cast<std::size_t>(index)]; }
    std::vector<float> download() const {
        std::vector<std::byte> bytes(buffer_.bytes());
        buffer_.download(bytes);
        std::vector<float> values;
        for (std::size_t i = 0; i < values_.size(); ++i) {
            std::uint64_t bits = 0;
            std::memcpy(&bits, bytes.data() + i * size_bytes(type_), size_bytes(type_));
            values.push_back(static_cast<float>(decode(type_, bits)));
        }
        return values;
    }

  private:
    DType type_;
    std::vector<float> values_;
    gpu::Buffer buffer_;
};

class Layouts : public autotune::test::GpuTest {
  protected:
    Handle open(const char* pin = nullptr) {
        Options options;
        options.database = "";
        options.pin = pin;
        options.cache_folder = cache_.c_str();
        return Handle(options);
    }
    Array array(DType type, std::size_t count, float value) { return {driver(), type, std::vector<float>(count, value)}; }
    // Whole numbers from -2 to 2.
    Array numbers(DType type, std::size_t count, unsigned seed) {
        std::vector<float> values(count);
        for (float& value : values) {
            seed = seed * 1664525U + 1013904223U;
            value = static_cast<float>(static_cast<int>((seed >> 16) % 5) - 2);
        }
        return {driver(), type, std::move(values)};
    }

  private:
    test::TempFolder folder_;
    std::string cache_ = folder_ / "cubins";
};

TEST_F(Layouts, AProductOfNoDepthIsBetaC) {
    const Handle handle = open();
    const gpu::Stream stream(driver());
    for (const DType type : {DType::f16, DType::bf16, DType::f32}) {
        for (const float beta : {0.0F, 1.0F, -0.5F}) {
            Description product("gemm");
            product.tensor("a", public_type(type), {2, 33, 0}).tensor("b", public_type(type), {2, 0, 5});
            product.tensor("c", public_type(type), {2, 33, 5}, {33 * 8, 8, 1}).word("beta", "any");
            std::vector<float> values(2 * 33 * 8, beta == 0 ? kNan : 6);
            const Array c(driver(), type, values);
            tuned(handle, product, {nullptr, nullptr, c.address()}, {kNan, beta}, stream.handle());
            stream.synchronize();
            const std::vector<float> got = c.download();
            for (std::size_t i = 0; i < got.size(); ++i) {
                if (i % 8 < 5)
                    ASSERT_EQ(got[i], 6 * beta) << i;
                else
                    ASSERT_TRUE(beta == 0 ? std::isnan(got[i]) : got[i] == 6) << "a gap was written at " << i;
            }
        }
    }
}

TEST_F(Layouts, AProductOfFp8OfNoDepthHasItsEpilogue) {
    const Handle handle = open();
    const gpu::Stream stream(driver());
    Description description("gemm");
    description.tensor("a", AUTOTUNE_E4M3, {4, 0}).tensor("b", AUTOTUNE_E4M3, {0, 3}, {1, 16}).tensor("c", AUTOTUNE_E4M3, {4, 3});
    description.tensor("bias", AUTOTUNE_BF16, {3}).tensor("scale_d", AUTOTUNE_F32, {1}).tensor("amax_d", AUTOTUNE_F32, {1});
    const Array c = array(DType::e4m3, 12, kNan), bias(driver(), DType::bf16, {1, -3, 2}), scale = array(DType::f32, 1, 8);
    const Array amax = array(DType::f32, 1, 0.5F);
    tuned(handle, description, {nullptr, nullptr, c.address(), nullptr, nullptr, bias.address(), scale.address(), amax.address()},
          {1, 0}, stream.handle());
    stream.synchronize();
    EXPECT_EQ(c.download(), (std::vector<float>{8, -24, 16, 8, -24, 16, 8, -24, 16, 8, -24, 16}));
    EXPECT_EQ(amax.download(), std::vector<float>{3});
}

TEST_F(Layouts, AttentionWithoutKeysIsZeroAlsoInAGraph) {
    const Handle handle = open();
    const gpu::Stream stream(driver());
    Description attention("attention");
    attention.tensor("q", AUTOTUNE_BF16, {1, 2, 3, 64}).tensor("k", AUTOTUNE_BF16, {1, 2, 0, 64});
    attention.tensor("v", AUTOTUNE_BF16, {1, 2, 0, 64})
        .tensor("o", AUTOTUNE_BF16, {1, 2, 3, 64})
        .tensor("lse", AUTOTUNE_F32, {1, 2, 3});
    const autotune_problem problem = attention.problem();
    autotune_plan plan = nullptr;
    ASSERT_EQ(autotune_plan_create(handle.get(), &problem, &plan), AUTOTUNE_OK) << autotune_last_error(nullptr);
    autotune_plan_destroy(plan);
    const Array q = array(DType::bf16, 384, kNan), o = array(DType::bf16, 384, kNan), lse = array(DType::f32, 6, 1);
    const gpu::Graph graph = gpu::Graph::capture(driver(), stream, [&] {
        tuned(handle, attention, {q.address(), nullptr, nullptr, o.address(), lse.address()}, {1}, stream.handle());
    });
    EXPECT_TRUE(std::isnan(o.download()[0]));
    graph.launch(stream.handle());
    stream.synchronize();
    EXPECT_EQ(o.download(), std::vector<float>(384, 0));
    EXPECT_EQ(lse.download(), std::vector<float>(6, -kInfinity));
}

TEST_F(Layouts, RepeatedMatricesServeAWholeBatch) {
    const Handle handle = open();
    const gpu::Stream stream(driver());
    using Strides = std::array<std::int64_t, 3>;
    constexpr std::int64_t batch = 3, m = 136, n = 72, k = 64;
    for (const DType type : {DType::f16, DType::f32}) {
        for (const auto& [sa, sb] : std::vector<std::pair<Strides, Strides>>{{{m * k, k, 1}, {0, n, 1}},
                                                                             {{m * k, k, 1}, {0, 1, k}},
                                                                             {{m * k, 1, m}, {0, n, 1}},
                                                                             {{m * k + 8, k, 1}, {0, n, 1}},
                                                                             {{0, k, 1}, {k * n, n, 1}},
                                                                             {{0, k, 1}, {0, n, 1}},
                                                                             {{0, k + 1, 1}, {0, n + 1, 1}}}) {
            const auto span = [](const Strides& s, std::int64_t rows, std::int64_t cols) {
                return static_cast<std::size_t>((batch - 1) * s[0] + (rows - 1) * s[1] + (cols - 1) * s[2] + 1);
            };
            const Array a = numbers(type, span(sa, m, k), 1), b = numbers(type, span(sb, k, n), 2);
            const Array c = array(type, batch * m * n, kNan);
            Description product("gemm");
            product.tensor("a", public_type(type), {batch, m, k}, {sa[0], sa[1], sa[2]});
            product.tensor("b", public_type(type), {batch, k, n}, {sb[0], sb[1], sb[2]});
            product.tensor("c", public_type(type), {batch, m, n});
            tuned(handle, product, {a.address(), b.address(), c.address()}, {1, 0}, stream.handle());
            stream.synchronize();
            const std::vector<float> got = c.download();
            for (std::int64_t i = 0; i < batch * m * n; ++i) {
                float sum = 0;
                for (std::int64_t l = 0; l < k; ++l)
                    sum += a.host(i / n / m * sa[0] + i / n % m * sa[1] + l * sa[2]) *
                           b.host(i / n / m * sb[0] + l * sb[1] + i % n * sb[2]);
                ASSERT_EQ(got[static_cast<std::size_t>(i)], sum) << i << " with strides of " << sa[0] << " and " << sb[0];
            }
        }
    }
}

// There is a single head of keys, and a batch of one. Families that load by tensor maps must handle a stride of 0.
TEST_F(Layouts, RepeatedHeadsOfKeysAreAsTheirCopies) {
    const gpu::Stream stream(driver());
    constexpr std::int64_t batch = 2, heads = 4, rows = 128, d = 64;
    const Array q = numbers(DType::bf16, batch * heads * rows * d, 1);
    const Array one = numbers(DType::bf16, rows * d, 2);
    std::vector<float> copies;
    for (std::int64_t i = 0; i < batch * heads; ++i)
        for (std::int64_t at = 0; at < rows * d; ++at) copies.push_back(one.host(at));
    const Array all(driver(), DType::bf16, copies);
    const auto description = [&](bool repeats) {
        Description attention("attention");
        attention.tensor("q", AUTOTUNE_BF16, {batch, heads, rows, d});
        for (const char* name : {"k", "v"}) {
            if (repeats)
                attention.tensor(name, AUTOTUNE_BF16, {batch, heads, rows, d}, {0, 0, d, 1});
            else
                attention.tensor(name, AUTOTUNE_BF16, {batch, heads, rows, d});
        }
        attention.tensor("o", AUTOTUNE_BF16, {batch, heads, rows, d});
        return attention;
    };
    for (const char* pin : {"attention/wgmma", "attention/mma", "attention/naive", ""}) {
        const Handle handle = open(pin);
        const Array expected = array(DType::bf16, batch * heads * rows * d, kNan),
                    got = array(DType::bf16, batch * heads * rows * d, kNan);
        try {
            tuned(handle, description(false), {q.address(), all.address(), all.address(), expected.address(), nullptr}, {0.125F},
                  stream.handle());
        } catch (const StatusError& error) {
            if (error.status() == AUTOTUNE_NO_KERNEL) continue;  // the card has no such family
            throw;
        }
        tuned(handle, description(true), {q.address(), one.address(), one.address(), got.address(), nullptr}, {0.125F},
              stream.handle());
        stream.synchronize();
        EXPECT_EQ(got.download(), expected.download()) << pin;
    }
}

TEST_F(Layouts, ARepeatedRowOfSoftmaxIsAsItsCopies) {
    const Handle handle = open();
    const gpu::Stream stream(driver());
    constexpr std::int64_t rows = 100, cols = 512;
    const Array one = numbers(DType::f32, cols, 3), y = array(DType::f32, rows * cols, kNan);
    Description softmax("softmax");
    softmax.tensor("x", AUTOTUNE_F32, {rows, cols}, {0, 1}).tensor("y", AUTOTUNE_F32, {rows, cols});
    tuned(handle, softmax, {one.address(), y.address(), nullptr}, {}, stream.handle());
    stream.synchronize();
    double sum = 0;
    for (std::int64_t i = 0; i < cols; ++i) sum += std::exp(static_cast<double>(one.host(i)));
    const std::vector<float> got = y.download();
    for (std::int64_t i = 0; i < rows * cols; ++i)
        ASSERT_NEAR(got[static_cast<std::size_t>(i)], std::exp(static_cast<double>(one.host(i % cols))) / sum, 1e-6) << i;
}

// Logits of a language model from fp8: few rows, and an f32 C that TMA cannot store.
TEST_F(Layouts, FewRowsOfFp8AndAWideCAreRight) {
    const Handle handle = open("gemm/wgmma_fp8");
    const gpu::Stream stream(driver());
    for (const std::int64_t m : {4, 16, 31}) {
        constexpr std::int64_t n = 80'000, k = 256;  // C has more than 2^18 elements
        const Array a = numbers(DType::e4m3, static_cast<std::size_t>(m * k), 1), b = numbers(DType::e4m3, n * k, 2);
        const Array c = array(DType::f32, static_cast<std::size_t>(m * n), kNan), scale = array(DType::f32, 1, 1);
        Description product("gemm");
        product.tensor("a", AUTOTUNE_E4M3, {m, k}).tensor("b", AUTOTUNE_E4M3, {k, n}, {1, k}).tensor("c", AUTOTUNE_F32, {m, n});
        product.tensor("scale_a", AUTOTUNE_F32, {1}).tensor("scale_b", AUTOTUNE_F32, {1}).word("scale", "tensor");
        try {
            tuned(handle, product, {a.address(), b.address(), c.address(), scale.address(), scale.address()}, {1, 0},
                  stream.handle());
        } catch (const StatusError& error) {
            if (error.status() == AUTOTUNE_NO_KERNEL) GTEST_SKIP() << error.what();
            throw;
        }
        stream.synchronize();
        const std::vector<float> got = c.download();
        for (std::int64_t row = 0; row < m; ++row) {
            for (std::int64_t column = 0; column < n; ++column) {
                float sum = 0;
                for (std::int64_t l = 0; l < k; ++l) sum += a.host(row * k + l) * b.host(column * k + l);
                ASSERT_EQ(got[static_cast<std::size_t>(row * n + column)], sum) << row << " " << column;
            }
        }
    }
}

}  // namespace
}  // namespace autotune::runtime::layouts_device_test
