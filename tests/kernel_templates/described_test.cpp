// Problems from typed descriptions: the same keys as from words, so that winners found by one way serve the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernel_templates/catalogue.h"
#include "src/core/error.h"
#include "tests/support/refusal.h"

namespace autotune::described_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const Catalogue& catalogue() {
    static const Catalogue all = Catalogue::embedded();
    return all;
}

TensorDescription tensor(const char* name, std::vector<Dim> dims, DType type = DType::f16, int alignment_bytes = 16) {
    return {.name = name, .dtype = type, .dims = std::move(dims), .alignment_bytes = alignment_bytes};
}

DescribedProblem described(const ProblemDescription& description) {
    return catalogue().find_op(description.op)->described(description);
}

std::string refusal(const ProblemDescription& description) {
    return test::refusal_of([&] { described(description); });
}

// C of 64x48 from a depth of 32, everything dense and row-major.
ProblemDescription plain() {
    return {.op = "gemm",
            .tensors = {tensor("a", {{64, 32}, {32, 1}}), tensor("b", {{32, 48}, {48, 1}}), tensor("c", {{64, 48}, {48, 1}})}};
}

std::string words(const std::string& shape, std::map<std::string, std::string> options) {
    return catalogue().problem({"gemm", shape, std::move(options)}).key();
}

TEST(DescribedGemm, HasTheKeyOfTheSameWords) {
    EXPECT_EQ(described(plain()).problem.key(), words("64x48x32", {}));
    EXPECT_EQ(described(plain()).order, (std::vector<std::size_t>{0, 1, 2}));
}

TEST(DescribedGemm, TakesTheLayoutFromTheStrides) {
    ProblemDescription given = plain();
    given.tensors[1].dims = {{32, 1}, {48, 32}};
    EXPECT_EQ(described(given).problem.key(), words("64x48x32", {{"layout", "nt"}}));
    given.tensors[0].dims = {{64, 1}, {32, 72}};
    const Problem problem = described(given).problem;
    EXPECT_EQ(problem.key(), words("64x48x32", {{"layout", "tt"}, {"lda", "72"}}));
    EXPECT_EQ(matrix_view(problem.tensors[0]).ld, 72);
    EXPECT_EQ(matrix_view(problem.tensors[0]).rows, 32);
}

TEST(DescribedGemm, AlignmentIsThatOfRowsBatchesAndBases) {
    ProblemDescription given = plain();
    given.tensors[0].dims = {{64, 34}, {32, 1}};
    given.tensors[1].alignment_bytes = 8;
    EXPECT_EQ(described(given).problem.key(), words("64x48x32", {{"lda", "34"}, {"align", "16,8,16"}}));
}

TEST(DescribedGemm, BatchesAreTheFirstDimension) {
    ProblemDescription given = plain();
    given.tensors[0].dims = {{3, 64 * 32}, {64, 32}, {32, 1}};
    given.tensors[1].dims = {{3, 2000}, {32, 48}, {48, 1}};
    given.tensors[2].dims = {{3, 64 * 48}, {64, 48}, {48, 1}};
    EXPECT_EQ(described(given).problem.key(), words("3*64x48x32", {{"stride_b", "2000"}}));
    given.tensors[0].dims[0].extent = 2;
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("batches of a and c"), HasSubstr("2 and 3")));
}

TEST(DescribedGemm, AColumnMajorProductIsTheTransposedRowMajorOne) {
    ProblemDescription given = plain();
    given.tensors[0].dims = {{64, 1}, {32, 64}};
    given.tensors[1].dims = {{32, 1}, {48, 32}};
    given.tensors[2].dims = {{64, 1}, {48, 64}};
    const DescribedProblem found = described(given);
    EXPECT_EQ(found.problem.key(), words("48x64x32", {}));
    EXPECT_EQ(found.order, (std::vector<std::size_t>{1, 0, 2}));
}

// One row or one column is both plain and transposed: what the caller says decides, or the better alignment.
TEST(DescribedGemm, WordsDecideWhereStridesDoNot) {
    ProblemDescription given = plain();
    given.tensors[0].dims = {{1, 32}, {32, 1}};
    given.tensors[2].dims = {{1, 48}, {48, 1}};
    EXPECT_EQ(described(given).problem.key(), words("1x48x32", {}));
    given.attributes = {{"layout", "tn"}, {"order", "row"}};
    EXPECT_EQ(described(given).problem.word("layout"), "tn");
    given.attributes = {{"layout", "nt"}};
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("tensor b"), HasSubstr("contiguous")));
}

TEST(DescribedGemm, BetaAndAccumulatorAreAttributes) {
    ProblemDescription given = plain();
    given.attributes = {{"beta", "any"}, {"acc", "f16"}};
    EXPECT_EQ(described(given).problem.key(), words("64x48x32", {{"beta", "any"}, {"acc", "f16"}}));
    EXPECT_EQ(described(given).problem.tensor("c").access, Access::inout);
    given.attributes = {{"beta", "sometimes"}};
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("unknown beta"), HasSubstr("zero, any")));
    given.attributes = {{"mask", "causal"}};
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("no attribute 'mask'"), HasSubstr("acc, beta")));
}

TEST(DescribedGemm, F32IsStrictUnlessTheComputeTypeIsNamed) {
    ProblemDescription given = plain();
    for (TensorDescription& each : given.tensors) each.dtype = DType::f32;
    EXPECT_EQ(described(given).problem.word("compute"), "f32");
    given.attributes = {{"compute", "tf32x3"}};
    EXPECT_EQ(described(given).problem.key(), words("64x48x32", {{"compute", "tf32x3"}}));
    given.attributes = {{"compute", "f16"}};
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("compute is f16"), HasSubstr("tensors are f32")));
    given = plain();
    given.tensors[2].dtype = DType::e4m3;
    EXPECT_THAT(refusal(given), HasSubstr("c is e4m3 but a is f16"));
}

// 64x48x256 of e4m3 with bf16 out, B stored [N, K].
ProblemDescription plain_fp8(const std::string& scale, std::vector<TensorDescription> scales) {
    ProblemDescription given{
        .op = "gemm",
        .tensors = {tensor("a", {{64, 256}, {256, 1}}, DType::e4m3), tensor("b", {{256, 1}, {48, 256}}, DType::e4m3),
                    tensor("c", {{64, 48}, {48, 1}}, DType::bf16)}};
    for (TensorDescription& each : scales) given.tensors.push_back(std::move(each));
    if (!scale.empty()) given.attributes = {{"scale", scale}};
    return given;
}

TEST(DescribedGemm, ScalesOfFp8AreTakenWithTheirStrides) {
    const auto f32 = [](const char* name, std::vector<Dim> dims) { return tensor(name, std::move(dims), DType::f32, 4); };
    EXPECT_EQ(described(plain_fp8("", {})).problem.word("scale"), "none");
    const Problem rows =
        described(plain_fp8("row", {f32("scale_a", {{64, 3}, {1, 1}}), f32("scale_b", {{1, 48}, {48, 1}})})).problem;
    EXPECT_EQ(rows.tensor("scale_a").dims, (std::vector<Dim>{{1, 0}, {64, 3}}));
    EXPECT_EQ(rows.tensor("scale_b").dims, (std::vector<Dim>{{1, 0}, {48, 1}}));
    EXPECT_EQ(rows.tensor("scale_b").alignment_bytes, 4);
    const Problem blocks =
        described(plain_fp8("block", {f32("scale_a", {{64, 2}, {2, 1}}), f32("scale_b", {{1, 2}, {2, 1}})})).problem;
    EXPECT_EQ(blocks.tensor("scale_a").dims, (std::vector<Dim>{{1, 0}, {64, 2}, {2, 1}}));
    const DescribedProblem tensors = described(plain_fp8("tensor", {f32("scale_b", {}), f32("scale_a", {{1, 1}})}));
    EXPECT_EQ(tensors.order, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

TEST(DescribedGemm, AColumnMajorProductOfFp8ExchangesItsScales) {
    ProblemDescription given =
        plain_fp8("row", {tensor("scale_a", {{64, 1}}, DType::f32, 4), tensor("scale_b", {{48, 1}}, DType::f32, 4)});
    given.tensors[0].dtype = DType::e5m2;
    given.tensors[2].dims = {{64, 1}, {48, 64}};
    const DescribedProblem found = described(given);
    EXPECT_EQ(found.order, (std::vector<std::size_t>{1, 0, 2, 4, 3}));
    EXPECT_EQ(found.problem.word("b"), "e5m2");
    EXPECT_EQ(found.problem.tensor("scale_a").dims[1].extent, 48);
}

TEST(DescribedGemm, RefusesScalesThatDoNotFit) {
    const TensorDescription a = tensor("scale_a", {{64, 1}}, DType::f32, 4), b = tensor("scale_b", {{48, 1}}, DType::f32, 4);
    EXPECT_THAT(refusal(plain_fp8("", {a, b})), AllOf(HasSubstr("scale_a is given"), HasSubstr("tensor, row or block")));
    EXPECT_THAT(refusal(plain_fp8("row", {a})), AllOf(HasSubstr("scale is row"), HasSubstr("scale_b")));
    EXPECT_THAT(refusal(plain_fp8("tensor", {a, b})), AllOf(HasSubstr("scale_a is 64"), HasSubstr("one element")));
    EXPECT_THAT(refusal(plain_fp8("block", {a, b})), AllOf(HasSubstr("scale_a is 64"), HasSubstr("ceil(k/128)")));
    TensorDescription half = b;
    half.dtype = DType::f16;
    EXPECT_THAT(refusal(plain_fp8("row", {a, half})), AllOf(HasSubstr("scale_b is f16"), HasSubstr("f32")));
    TensorDescription misaligned = a;
    misaligned.alignment_bytes = 2;
    EXPECT_THAT(refusal(plain_fp8("row", {misaligned, b})), AllOf(HasSubstr("scale_a"), HasSubstr("aligned to 2")));
    ProblemDescription columns =
        plain_fp8("block", {tensor("scale_a", {{64, 2}, {2, 1}}, DType::f32, 4), tensor("scale_b", {{2, 1}}, DType::f32, 4)});
    columns.tensors[2].dims = {{64, 1}, {48, 64}};
    EXPECT_THAT(refusal(columns), HasSubstr("stored by rows"));
}

TEST(DescribedGemm, TheEpilogueOfFp8IsWhatTensorsSay) {
    ProblemDescription given = plain_fp8("", {tensor("amax_d", {}, DType::f32, 4), tensor("bias", {{48, 1}}, DType::bf16, 2),
                                              tensor("scale_d", {{1, 1}}, DType::f32, 4)});
    given.tensors[2].dtype = DType::e4m3;
    const DescribedProblem found = described(given);
    EXPECT_EQ(found.order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_TRUE(found.problem.tensors[3].is_absent);
    EXPECT_EQ(found.problem.word("bias"), "bf16");
    EXPECT_EQ(found.problem.key(),
              catalogue()
                  .problem({"fp8gemm", "64x48x256", {{"c", "e4m3"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}})
                  .key());
}

TEST(DescribedGemm, RefusesAnEpilogueThatDoesNotFit) {
    const TensorDescription bias = tensor("bias", {{48, 1}}, DType::bf16, 2);
    const auto with = [](TensorDescription each, const std::vector<Attribute>& attributes = {}) {
        ProblemDescription given = plain_fp8("", {std::move(each)});
        given.attributes.insert(given.attributes.end(), attributes.begin(), attributes.end());
        return refusal(given);
    };
    EXPECT_THAT(with(tensor("bias", {{47, 1}}, DType::bf16, 2)), AllOf(HasSubstr("bias has 47"), HasSubstr("48")));
    EXPECT_THAT(with(tensor("bias", {{48, 2}}, DType::bf16, 2)), HasSubstr("side by side"));
    EXPECT_THAT(with(tensor("bias", {{48, 1}}, DType::e4m3, 1)), HasSubstr("bf16, f16 or f32"));
    EXPECT_THAT(with(bias, {{"bias", "f32"}}), AllOf(HasSubstr("bias is bf16"), HasSubstr("f32")));
    EXPECT_THAT(with(bias, {{"amax", "yes"}}), HasSubstr("needs the tensor amax_d"));
    EXPECT_THAT(with(tensor("amax_d", {{2, 1}}, DType::f32, 4)), HasSubstr("amax_d has 2"));
    EXPECT_THAT(with(tensor("amax_d", {}, DType::f16, 2)), HasSubstr("it is one f32"));
    EXPECT_THAT(with(tensor("amax_d", {}, DType::f32, 4), {{"amax", "no"}}), HasSubstr("amax_d is given"));
    EXPECT_THAT(with(tensor("scale_d", {}, DType::f32, 4)), HasSubstr("c is bf16"));
    ProblemDescription columns = plain_fp8("", {bias});
    columns.tensors[2].dims = {{64, 1}, {48, 64}};
    EXPECT_THAT(refusal(columns), HasSubstr("a bias is of columns"));
}

TEST(DescribedGemm, RefusesWhatIsNoProduct) {
    ProblemDescription given = plain();
    given.tensors.pop_back();
    EXPECT_THAT(refusal(given), HasSubstr("needs the tensor 'c'"));
    given = plain();
    given.tensors[1].name = "x";
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("no tensor 'x'"), HasSubstr("a, b, c")));
    given = plain();
    given.tensors.push_back(given.tensors[0]);
    EXPECT_THAT(refusal(given), HasSubstr("given twice"));
    given = plain();
    given.tensors[0].dims = {{64, 64}, {32, 2}};
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("64 and 2"), HasSubstr("contiguous")));
    given = plain();
    given.tensors[0].dims = {{64, 16}, {32, 1}};
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("lda is 16"), HasSubstr("32 elements")));
    given = plain();
    given.tensors[1].dtype = DType::bf16;
    EXPECT_THAT(refusal(given), HasSubstr("b is bf16 but a is f16"));
    given = plain();
    given.tensors[0].alignment_bytes = 3;
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("aligned to 3"), HasSubstr("power of two")));
    given = plain();
    given.tensors[0].dims[0].extent = -1;
    EXPECT_THAT(refusal(given), HasSubstr("not negative"));
    given = plain();
    given.tensors[0].dims = {{1, 1}, {1, 1}, {64, 32}, {32, 1}};
    EXPECT_THAT(refusal(given), HasSubstr("at most 3: batch, m, k"));
    given = plain();
    given.tensors[0].dims = {{0, 32}, {32, 1}};
    given.tensors[2].dims = {{0, 48}, {48, 1}};
    EXPECT_THAT(refusal(given), HasSubstr("m is 0"));
}

TEST(DescribedGemm, EveryExampleDescribedByItsTensorsIsItself) {
    for (const ProblemRequest& request : catalogue().find_op("gemm")->examples()) {
        const Problem problem = catalogue().problem(request);
        ProblemDescription given{.op = "gemm", .tensors = {}};
        for (const Tensor& from : problem.tensors) {
            if (!from.is_absent) given.tensors.push_back({from.name, from.dtype, from.dims, from.alignment_bytes});
        }
        const std::string& layout = problem.word("layout");
        for (const std::size_t i : {0, 1}) {
            if (layout[i] == 't') std::swap(given.tensors[i].dims[1], given.tensors[i].dims[2]);
        }
        given.attributes = {{"acc", problem.word("acc")},
                            {"beta", problem.word("beta")},
                            {"layout", layout},
                            {"compute", problem.word("compute")}};
        if (problem.has_attribute("scale")) given.attributes.push_back({"scale", problem.word("scale")});
        EXPECT_EQ(described(given).problem.key(), problem.key());
    }
}

TEST(DescribedAdd, IsTheLengthOfContiguousTensorsOfAnyRank) {
    const std::vector<Dim> dims = {{4, 600}, {20, 30}, {30, 1}};
    const ProblemDescription given{.op = "add",
                                   .tensors = {tensor("a", dims), tensor("c", {{2400, 1}}), tensor("b", dims, DType::f16, 4)}};
    EXPECT_EQ(described(given).problem.key(), catalogue().problem({"hadd", "2400", {{"align", "16,4,16"}}}).key());
}

TEST(DescribedAdd, RefusesGapsAndDifferentLengths) {
    ProblemDescription given{.op = "add",
                             .tensors = {tensor("a", {{20, 32}, {30, 1}}), tensor("b", {{600, 1}}), tensor("c", {{600, 1}})}};
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("tensor a"), HasSubstr("contiguous")));
    given.tensors[0].dims = {{599, 1}};
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("tensor b has 600"), HasSubstr("a has 599")));
    given.tensors[0].dtype = DType::e4m3;
    EXPECT_THAT(refusal(given), HasSubstr("add takes f32, f16 and bf16"));
}

}  // namespace
}  // namespace autotune::described_test
