// Problems from typed descriptions have the same keys as from words, so that winners found in one way serve the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/catalogue/catalogue.h"
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

// C has 64x48 elements and K is 32; all tensors are dense and row-major.
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

// A single row or column is both plain and transposed. The caller's layout decides; without one the better alignment decides.
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

// A product of 64x48x256 in e4m3 with bf16 out, and B stored [N, K].
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
}

// C has 3x64x48 elements. A batch stride of 0 means one matrix for the whole batch.
ProblemDescription batched(std::int64_t stride_a, std::int64_t stride_b, std::int64_t stride_c) {
    return {.op = "gemm",
            .tensors = {tensor("a", {{3, stride_a}, {64, 32}, {32, 1}}), tensor("b", {{3, stride_b}, {32, 48}, {48, 1}}),
                        tensor("c", {{3, stride_c}, {64, 48}, {48, 1}})}};
}

TEST(DescribedGemm, OneWeightForABatchIsATallerProduct) {
    const Problem problem = described(batched(64 * 32, 0, 64 * 48)).problem;
    EXPECT_EQ(problem.key(), words("192x48x32", {}));
    EXPECT_EQ(problem.tensor("a").dims, (std::vector<Dim>{{1, 192 * 32}, {192, 32}, {32, 1}}));
    // Each batch has one row, so the distance between batches is that between rows.
    const ProblemDescription rows{
        .op = "gemm",
        .tensors = {tensor("a", {{3, 1000}, {1, 32}, {32, 1}}), tensor("b", {{3, 0}, {32, 48}, {48, 1}}),
                    tensor("c", {{3, 96}, {1, 48}, {48, 1}})}};
    const Problem folded = described(rows).problem;
    EXPECT_EQ(folded.shape(), "3x48x32");
    EXPECT_EQ(matrix_view(folded.tensor("a")).ld, 1000);
    EXPECT_EQ(matrix_view(folded.tensor("c")).ld, 96);
}

TEST(DescribedGemm, ARepeatedMatrixKeepsItsStrideOfZeroWhereRowsDoNotGoOnEvenly) {
    for (const ProblemDescription& given : {batched(64 * 32 + 8, 0, 64 * 48), batched(0, 32 * 48, 64 * 48),
                                            batched(0, 0, 64 * 48), batched(64 * 32, 0, 64 * 48 + 8)}) {
        const Problem problem = described(given).problem;
        EXPECT_EQ(problem.shape(), "3*64x48x32");
        for (const std::size_t i : {0, 1, 2}) EXPECT_EQ(problem.tensors[i].dims[0].stride, given.tensors[i].dims[0].stride) << i;
    }
}

TEST(DescribedGemm, FamiliesThatLoadByTensorMapsRefuseARepeatedMatrix) {
    const Problem problem = described(batched(0, 32 * 48, 64 * 48)).problem;
    const Device hopper = reference_device("sm_90a").value();
    for (const char* family : {"gemm/wgmma", "gemm/wgmma_nonpersistent"})
        EXPECT_EQ(catalogue().find_family(family)->refuses(problem, hopper),
                  "a matrix that is repeated for a batch has no tensor map");
    EXPECT_EQ(catalogue().find_family("gemm/mma")->refuses(problem, hopper), std::nullopt);
}

TEST(DescribedGemm, RefusesARepeatedOutputAndRepeatedRows) {
    EXPECT_EQ(refusal(batched(64 * 32, 32 * 48, 0)),
              "tensor c repeats one matrix for all of the batch (a stride of 0), but each is written; give 3072 or more");
    EXPECT_EQ(refusal(batched(64 * 32, 0, 0)),
              "tensor c repeats one matrix for all of the batch (a stride of 0), but each is written; give 3072 or more");
    ProblemDescription given = plain();
    given.tensors[0].dims = {{64, 0}, {32, 1}};
    EXPECT_EQ(refusal(given),
              "tensor a repeats one row (a stride of 0); gemm takes one matrix for all of a batch, and no such rows: make it "
              "contiguous");
    given = plain();
    given.tensors[2].dims = {{64, 0}, {48, 1}};
    EXPECT_THAT(refusal(given), HasSubstr("tensor c repeats one row"));
    given = plain();
    given.tensors[0].dims = {{64, 0}, {32, 0}};
    EXPECT_THAT(refusal(given), AllOf(HasSubstr("0 and 0"), HasSubstr("contiguous")));
}

// The work that is left, as words: the tensors that are written, with the value of each sum.
std::string left_to_do(const ProblemDescription& given) {
    const Problem problem = described(given).problem;
    const auto sums = catalogue().op_of(problem).empty_sums(problem);
    if (!sums) return "a kernel";
    std::string text;
    for (const EmptySum& sum : *sums)
        text += (text.empty() ? "" : ", ") + problem.tensors[static_cast<std::size_t>(sum.tensor)].name + "=" +
                std::to_string(sum.value) + (sum.factor ? "+" + problem.scalars[static_cast<std::size_t>(*sum.factor)].name : "");
    return text.empty() ? "nothing" : text;
}

ProblemDescription product_of(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k) {
    return {.op = "gemm",
            .tensors = {tensor("a", dense_dims({batch, m, k})), tensor("b", dense_dims({batch, k, n})),
                        tensor("c", dense_dims({batch, m, n}))}};
}

TEST(EmptyProblems, AnOutputWithoutElementsIsNothingAndASumOfNothingIsZero) {
    EXPECT_EQ(left_to_do(product_of(2, 8, 8, 8)), "a kernel");
    for (const ProblemDescription& given :
         {product_of(0, 8, 8, 8), product_of(2, 0, 8, 8), product_of(2, 8, 0, 8), product_of(2, 0, 8, 0)})
        EXPECT_EQ(left_to_do(given), "nothing");
    ProblemDescription no_depth = product_of(2, 8, 8, 0);
    EXPECT_EQ(left_to_do(no_depth), "c=0.000000");
    no_depth.attributes = {{"beta", "any"}};
    EXPECT_EQ(left_to_do(no_depth), "c=0.000000+beta");
    no_depth.tensors[0].dims = {{2, 7}, {8, 7}, {0, 7}};  // strides of empty dimensions have no meaning
    EXPECT_EQ(left_to_do(no_depth), "c=0.000000+beta");

    ProblemDescription of_fp8 = plain_fp8("", {});
    of_fp8.tensors[0].dims = {{64, 7}, {0, 7}};
    of_fp8.tensors[1].dims = {{0, 7}, {48, 7}};
    EXPECT_EQ(left_to_do(of_fp8), "c=0.000000");
    of_fp8 = plain_fp8("", {});
    of_fp8.tensors[1].dims = {{256, 0}, {0, 0}};
    of_fp8.tensors[2].dims = {{64, 0}, {0, 0}};
    EXPECT_EQ(left_to_do(of_fp8), "nothing");

    const auto softmax_of = [](std::int64_t rows, std::int64_t cols, bool has_lse) {
        ProblemDescription given{.op = "softmax",
                                 .tensors = {tensor("x", dense_dims({rows, cols})), tensor("y", dense_dims({rows, cols}))}};
        if (has_lse) given.tensors.push_back(tensor("lse", {{rows, 1}}, DType::f32));
        return given;
    };
    EXPECT_EQ(left_to_do(softmax_of(3, 5, true)), "a kernel");
    EXPECT_EQ(left_to_do(softmax_of(0, 5, true)), "nothing");
    EXPECT_EQ(left_to_do(softmax_of(3, 0, false)), "nothing");
    EXPECT_EQ(left_to_do(softmax_of(3, 0, true)), "lse=-inf");

    const ProblemDescription add{.op = "add",
                                 .tensors = {tensor("a", {{0, 3}, {5, 9}}), tensor("b", {{0, 1}}), tensor("c", {{0, 1}})}};
    EXPECT_EQ(left_to_do(add), "nothing");
}

ProblemDescription attention_of(const char* op, std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys) {
    const auto of_queries = dense_dims({batch, heads, queries, 64}), of_keys = dense_dims({batch, heads, keys, 64});
    ProblemDescription given{
        .op = op,
        .tensors = {tensor("q", of_queries), tensor("k", of_keys), tensor("v", of_keys), tensor("o", of_queries),
                    tensor("lse", dense_dims({batch, heads, queries}), DType::f32)}};
    if (given.op == "attention") return given;
    for (const auto& [name, dims] :
         {std::pair{"do", of_queries}, std::pair{"dq", of_queries}, std::pair{"dk", of_keys}, std::pair{"dv", of_keys}})
        given.tensors.push_back(tensor(name, dims));
    return given;
}

TEST(EmptyProblems, AttentionWithoutKeysIsZeroAndItsGradientsAre) {
    EXPECT_EQ(left_to_do(attention_of("attention", 2, 3, 5, 7)), "a kernel");
    EXPECT_EQ(left_to_do(attention_of("attention", 2, 3, 5, 0)), "o=0.000000, lse=-inf");
    EXPECT_EQ(left_to_do(attention_of("attention", 0, 3, 5, 7)), "nothing");
    EXPECT_EQ(left_to_do(attention_of("attention", 2, 0, 5, 7)), "nothing");
    EXPECT_EQ(left_to_do(attention_of("attention", 2, 3, 0, 7)), "nothing");
    EXPECT_EQ(left_to_do(attention_of("attention_bwd", 2, 3, 5, 7)), "a kernel");
    EXPECT_EQ(left_to_do(attention_of("attention_bwd", 2, 3, 5, 0)), "dq=0.000000");
    EXPECT_EQ(left_to_do(attention_of("attention_bwd", 2, 3, 0, 7)), "dk=0.000000, dv=0.000000");
    EXPECT_EQ(left_to_do(attention_of("attention_bwd", 0, 3, 5, 7)), "nothing");
    ProblemDescription no_heads_of_keys = attention_of("attention", 1, 2, 5, 7);
    for (const std::size_t i : {1, 2}) no_heads_of_keys.tensors[i].dims = dense_dims({1, 0, 7, 64});
    EXPECT_THAT(refusal(no_heads_of_keys), HasSubstr("there are 2 query heads, which is no multiple of the 0 key heads"));
}

TEST(EmptyProblems, WordsAreOfProblemsThatCanBeTuned) {
    EXPECT_EQ(
        test::refusal_of([] {
            catalogue().problem({"hgemm", "64x0x64", {}});
        }),
        "shape '64x0x64': N is 0; every extent is at least 1 (the library answers a problem without elements itself: there is "
        "nothing to tune or to time)");
}

TEST(DescribedSoftmax, RepeatsARowOfXAndRefusesARepeatedRowOfY) {
    ProblemDescription given{.op = "softmax", .tensors = {tensor("x", {{64, 0}, {96, 1}}), tensor("y", {{64, 96}, {96, 1}})}};
    const Problem problem = described(given).problem;
    EXPECT_EQ(problem.tensor("x").dims[0], (Dim{64, 0}));
    EXPECT_EQ(problem.tensor("y").dims[0], (Dim{64, 96}));
    std::swap(given.tensors[0].dims, given.tensors[1].dims);
    EXPECT_EQ(refusal(given), "tensor y repeats one row (a stride of 0), but each row is written; give 96 or more");
    given.tensors[0].dims = {{4, 0}, {16, 96}, {96, 1}};
    given.tensors[1].dims = dense_dims({64, 96});
    EXPECT_THAT(refusal(given), HasSubstr("its rows are not evenly spaced"));
}

TEST(DescribedAdd, RefusesARepeatedElement) {
    const ProblemDescription given{.op = "add",
                                   .tensors = {tensor("a", {{600, 0}}), tensor("b", {{600, 1}}), tensor("c", {{600, 1}})}};
    EXPECT_THAT(refusal(given), HasSubstr("add takes contiguous tensors"));
}

// Sizes that would overflow before they are refused: run these under -fsanitize=undefined.
TEST(Described, NumbersThatDoNotFitAreRefusedAsTheyAre) {
    const std::int64_t huge = INT64_MAX, large = (std::int64_t{1} << 31) - 1;
    ProblemDescription given = product_of(1, 64, 48, 32);
    given.tensors[0].dims = {{1, huge}, {64, huge}, {32, 1}};
    EXPECT_THAT(refusal(given), HasSubstr("larger than 128 TiB"));
    given.tensors[0].dims = {{1, huge}, {1, huge}, {32, 1}};
    given.tensors[2].dims = {{1, huge}, {1, huge}, {48, 1}};
    EXPECT_EQ(refusal(given), "");  // The stride is the distance from the only row to the next.
    given = product_of(1, 2, 2, 2);
    for (TensorDescription& each : given.tensors) each.dims = {{large + 1, 4}, {2, 2}, {2, 1}};
    EXPECT_EQ(refusal(given), "batch is 2147483648; give a whole number from 0 to 2147483647");
    for (TensorDescription& each : given.tensors) each.dims = {{large, 0}, {large, large}, {large, 1}};
    EXPECT_THAT(refusal(given), HasSubstr("larger than 128 TiB"));
    for (TensorDescription& each : given.tensors) each.dims = {{3, 1}, {large, large}, {large, 1}};
    EXPECT_THAT(refusal(given), HasSubstr("larger than 128 TiB"));
    for (TensorDescription& each : given.tensors) each.dims = {{huge, 0}, {huge, huge}, {huge, 1}};
    EXPECT_THAT(refusal(given), HasSubstr("give a whole number"));

    ProblemDescription rows{.op = "softmax",
                            .tensors = {tensor("x", {{2, huge}, {3, huge}, {5, 1}}), tensor("y", {{6, 5}, {5, 1}})}};
    EXPECT_THAT(refusal(rows), HasSubstr("not evenly spaced"));
    rows.tensors[0].dims = {{6, huge}, {5, 1}};
    EXPECT_THAT(refusal(rows), HasSubstr("larger than 128 TiB"));
    rows.tensors[0].dims = {{huge, 0}, {huge, 0}, {5, 1}};
    EXPECT_THAT(refusal(rows), HasSubstr("more than 2^31 - 1 rows"));
    rows.tensors[0].dims = dense_dims({6, 5});
    rows.tensors.push_back(tensor("lse", {{huge, 3}, {3, 1}}, DType::f32));
    EXPECT_THAT(refusal(rows), HasSubstr("lse"));

    ProblemDescription heads = attention_of("attention", 1, 2, 5, 7);
    for (const std::size_t i : {0, 3}) heads.tensors[i].dims = {{1, 0}, {large, huge}, {large / 2, huge}, {64, 1}};
    heads.tensors[4].dims = {{1, 1}, {large, large / 2}, {large / 2, 1}};
    EXPECT_NE(refusal(heads), "");
    heads = attention_of("attention_bwd", 1, 2, 5, 7);
    heads.tensors[6].dims = {{1, huge}, {2, huge}, {5, huge}, {64, 1}};
    EXPECT_THAT(refusal(heads), HasSubstr("larger than 128 TiB"));

    const ProblemDescription sums{
        .op = "add", .tensors = {tensor("a", {{huge, huge}, {huge, 1}}), tensor("b", {{1, 1}}), tensor("c", {{1, 1}})}};
    EXPECT_THAT(refusal(sums), HasSubstr("2^40 elements"));
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
