#include <array>
#include <cstring>
#include <random>

#include "src/core/problem/dtype.h"
#include "src/gpu/blas.h"
#include "src/rivals/rival.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/nvrtc_for_tests.h"

namespace autotune::test {
namespace {

struct Case {
    std::string layout;
    DType type;
    std::string acc;
    int batch = 1;
    double alpha = 1, beta = 0;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
    const Case& c = info.param;
    return c.layout + "_" + std::string(to_string(c.type)) + "_" + c.acc + "_batch" + std::to_string(c.batch) +
           (c.beta != 0 ? "_beta" : "");
}

constexpr std::int64_t kM = 72, kN = 56, kK = 40;

// Rows are padded by 8 elements, so that a confused leading dimension shows.
Tensor tensor(const std::string& name, DType type, std::int64_t rows, std::int64_t cols, int batch) {
    Tensor made;
    made.name = name;
    made.dtype = type;
    made.access = name == "c" ? Access::inout : Access::in;
    made.dims = {{batch, rows * (cols + 8)}, {rows, cols + 8}, {cols, 1}};
    return made;
}

Problem problem(const Case& c) {
    const bool ta = c.layout[0] == 't';
    const bool tb = c.layout[1] == 't';
    Problem p;
    p.op = "gemm";
    p.extents = {{"m", kM}, {"n", kN}, {"k", kK}, {"batch", c.batch}};
    const std::string type(to_string(c.type));
    p.attributes = {{"a", type},    {"b", type},          {"c", type},    {"compute", type},
                    {"acc", c.acc}, {"layout", c.layout}, {"beta", "any"}};
    p.tensors = {tensor("a", c.type, ta ? kK : kM, ta ? kM : kK, c.batch),
                 tensor("b", c.type, tb ? kN : kK, tb ? kK : kN, c.batch), tensor("c", c.type, kM, kN, c.batch)};
    p.scalars = {{"alpha", static_cast<float>(c.alpha)}, {"beta", static_cast<float>(c.beta)}};
    return p;
}

// A tensor on host and device: integers in [-2, 2], so that every result is exact in any order and type.
struct Filled {
    std::vector<double> values;
    gpu::Buffer buffer;
};

Filled make(const std::shared_ptr<const gpu::Driver>& driver, const Tensor& o, unsigned seed) {
    std::mt19937 random(seed);
    Filled matrix;
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < o.span(); ++i) {
        matrix.values.push_back(static_cast<double>(random() % 5) - 2);
        const std::uint64_t bits = encode(o.dtype, matrix.values.back());
        const auto* first = reinterpret_cast<const std::byte*>(&bits);
        bytes.insert(bytes.end(), first, first + size_bytes(o.dtype));
    }
    matrix.buffer = gpu::Buffer(driver, bytes.size());
    matrix.buffer.upload(bytes);
    return matrix;
}

double expected(const Problem& p, const std::vector<Filled>& all, std::array<std::int64_t, 3> at) {
    const auto [batch, row, col] = at;
    const std::string& layout = p.word("layout");
    const auto value = [&](std::size_t which, std::int64_t r, std::int64_t c) {
        const TypedMatrix o = matrix_view(p.tensors[which]);
        return all[which].values[static_cast<std::size_t>(batch * o.batch_stride + r * o.ld + c)];
    };
    double sum = 0;
    for (std::int64_t k = 0; k < kK; ++k) {
        sum +=
            (layout[0] == 't' ? value(0, k, row) : value(0, row, k)) * (layout[1] == 't' ? value(1, col, k) : value(1, k, col));
    }
    return p.scalars[0].number() * sum + p.scalars[1].number() * value(2, row, col);
}

void expect_product(const Problem& p, const std::vector<Filled>& all) {
    const TypedMatrix c = matrix_view(p.tensors[2]);
    std::vector<std::byte> bytes(static_cast<std::size_t>(p.tensors[2].span_bytes()));
    all[2].buffer.download(bytes);
    int wrong = 0;
    for (std::int64_t batch = 0; batch < c.batch; ++batch) {
        for (std::int64_t row = 0; row < kM; ++row) {
            for (std::int64_t col = 0; col < kN; ++col) {
                const auto index = static_cast<std::size_t>(batch * c.batch_stride + row * c.ld + col);
                std::uint64_t bits = 0;
                std::memcpy(&bits, bytes.data() + index * size_bytes(c.dtype), size_bytes(c.dtype));
                wrong += decode(c.dtype, bits) != round_to(c.dtype, expected(p, all, {batch, row, col})) ? 1 : 0;
            }
        }
    }
    EXPECT_EQ(wrong, 0) << "of " << kM * kN * c.batch << " elements";
}

class GemmRivalOnDevice : public GpuTest, public ::testing::WithParamInterface<Case> {
  protected:
    // Checks the answers of the rival's preferred way to run a product.
    void expect_right_answers(std::string_view name) {
        const Problem p = problem(GetParam());
        const gpu::Stream stream(driver());
        for (const auto& rival : rivals_of("gemm")) {
            if (rival->name() != name) continue;
            ASSERT_EQ(rival->refuses(p), "");
            const PreparedRival prepared = rival->prepare(p, {driver(), stream.handle(), nvrtc_search().folders});
            if (prepared.why_not == "cuBLAS was not found") GTEST_SKIP() << prepared.why_not;
            ASSERT_FALSE(prepared.ways.empty()) << prepared.why_not;
            const std::vector<Filled> all = matrices(p);
            prepared.ways.front()(addresses(all));
            stream.synchronize();
            expect_product(p, all);
            return;
        }
        FAIL() << "gemm has no rival " << name;
    }

  private:
    std::vector<Filled> matrices(const Problem& p) const {
        std::vector<Filled> all;
        for (std::size_t i = 0; i < 3; ++i) all.push_back(make(driver(), p.tensors[i], static_cast<unsigned>(i + 1)));
        return all;
    }
    static std::vector<gpu::DeviceAddress> addresses(const std::vector<Filled>& all) {
        return {all[0].buffer.address(), all[1].buffer.address(), all[2].buffer.address()};
    }
};

TEST_P(GemmRivalOnDevice, CublasGivesTheRowMajorProduct) {
    expect_right_answers("cublas");
}

TEST_P(GemmRivalOnDevice, FirstHeuristicOfCublasLtGivesTheRowMajorProduct) {
    expect_right_answers("cublaslt");
}

INSTANTIATE_TEST_SUITE_P(Layouts, GemmRivalOnDevice,
                         ::testing::Values(Case{"nn", DType::f16, "f32"}, Case{"nt", DType::f16, "f32"},
                                           Case{"tn", DType::f16, "f32"}, Case{"tt", DType::f16, "f32"},
                                           Case{"nn", DType::bf16, "f32"}, Case{"nt", DType::bf16, "f32"},
                                           Case{"tn", DType::bf16, "f32"}, Case{"tt", DType::bf16, "f32"},
                                           Case{"nn", DType::f16, "f16"}, Case{"nt", DType::f16, "f16"},
                                           Case{"tn", DType::f16, "f16"}, Case{"tt", DType::f16, "f16"},
                                           Case{"nn", DType::f32, "f32"}, Case{"nt", DType::f32, "f32"},
                                           Case{"nn", DType::f16, "f32", 3}, Case{"tt", DType::bf16, "f32", 3},
                                           Case{"nn", DType::f16, "f32", 1, 2, 0.5}, Case{"tn", DType::f16, "f16", 1, 2, 0.5}),
                         name_of);

TEST_F(GpuTest, BlasTellsItsVersion) {
    const auto blas = gpu::Blas::load(driver(), nvrtc_search().folders);
    if (blas == nullptr) GTEST_SKIP() << "no cuBLAS here";
    EXPECT_GE(std::stoi(blas->version()), 12);
}

}  // namespace
}  // namespace autotune::test
