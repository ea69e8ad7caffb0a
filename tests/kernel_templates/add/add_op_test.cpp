#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "kernel_templates/harness/fill.h"
#include "kernel_templates/harness/harness.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "tests/kernel_templates/bad_input.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/refusal.h"

namespace autotune::add_op_test {
namespace {

using test::BadInput;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using Options = std::map<std::string, std::string>;

constexpr std::int64_t kLongest = std::int64_t{1} << 40;

Problem parse(const std::string& shape, const Options& options = {}, const std::string& op = "add") {
    return test::embedded_catalogue().problem({op, shape, options});
}

// The message of the usage error for a request; empty if it is accepted.
std::string refusal(const std::string& shape, const Options& options = {}, const std::string& op = "add") {
    return test::refusal_of([&] { parse(shape, options, op); });
}

TEST(AddOp, ALengthGivesTheDocumentedKey) {
    EXPECT_EQ(parse("1048576").key(), "add dtype=f32 align=16,16,16 1048576");
}

TEST(AddOp, RowsOfAMatrixAreOneLength) {
    EXPECT_EQ(parse("1024x1024").key(), parse("1048576").key());
    EXPECT_EQ(parse("1048576x1048576").extent("n"), kLongest);
}

TEST(AddOp, AliasesFixTheType) {
    EXPECT_EQ(parse("8", {}, "hadd").word("dtype"), "f16");
    EXPECT_EQ(parse("8", {}, "badd").tensor("c").dtype, DType::bf16);
    EXPECT_EQ(parse("8", {}, "sadd").key(), parse("8").key());
    EXPECT_THAT(refusal("8", {{"dtype", "f32"}}, "hadd"), AllOf(HasSubstr("dtype"), HasSubstr("'add'")));
}

TEST(AddOp, EveryExampleSurvivesTheRoundTripOfItsKey) {
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const ProblemRequest& request : catalogue.find_op("add")->examples()) {
        const Problem problem = catalogue.problem(request);
        Options options;
        for (const Attribute& attribute : problem.attributes) options[attribute.name] = to_string(attribute.value);
        EXPECT_EQ(catalogue.problem({problem.op, problem.shape(), options}).key(), problem.key());
    }
}

TEST(AddOp, TakesLengthsFromNothingToTwoToTheForty) {
    EXPECT_EQ(parse("0").tensor("a").span(), 0);
    EXPECT_EQ(parse("1099511627776").tensor("c").span_bytes(), 4 * kLongest);
}

class AddBadInput : public test::BadInputTest {};

TEST_P(AddBadInput, IsAUsageErrorThatNamesCulpritAndRemedy) {
    expect_refusal([](const auto& shape, const auto& options) { return parse(shape, options); });
}

INSTANTIATE_TEST_SUITE_P(All, AddBadInput,
                         ::testing::Values(BadInput{"Negative", "-1", {}, "N is -1", "at least 0"},
                                           BadInput{"Empty", "", {}, "N is missing", "whole number"},
                                           BadInput{"TooLong", "1099511627777", {}, "N is 1099511627777", "largest extent"},
                                           BadInput{"ProductTooLong", "1048577x1048576", {}, "1048577x1048576", "2^40"},
                                           BadInput{"ProductOverflows", "1099511627776x1099511627776", {}, "more than", "2^40"},
                                           BadInput{"ThreeExtents", "2x2x2", {}, "has 3 extents", "SxK"},
                                           BadInput{"CutOff", "256x", {}, "K is missing", "whole number"},
                                           BadInput{"Batch", "2*256", {}, "no batch", "SxK"},
                                           BadInput{"Dtype", "8", {{"dtype", "f64"}}, "dtype 'f64'", "f32, f16, bf16"},
                                           BadInput{"Option", "8", {{"layout", "nn"}}, "option 'layout'", "align"},
                                           BadInput{
                                               "AlignBelowAnElement", "8", {{"align", "2"}}, "align is '2'", "power of two"}),
                         [](const auto& entry) { return entry.param.name; });

TEST(AddOp, CountsOperationsAndBytes) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Op& op = *catalogue.find_op("add");
    EXPECT_EQ(op.flops(parse("1000")), 1000);
    EXPECT_EQ(op.bytes(parse("1000")), 12000);
    EXPECT_EQ(op.bytes(parse("1000", {}, "hadd")), 6000);
    EXPECT_EQ(op.rate_unit(), "gb_per_s");
}

// Tensors of a test with the reference's expected results.
struct Answers {
    std::vector<std::vector<double>> tensors;
    Expected c;

    Answers(const Problem& problem, const Op& op, const OpTest& test) {
        for (int i = 0; i < 3; ++i) {
            const auto at = static_cast<std::size_t>(i);
            tensors.push_back(filled_tensor(test.fills[at], problem.tensors[at], i, 7));
        }
        c = op.reference_on_host(problem, test, tensors).front();
    }
};

class AddVerifier : public ::testing::TestWithParam<std::string> {};

TEST_P(AddVerifier, PassesSumsRoundedOnceAndNothingElse) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({GetParam(), "1000", {}});
    const Op& op = catalogue.op_of(problem);
    const DType type = problem.tensors[0].dtype;
    for (const OpTest& test : op.tests(problem)) {
        const Answers answers(problem, op, test);
        const auto accepts = [&](std::size_t wrong_at, double by) {
            CompareResult result;
            for (std::size_t i = 0; i < 1000; ++i) {
                const double sum = round_to(type, answers.tensors[0][i] + answers.tensors[1][i]);
                const double out = i == wrong_at ? sum + by : sum;
                compare_element(result, type, encode(type, out), answers.c.values[i], answers.c.bounds[i], i);
            }
            return passes(test.outputs.front(), result);
        };
        EXPECT_TRUE(accepts(0, 0));
        EXPECT_FALSE(accepts(999, 0.5));
        const double two_units = 4 * unit_roundoff(type) * (std::abs(answers.c.values[500]) + 0.01);
        EXPECT_FALSE(accepts(500, two_units));
    }
}

INSTANTIATE_TEST_SUITE_P(Types, AddVerifier, ::testing::Values("sadd", "hadd", "badd"),
                         [](const auto& entry) { return entry.param; });

std::set<std::string> names_in(const std::string& op, const std::string& family) {
    const Catalogue& catalogue = test::embedded_catalogue();
    std::set<std::string> names;
    const SearchSpace space =
        catalogue.find_family(family)->space(catalogue.problem({op, "4096x4096", {}}), reference_device("sm_90a").value());
    for (const NamedConfig& named : space.named) names.insert(named.name);
    return names;
}

TEST(AddSpace, HasTheClassicNames) {
    EXPECT_THAT(names_in("sadd", "add/vector"), IsSupersetOf({"f32", "f32x4"}));
    EXPECT_THAT(names_in("hadd", "add/vector"), IsSupersetOf({"f16", "f16x2", "f16x8", "f16x8_pack"}));
    EXPECT_THAT(names_in("badd", "add/vector"), IsSupersetOf({"bf16", "bf16x2", "bf16x8", "bf16x8_pack"}));
    EXPECT_THAT(names_in("hadd", "add/bulk"), IsSupersetOf({"f16_bulk", "f16_bulk_store"}));
}

TEST(AddSpace, HasHundredsOfLegalConfigsPerFamily) {
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const Family* family : catalogue.families_of("add")) {
        for (const char* op : {"sadd", "hadd", "badd"}) {
            const Problem problem = catalogue.problem({op, "4096x4096", {}});
            EXPECT_GE(family->space(problem, reference_device("sm_90a").value()).count().legal, 500U) << family->name();
        }
    }
}

TEST(AddSpace, VectorTakesEveryExampleOnEveryGpu) {
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const std::string& arch : known_archs()) {
        for (const ProblemRequest& request : catalogue.find_op("add")->examples()) {
            const Problem problem = catalogue.problem(request);
            EXPECT_EQ(catalogue.find_family("add/vector")->refuses(problem, reference_device(arch).value()), std::nullopt);
        }
    }
}

TEST(AddSpace, BulkRefusesWhatTheHardwareCannotCopy) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Family& bulk = *catalogue.find_family("add/bulk");
    EXPECT_THAT(bulk.refuses(parse("1024"), reference_device("sm_89").value()).value_or(""), HasSubstr("sm_90"));
    EXPECT_THAT(bulk.refuses(parse("1024", {{"align", "8"}}), reference_device("sm_90a").value()).value_or(""),
                HasSubstr("16 bytes"));
}

// The number of elements that a launch of a named config covers. All its blocks have one tile, or as many as a loop processes.
std::int64_t reach(const LaunchStep& step, const Config& config) {
    const std::int64_t blocks = std::int64_t{step.grid.x} * step.grid.y;
    return blocks * config["threads"] * config["vec"] * config["unroll"];
}

TEST(AddPlan, NothingIsLaunchedForNothing) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Device device = reference_device("sm_90a").value();
    for (const Family* family : catalogue.families_of("add")) {
        const Problem empty = parse("0");
        EXPECT_TRUE(family->plan(empty, family->space(empty, device).default_config, device).steps.empty());
    }
}

TEST(AddPlan, OneBlockATileCoversEveryLength) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Family& family = *catalogue.find_family("add/vector");
    const Device device = reference_device("sm_90a").value();
    for (const char* shape : {"1", "255", "256", "257", "1000003", "549755813889", "1099511627776"}) {
        const Problem problem = parse(shape, {}, "hadd");
        for (const NamedConfig& named : family.space(problem, device).named) {
            if (named.config["grid_stride"] == 1) continue;
            const LaunchStep step = family.plan(problem, named.config, device).steps.at(0);
            EXPECT_GE(reach(step, named.config), problem.extent("n")) << named.name;
            EXPECT_LE(step.grid.x, 2147483647U);
            EXPECT_LE(step.grid.y, 65535U);
        }
    }
}

// A winner of another length can serve this problem with its config, because the launch follows from the problem.
TEST(AddPlan, AConfigOfAShortProblemLaunchesALongOneInFull) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Device device = reference_device("sm_90a").value();
    for (const Family* family : catalogue.families_of("add")) {
        const Config config = family->space(parse("4096"), device).default_config;
        const Problem longer = parse("268435456");
        ASSERT_TRUE(family->space(longer, device).contains(config));
        EXPECT_GT(family->plan(longer, config, device).steps.at(0).grid.x,
                  family->plan(parse("4096"), config, device).steps.at(0).grid.x);
    }
}

TEST(AddPlan, BlocksMayStartEarlyWhereTheGpuCan) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Family& family = *catalogue.find_family("add/vector");
    const Problem problem = parse("4096");
    for (const auto& [arch, can] : {std::pair{"sm_80", false}, {"sm_89", false}, {"sm_90a", true}, {"sm_120", true}}) {
        const Device device = reference_device(arch).value();
        const SearchSpace space = family.space(problem, device);
        Config config = space.default_config;
        EXPECT_FALSE(family.plan(problem, config, device).steps.at(0).programmatic_dependent) << arch;
        config.set("pdl", 1);
        EXPECT_TRUE(family.plan(problem, config, device).steps.at(0).programmatic_dependent) << arch;
        EXPECT_EQ(space.contains(config), can) << arch;
        config.set("pdl", 0);
        EXPECT_TRUE(space.contains(config)) << arch;
    }
}

TEST(AddPlan, GridStrideFillsTheGpuAndNoMore) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Family& family = *catalogue.find_family("add/vector");
    const Device device = reference_device("sm_90a").value();
    const Problem problem = parse("268435456");
    Config config = family.space(problem, device).default_config;
    config.set("unroll", 1);  // with 32 registers per thread the register file has room for 2048 threads
    config.set("grid_stride", 1);
    config.set("waves", 2);
    const std::int64_t threads = std::int64_t{family.plan(problem, config, device).steps.at(0).grid.x} * config["threads"];
    EXPECT_EQ(threads, 2 * 132 * 2048);
}

TEST(AddOp, AwkwardNeighboursStayInTheClassAndHaveTails) {
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const ProblemRequest& request : catalogue.find_op("add")->examples()) {
        const Problem problem = catalogue.problem(request);
        const Config config = {{"vec", 4}, {"unroll", 2}, {"threads", 128}};
        std::set<std::int64_t> lengths;
        for (const Problem& neighbour : catalogue.op_of(problem).edge_case_problems(problem, config)) {
            EXPECT_EQ(neighbour.class_key(), problem.class_key());
            lengths.insert(neighbour.extent("n"));
        }
        EXPECT_TRUE(lengths.contains(1) && lengths.contains(1023) && lengths.contains(1024) && lengths.contains(1025));
    }
}

}  // namespace
}  // namespace autotune::add_op_test
