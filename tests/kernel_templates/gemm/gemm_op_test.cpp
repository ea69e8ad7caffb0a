#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "kernel_templates/harness/fill.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "src/core/problem/device.h"
#include "tests/kernel_templates/bad_input.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/refusal.h"

namespace autotune::gemm_op_test {
namespace {

using test::BadInput;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Options = std::map<std::string, std::string>;

Problem parse(const std::string& shape, const Options& options = {}, const std::string& op = "hgemm") {
    return test::embedded_catalogue().problem({op, shape, options});
}

// The message of the usage error for a request; empty if it is accepted.
std::string refusal(const std::string& shape, const Options& options = {}, const std::string& op = "hgemm") {
    return test::refusal_of([&] { parse(shape, options, op); });
}

TEST(GemmOp, TheFirstCommandGivesTheDocumentedKey) {
    EXPECT_EQ(parse("4096x4096x2048").key(),
              "gemm a=f16 b=f16 c=f16 compute=f16 acc=f32 layout=nn beta=zero align=16,16,16 4096x4096x2048");
}

TEST(GemmOp, AliasesFixTypeAndAccumulator) {
    EXPECT_EQ(parse("8x8x8", {}, "hgemm_f16acc").word("acc"), "f16");
    EXPECT_EQ(parse("8x8x8", {}, "bgemm").word("a"), "bf16");
    EXPECT_EQ(parse("8x8x8", {{"dtype", "bf16"}}, "gemm").word("compute"), "bf16");
    EXPECT_THAT(refusal("8x8x8", {{"dtype", "bf16"}}, "hgemm"), AllOf(HasSubstr("dtype"), HasSubstr("'gemm'")));
}

TEST(GemmOp, ThreeWaysToMultiplyF32AreThreeClasses) {
    const std::string words = " acc=f32 layout=nn beta=zero align=16,16,16 8x8x8";
    EXPECT_EQ(parse("8x8x8", {}, "sgemm").key(), "gemm a=f32 b=f32 c=f32 compute=f32" + words);
    EXPECT_EQ(parse("8x8x8", {}, "tf32gemm").key(), "gemm a=f32 b=f32 c=f32 compute=tf32" + words);
    EXPECT_EQ(parse("8x8x8", {}, "sgemm_tc").key(), "gemm a=f32 b=f32 c=f32 compute=tf32x3" + words);
    EXPECT_EQ(parse("8x8x8", {{"dtype", "f32"}}, "gemm").key(), parse("8x8x8", {}, "sgemm").key());
    EXPECT_EQ(parse("8x8x8", {{"compute", "tf32"}}, "gemm").key(), parse("8x8x8", {}, "tf32gemm").key());
    EXPECT_EQ(parse("8x8x8", {{"a", "f32"}}, "gemm").key(), parse("8x8x8", {}, "sgemm").key());
}

TEST(GemmOp, RefusesAComputeTypeThatIsNotOfTheTensors) {
    EXPECT_THAT(refusal("8x8x8", {{"dtype", "f16"}, {"compute", "tf32"}}, "gemm"),
                AllOf(HasSubstr("compute is tf32"), HasSubstr("tensors are f16")));
    EXPECT_THAT(refusal("8x8x8", {{"dtype", "f32"}, {"compute", "bf16"}}, "gemm"), HasSubstr("give f32, tf32 or tf32x3"));
    EXPECT_THAT(refusal("8x8x8", {{"dtype", "f32"}, {"acc", "f16"}}, "gemm"), HasSubstr("acc f16 needs dtype f16"));
    EXPECT_THAT(refusal("8x8x8", {{"a", "f32"}, {"b", "f32"}, {"c", "f16"}}, "gemm"), HasSubstr("one type"));
}

TEST(GemmOp, Fp8HasItsTypesAccumulatorAndScalesInTheKey) {
    EXPECT_EQ(parse("64x48x256", {}, "fp8gemm").key(),
              "gemm a=e4m3 b=e4m3 c=bf16 compute=fp8 acc=f32 layout=nt beta=zero align=16,16,16 scale=none 64x48x256");
    const Problem problem = parse("64x48x256", {{"a", "e5m2"}, {"c", "f32"}, {"acc", "f32fast"}, {"scale", "row"}}, "fp8gemm");
    EXPECT_EQ(problem.class_key(),
              "gemm a=e5m2 b=e4m3 c=f32 compute=fp8 acc=f32fast layout=nt beta=zero align=16,16,16 scale=row");
    EXPECT_EQ(problem.tensors.size(), 5U);
    EXPECT_EQ(parse("8x8x8").tensors.size(), 3U);
    EXPECT_FALSE(parse("8x8x8").has_attribute("scale"));
}

TEST(GemmOp, ScalesOfFp8AreTensorsOfTheirMode) {
    const auto scales = [](const std::string& mode) {
        const Problem problem = parse("2*130x300x260", {{"scale", mode}}, "fp8gemm");
        return std::pair(problem.tensor("scale_a").dims, problem.tensor("scale_b").dims);
    };
    using Dims = std::vector<Dim>;
    EXPECT_EQ(scales("tensor"), std::pair(Dims({{1, 1}}), Dims({{1, 1}})));
    EXPECT_EQ(scales("row"), std::pair(Dims({{2, 130}, {130, 1}}), Dims({{2, 300}, {300, 1}})));
    EXPECT_EQ(scales("block"), std::pair(Dims({{2, 396}, {130, 1}, {3, 132}}), Dims({{2, 12}, {3, 4}, {3, 1}})));
}

TEST(GemmOp, RefusesWhatFp8HasNot) {
    const auto refused = [](const Options& options) { return refusal("64x48x256", options, "fp8gemm"); };
    for (const char* layout : {"nn", "tn", "tt"})
        EXPECT_THAT(refused({{"layout", layout}}), AllOf(HasSubstr("layout nt alone"), HasSubstr("transposed"))) << layout;
    EXPECT_THAT(refused({{"a", "e5m2"}, {"b", "e5m2"}}), HasSubstr("one of them must be e4m3"));
    EXPECT_THAT(refused({{"b", "f16"}}), HasSubstr("give e4m3 or e5m2 for both"));
    EXPECT_THAT(refused({{"acc", "f16"}}), HasSubstr("use acc f32 or f32fast"));
    EXPECT_THAT(refused({{"acc", "f32fast"}, {"scale", "block"}}), HasSubstr("use acc f32, not f32fast"));
    EXPECT_THAT(refused({{"scale", "column"}}), HasSubstr("none, tensor, row"));
    EXPECT_THAT(refused({{"align", "16,16,1"}}), HasSubstr("align is 1 for c"));
    EXPECT_THAT(refusal("8x8x8", {{"acc", "f32fast"}}, "gemm"), HasSubstr("f32fast is for fp8"));
    EXPECT_THAT(refusal("8x8x8", {{"scale", "row"}}, "gemm"), HasSubstr("scale row is for fp8"));
}

TEST(GemmOp, TheEpilogueOfFp8IsInTheKeyWhereThereIsOne) {
    const Problem problem =
        parse("64x48x256", {{"c", "e4m3"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, "fp8gemm");
    EXPECT_EQ(problem.class_key(),
              "gemm a=e4m3 b=e4m3 c=e4m3 compute=fp8 acc=f32 layout=nt beta=zero align=16,16,16 scale=none bias=bf16 "
              "scale_d=tensor amax=yes");
    EXPECT_EQ(problem.tensor("bias").dims, (std::vector<Dim>{{48, 1}}));
    EXPECT_EQ(problem.tensor("bias").dtype, DType::bf16);
    EXPECT_EQ(problem.tensor("scale_d").dtype, DType::f32);
    EXPECT_EQ(problem.tensor("amax_d").access, Access::inout);
    EXPECT_EQ(parse("8x8x16", {{"bias", "none"}, {"scale_d", "none"}, {"amax", "no"}}, "fp8gemm").key(),
              parse("8x8x16", {}, "fp8gemm").key());
}

// cuBLASLt needs 16.
TEST(GemmOp, ScalesAndBiasesAreAsAlignedAsTheLeastAlignedMatrixAndTheirElements) {
    const auto alignment = [](const std::string& name, const std::string& align) {
        return parse("64x48x256", {{"scale", "tensor"}, {"bias", "bf16"}, {"align", align}}, "fp8gemm")
            .tensor(name)
            .alignment_bytes;
    };
    EXPECT_EQ(alignment("scale_a", "16"), 16);
    EXPECT_EQ(alignment("bias", "16"), 16);
    EXPECT_EQ(alignment("scale_b", "16,16,8"), 8);
    EXPECT_EQ(alignment("bias", "1,16,16"), 2);
    EXPECT_EQ(alignment("scale_a", "1,16,16"), 4);
}

TEST(GemmOp, RefusesAnEpilogueThatIsNot) {
    EXPECT_THAT(refusal("8x8x16", {{"scale_d", "tensor"}}, "fp8gemm"), AllOf(HasSubstr("c is bf16"), HasSubstr("e4m3 or e5m2")));
    EXPECT_THAT(refusal("8x8x16", {{"bias", "e4m3"}}, "fp8gemm"), HasSubstr("none, bf16, f16, f32"));
    EXPECT_THAT(refusal("8x8x8", {{"bias", "f16"}}, "gemm"), HasSubstr("a bias is for fp8, not f16"));
    EXPECT_THAT(refusal("8x8x8", {{"amax", "yes"}}, "gemm"), HasSubstr("amax is for fp8"));
    EXPECT_THAT(refusal("8x8x8", {{"scale_d", "tensor"}}, "gemm"), HasSubstr("scale_d is for fp8"));
    EXPECT_THAT(refusal("8x8x8", {{"dtype", "f16"}, {"c", "e4m3"}}, "gemm"), HasSubstr("one type for all"));
}

// Reference results of a problem whose tensors `change` has modified.
std::vector<Expected> reference_of(const Problem& problem, const std::function<void(std::vector<std::vector<double>>&)>& change) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Op& op = catalogue.op_of(problem);
    const std::vector<OpTest> tests = op.tests(problem);
    const OpTest& test = typical_test(tests);
    std::vector<std::vector<double>> values;
    for (std::size_t i = 0; i < problem.tensors.size(); ++i)
        values.push_back(filled_tensor(test.fills[i], problem.tensors[i], static_cast<int>(i), 7));
    change(values);
    return op.reference_on_host(problem, test, values);
}

TEST(GemmOp, AFp8OutputSaturatesAndItsAmaxIsThatBeforeTheFactor) {
    for (const auto& [type, most] : {std::pair{"e4m3", 448.0}, std::pair{"e5m2", 57344.0}}) {
        const Problem problem =
            parse("4x16x256", {{"c", type}, {"bias", "f32"}, {"scale_d", "tensor"}, {"amax", "yes"}}, "fp8gemm");
        const std::vector<Expected> answers = reference_of(problem, [](auto& values) {
            values[5][2] = 1e5;
            values[5][5] = -1e6;
            values[6][0] = 10;
        });
        EXPECT_EQ(answers.at(0).values.at(2), most);
        EXPECT_EQ(answers.at(0).values.at(5), -most);
        EXPECT_NEAR(answers.at(1).values.at(0), 1e6, 1e3);
    }
}

TEST(GemmOp, AmaxIsRaisedAndANanAnywhereMakesItNan) {
    const Problem problem = parse("4x16x256", {{"bias", "f32"}, {"amax", "yes"}}, "fp8gemm");
    const auto amax = [&](auto change) { return reference_of(problem, change).at(1).values.at(0); };
    EXPECT_EQ(amax([](auto& values) { values[7][0] = 1e9; }), 1e9);
    EXPECT_LT(amax([](auto& values) { values[7][0] = 0; }), 1e3);
    EXPECT_TRUE(std::isnan(amax([](auto& values) { values[5][15] = std::nan(""); })));
}

// Defines the results for scales that are not ordinary numbers; every family is compared with the reference.
TEST(GemmOp, ANanScaleOfFp8SpoilsItsRowAndAZeroScaleClearsItsColumn) {
    const Problem problem = parse("4x16x256", {{"scale", "row"}, {"c", "f32"}}, "fp8gemm");
    const std::vector<Expected> answers = reference_of(problem, [](auto& values) {
        values[3][1] = std::nan("");
        values[4][2] = 0;
    });
    const std::vector<double>& c = answers.front().values;
    for (std::size_t row = 0; row < 4; ++row) {
        for (std::size_t column = 0; column < 16; ++column) {
            EXPECT_EQ(std::isnan(c[row * 16 + column]), row == 1);
            if (row != 1) {
                EXPECT_EQ(c[row * 16 + column] == 0, column == 2);
            }
        }
    }
}

// A K that is not a multiple of 16 is accepted with an alignment to match. Families that allow it pack operands or load smaller
// pieces.
TEST(GemmOp, UnalignedRowsOfFp8HaveAFamily) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = parse("64x48x100", {{"scale", "row"}}, "fp8gemm");
    EXPECT_EQ(problem.word("align"), "4,4,16");
    const Device hopper = reference_device("sm_90a").value();
    EXPECT_EQ(catalogue.find_family("gemm/wgmma_fp8")->refuses(problem, hopper), std::nullopt);
    EXPECT_EQ(catalogue.find_family("gemm/mma_fp8")->refuses(problem, hopper), std::nullopt);
    EXPECT_THAT(catalogue.find_family("gemm/wgmma_fp8_plain")->refuses(problem, hopper).value_or(""), HasSubstr("16 bytes"));
    EXPECT_THAT(catalogue.find_family("gemm/mma_fp8")->refuses(problem, reference_device("sm_86").value()).value_or(""),
                HasSubstr("8.9"));
}

TEST(GemmOp, TheFp8LadderIsSixNamedConfigs) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Device hopper = reference_device("sm_90a").value();
    const Problem problem = parse("8192x8192x512", {{"acc", "f32fast"}, {"c", "f16"}}, "fp8gemm");
    std::vector<std::string> names;
    for (const char* family : {"gemm/wgmma_fp8_plain", "gemm/wgmma_fp8"}) {
        for (const NamedConfig& named : catalogue.find_family(family)->space(problem, hopper).named) names.push_back(named.name);
    }
    EXPECT_THAT(names, ::testing::IsSupersetOf({"plain", "persistent", "tma", "tma_persistent", "tma_ws", "tma_persistent_ws"}));
}

TEST(GemmOp, AnAlignmentOfF32IsAtLeastAnElement) {
    EXPECT_EQ(parse("64x65x66", {}, "sgemm").word("align"), "8,4,4");
    EXPECT_THAT(refusal("8x8x8", {{"align", "2"}}, "sgemm"), AllOf(HasSubstr("align is '2'"), HasSubstr("4 (one element)")));
}

TEST(GemmOp, StoredShapesFollowTheLayout) {
    const Problem problem = parse("3x5x7", {{"layout", "tt"}});
    EXPECT_EQ(matrix_view(problem.tensor("a")).rows, 7);
    EXPECT_EQ(matrix_view(problem.tensor("a")).cols, 3);
    EXPECT_EQ(matrix_view(problem.tensor("b")).rows, 5);
    EXPECT_EQ(matrix_view(problem.tensor("b")).cols, 7);
    EXPECT_EQ(matrix_view(problem.tensor("c")).cols, 5);
}

TEST(GemmOp, ABatchMayLeadTheShapeOrBeAnOption) {
    EXPECT_EQ(parse("16*512x256x64").extent("batch"), 16);
    EXPECT_EQ(parse("512x256x64", {{"batch", "16"}}).key(), parse("16*512x256x64").key());
    EXPECT_THAT(refusal("16*8x8x8", {{"batch", "4"}}), HasSubstr("disagree"));
}

TEST(GemmOp, BetaDecidesWhetherCIsRead) {
    EXPECT_EQ(parse("8x8x8").tensor("c").access, Access::out);
    EXPECT_EQ(parse("8x8x8", {{"beta", "0.0"}}).word("beta"), "zero");
    EXPECT_EQ(parse("8x8x8", {{"beta", "-0.5"}}).word("beta"), "any");
    EXPECT_EQ(parse("8x8x8", {{"beta", "-0.5"}}).scalars[1].number(), -0.5);
    EXPECT_EQ(parse("8x8x8", {{"beta", "any"}}).tensor("c").access, Access::inout);
}

TEST(GemmOp, AlignmentFollowsRowsBatchesAndTheBase) {
    EXPECT_EQ(parse("64x64x64").word("align"), "16,16,16");
    EXPECT_EQ(parse("64x65x66").word("align"), "4,2,2");
    EXPECT_EQ(parse("64x64x64", {{"lda", "68"}}).word("align"), "8,16,16");
    EXPECT_EQ(parse("64x64x64", {{"align", "8"}}).word("align"), "8,8,8");
    EXPECT_EQ(parse("64x64x64", {{"align", "2,4,8"}}).word("align"), "2,4,8");
    EXPECT_EQ(parse("2*64x64x64", {{"stride_b", "4098"}}).word("align"), "16,4,16");
}

TEST(GemmOp, EveryExampleSurvivesTheRoundTripOfItsKey) {
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const ProblemRequest& request : catalogue.find_op("gemm")->examples()) {
        const Problem problem = catalogue.problem(request);
        Options options;
        for (const Attribute& attribute : problem.attributes) options[attribute.name] = to_string(attribute.value);
        EXPECT_EQ(catalogue.problem({problem.op, problem.shape(), options}).key(), problem.key());
    }
}

class GemmBadInput : public test::BadInputTest {};

TEST_P(GemmBadInput, IsAUsageErrorThatNamesCulpritAndRemedy) {
    expect_refusal([](const auto& shape, const auto& options) { return parse(shape, options); });
}

INSTANTIATE_TEST_SUITE_P(
    All, GemmBadInput,
    ::testing::Values(BadInput{"Zero", "0x1x1", {}, "M is 0", "at least 1"},
                      BadInput{"Negative", "-1x4x4", {}, "M is -1", "at least 1"},
                      BadInput{"NegativeAndCutOff", "-1x", {}, "M is -1", "at least 1"},
                      BadInput{"CutOff", "4096x", {}, "N is missing", "whole number"},
                      BadInput{"Empty", "", {}, "M is missing", "whole number"},
                      BadInput{"TwoExtents", "4096x4096", {}, "has 2 extents", "MxNxK"},
                      BadInput{"FourExtents", "1x2x3x4", {}, "has 4 extents", "MxNxK"},
                      BadInput{"NoNumber", "4096x4kx4096", {}, "N is '4k'", "whole number"},
                      BadInput{"Fraction", "4096x4096x1.5", {}, "K is '1.5'", "whole number"},
                      BadInput{"Space", "4096x4 096x1", {}, "N is '4 096'", "whole number"},
                      BadInput{"TwoToThe31", "2147483648x1x1", {}, "M is 2147483648", "2147483647"},
                      BadInput{"TwoToThe63", "1x9223372036854775808x1", {}, "N is 9223372036854775808", "2147483647"},
                      BadInput{"Gigantic", "1x1x99999999999999999999999999", {}, "K is 9999", "2147483647"},
                      BadInput{"ProductOverflows", "2147483647x2147483647x1", {}, "tensor c", "smaller"},
                      BadInput{"BatchOverflows", "2147483647*65536x65536x1", {}, "tensor a", "smaller"},
                      BadInput{"ZeroBatch", "0*8x8x8", {}, "the batch is 0", "at least 1"},
                      BadInput{"NoBatch", "*8x8x8", {}, "the batch is missing", "whole number"},
                      BadInput{"Dtype", "8x8x8", {{"dtype", "f9"}}, "dtype 'f9'", "f16, bf16"},
                      BadInput{"Layout", "8x8x8", {{"layout", "nx"}}, "layout 'nx'", "nn, nt, tn, tt"},
                      BadInput{"Acc", "8x8x8", {{"acc", "f64"}}, "acc 'f64'", "f32, f16"},
                      BadInput{"Option", "8x8x8", {{"ldd", "8"}}, "option 'ldd'", "lda"},
                      BadInput{"ShortRow", "8x8x64", {{"lda", "63"}}, "lda is 63", "64 elements"},
                      BadInput{"ShortRowOfATransposed", "8x16x8", {{"layout", "nt"}, {"ldb", "7"}}, "ldb is 7", "8 elements"},
                      BadInput{"NegativeLd", "8x8x8", {{"ldc", "-8"}}, "ldc is '-8'", "from 1"},
                      BadInput{"HugeLd", "8x8x8", {{"ldc", "9223372036854775807"}}, "ldc is '9223372036854775807'", "2^47"},
                      BadInput{"LdOverflows", "1048576x8x8", {{"ldc", "140737488355328"}}, "tensor c", "smaller"},
                      BadInput{"ShortStride", "2*8x8x8", {{"stride_a", "63"}}, "stride_a is 63", "64 elements"},
                      BadInput{"Alpha", "8x8x8", {{"alpha", "one"}}, "alpha is 'one'", "finite number"},
                      BadInput{"InfiniteAlpha", "8x8x8", {{"alpha", "inf"}}, "alpha is 'inf'", "finite number"},
                      BadInput{"HugeBeta", "8x8x8", {{"beta", "1e39"}}, "beta is '1e39'", "32-bit float"},
                      BadInput{"AlignNoPower", "8x8x8", {{"align", "12"}}, "align is '12'", "power of two"},
                      BadInput{"AlignBelowAnElement", "8x8x8", {{"align", "1"}}, "align is '1'", "power of two"},
                      BadInput{"AlignTwoNumbers", "8x8x8", {{"align", "8,8"}}, "align is '8,8'", "each of a, b, c"},
                      BadInput{"AlignCutOff", "8x8x8", {{"align", "8,"}}, "align is '8,'", "power of two"}),
    [](const auto& entry) { return entry.param.name; });

TEST(GemmOp, BfloatCannotAccumulateInHalf) {
    EXPECT_THAT(refusal("8x8x8", {{"dtype", "bf16"}, {"acc", "f16"}}, "gemm"), AllOf(HasSubstr("acc f16"), HasSubstr("acc f32")));
    EXPECT_THAT(refusal("8x8x8", {{"a", "bf16"}, {"b", "f16"}}, "gemm"), HasSubstr("one type"));
}

TEST(GemmOp, AnUnknownOpNamesTheKnownOnes) {
    EXPECT_THAT(refusal("8x8x8", {}, "gemmm"), AllOf(HasSubstr("'gemmm'"), HasSubstr("hgemm_f16acc")));
}

TEST(GemmOp, CountsOperationsAndBytes) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Op& op = *catalogue.find_op("gemm");
    EXPECT_EQ(op.flops(parse("2*3x5x7")), 2.0 * 2 * 3 * 5 * 7);
    EXPECT_EQ(op.bytes(parse("3x5x7")), 2.0 * (21 + 35 + 15));
    EXPECT_EQ(op.bytes(parse("3x5x7", {{"beta", "any"}})), 2.0 * (21 + 35 + 30));
}

TEST(GemmOp, AwkwardNeighboursStayInTheClassAndHaveTails) {
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const ProblemRequest& request : catalogue.find_op("gemm")->examples()) {
        const Problem problem = catalogue.problem(request);
        const Config config = {{"block_m", 64}, {"block_n", 128}, {"block_k", 32}, {"stages", 3}};
        const std::vector<Problem> neighbours = catalogue.op_of(problem).edge_case_problems(problem, config);
        const auto has = [&](const char* extent, std::int64_t value) {
            return std::any_of(neighbours.begin(), neighbours.end(), [&](const Problem& p) { return p.extent(extent) == value; });
        };
        // tf32x3 does not split short sums.
        const bool is_split = problem.word("compute") == "tf32x3" && problem.extent("k") >= 256;
        const std::int64_t least_k = is_split ? 256 : 0;
        EXPECT_TRUE(has("m", 63) && has("m", 65) && has("n", 127) && has("n", 129));
        EXPECT_TRUE(has("k", least_k + 31) && has("k", least_k + 33));
        EXPECT_TRUE(std::any_of(neighbours.begin(), neighbours.end(), [](const Problem& p) {
            const TypedMatrix a = matrix_view(p.tensor("a")), c = matrix_view(p.tensor("c"));
            return a.ld >= a.cols + 12 && c.ld >= c.cols + 12;
        }));
        for (const Problem& neighbour : neighbours) EXPECT_EQ(neighbour.class_key(), problem.class_key());
    }
}

TEST(GemmOp, TheReferencePlanFitsTheLargestProblems) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = parse("2147483647x16x1");
    const LaunchPlan plan =
        catalogue.op_of(problem).reference_plan(problem, typical_test(catalogue.op_of(problem).tests(problem)));
    ASSERT_EQ(plan.steps.size(), 1U);
    EXPECT_EQ(plan.steps[0].grid.x, (2147483647U + 63) / 64);
    EXPECT_EQ(plan.steps[0].arguments.size(), 33U);
}

}  // namespace
}  // namespace autotune::gemm_op_test
