// Tests of a family as a value: its space, its plan, its text, and refused definitions.
#include "tests/kernel_templates/defined_family.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "src/jit/render.h"
#include "tests/support/refusal.h"

namespace autotune::defined_family_test {
namespace {

using test::defined_add;
using ::testing::HasSubstr;

const Device& device() {
    static const Device h200 = reference_device("sm_90a").value();
    return h200;
}

Catalogue catalogue_with(FamilyDefinition definition) {
    Catalogue catalogue = Catalogue::embedded();
    catalogue.add(std::move(definition));
    return catalogue;
}

std::string refusal(FamilyDefinition definition) {
    return test::refusal_of([&] { catalogue_with(std::move(definition)); });
}

TEST(DefinedFamily, StandsInItsCatalogueAndInNoOther) {
    const Catalogue catalogue = catalogue_with(defined_add());
    ASSERT_NE(catalogue.find_family("add/by_value"), nullptr);
    EXPECT_EQ(Catalogue::embedded().find_family("add/by_value"), nullptr);
    EXPECT_EQ(catalogue.families_of("add").size(), Catalogue::embedded().families_of("add").size() + 1);
    const Catalogue copy = catalogue;
    EXPECT_EQ(copy.text(*copy.find_family("add/by_value")), defined_add().text);
}

TEST(DefinedFamily, RefusesProblemsWithTheReasonOfTheRule) {
    const DefinedFamily family(defined_add());
    const Catalogue catalogue = Catalogue::embedded();
    EXPECT_EQ(family.refuses(catalogue.problem({"hadd", "65536", {}}), device()), std::nullopt);
    EXPECT_EQ(family.refuses(catalogue.problem({"badd", "65536", {}}), device()), "it has no bf16");
    EXPECT_EQ(family.refuses(catalogue.problem({"hadd", "4294967296", {}}), device()), "it counts in 32 bits");
}

TEST(DefinedFamily, ConstraintsReadParametersProblemAndDevice) {
    const DefinedFamily family(defined_add());
    const Catalogue catalogue = Catalogue::embedded();
    const SearchSpace large = family.space(catalogue.problem({"hadd", "16777216", {}}), device());
    EXPECT_EQ(large.count().points, 36U);
    EXPECT_EQ(large.count().legal, 33U);  // 512 threads cannot be unrolled four times
    EXPECT_EQ(large.why_not({{"threads", 512}, {"unroll", 4}, {"waves", 1}}), "a block takes at most 1024 elements at once");
    const SearchSpace small = family.space(catalogue.problem({"hadd", "1000", {}}), device());
    EXPECT_EQ(small.count().legal, 11U);
    EXPECT_EQ(small.why_not({{"threads", 64}, {"unroll", 1}, {"waves", 2}}), "more blocks than work");
    EXPECT_EQ(small.named.size(), 1U);
}

TEST(DefinedFamily, TakesTheFirstLegalConfigWhereTheDefaultIsNone) {
    FamilyDefinition definition = defined_add();
    definition.default_config = {{"threads", 512}, {"unroll", 4}, {"waves", 1}};
    const SearchSpace space = DefinedFamily(definition).space(Catalogue::embedded().problem({"hadd", "1000", {}}), device());
    EXPECT_EQ(space.default_config, (Config{{"threads", 64}, {"unroll", 1}, {"waves", 1}}));
}

TEST(DefinedFamily, PlansAsItsExpressionsSay) {
    const DefinedFamily family(defined_add());
    const Problem problem = Catalogue::embedded().problem({"hadd", "1000000", {}});
    const LaunchPlan plan = family.plan(problem, {{"threads", 128}, {"unroll", 2}, {"waves", 4}}, device());
    ASSERT_EQ(plan.steps.size(), 1U);
    EXPECT_EQ(plan.steps[0].grid, (Dim3{132 * 4, 1, 1}));
    EXPECT_EQ(plan.steps[0].block, (Dim3{128, 1, 1}));
    ASSERT_EQ(plan.steps[0].arguments.size(), 4U);
    EXPECT_EQ(std::get<TensorArg>(plan.steps[0].arguments[2]).index, 2);
    EXPECT_EQ(std::get<I32Arg>(plan.steps[0].arguments[3]).value, 1000000);
    EXPECT_EQ(family.predict_us(problem, {{"threads", 512}, {"unroll", 2}, {"waves", 4}}, device()), 2 + 2 + 2);
}

TEST(DefinedFamily, RendersItsFactsAndParameters) {
    const Catalogue catalogue = catalogue_with(defined_add());
    const Family& family = *catalogue.find_family("add/by_value");
    const Problem problem = catalogue.problem({"hadd", "65536", {}});
    const SearchSpace space = family.space(problem, device());
    const jit::Rendered rendered = jit::render(catalogue, family, problem, space, space.default_config, {"sm_90a", "13.0"});
    EXPECT_THAT(rendered.source, HasSubstr("using Element = f16;"));
    EXPECT_THAT(rendered.source, HasSubstr("constexpr int threads = 256;"));
    EXPECT_THAT(rendered.source, HasSubstr("constexpr bool is_whole = 1;"));
    EXPECT_THAT(rendered.symbol, HasSubstr("add_by_value_"));
}

// Stored rows are found by the identity, so everything that changes the meaning of a config must change it.
TEST(DefinedFamily, ItsTemplateIdentityIsOfTheWholeDefinition) {
    const auto identity = [](const FamilyDefinition& definition) {
        const Catalogue catalogue = catalogue_with(definition);
        return catalogue.template_identity(*catalogue.find_family("add/by_value"));
    };
    const std::string same = identity(defined_add());
    EXPECT_EQ(identity(defined_add()), same);
    FamilyDefinition text = defined_add(), grid = defined_add(), rule = defined_add(), fact = defined_add();
    text.text += "constexpr int more = 1;\n";
    grid.steps[0].grid[0] = "sms";
    rule.constraints[0].holds = "threads * unroll <= 512";
    fact.facts[1].value = "0";
    for (const FamilyDefinition& changed : {text, grid, rule, fact}) EXPECT_NE(identity(changed), same);
    FamilyDefinition comment = defined_add();
    comment.text += "// words\n\n";
    EXPECT_EQ(identity(comment), same);
}

TEST(DefinedFamily, RefusesDefinitionsThatCannotBe) {
    FamilyDefinition bad = defined_add();
    bad.name = "by_value";
    EXPECT_THAT(refusal(bad), HasSubstr("a slash"));
    bad = defined_add();
    bad.name = "convolution/mine";
    EXPECT_THAT(refusal(bad), HasSubstr("unknown op 'convolution'"));
    bad = defined_add();
    bad.name = "add/vector";
    EXPECT_THAT(refusal(bad), HasSubstr("already"));
    bad = defined_add();
    bad.constraints[0].holds = "threads *";
    EXPECT_THAT(refusal(bad), HasSubstr("family 'add/by_value': expression 'threads *'"));
    bad = defined_add();
    bad.steps.clear();
    EXPECT_THAT(refusal(bad), HasSubstr("launches nothing"));
    bad = defined_add();
    bad.parameters[1].name = "threads";
    EXPECT_THAT(refusal(bad), HasSubstr("'threads' is given twice"));
    bad = defined_add();
    bad.facts[0].name = "unroll";
    EXPECT_THAT(refusal(bad), HasSubstr("fact 'unroll'"));
}

TEST(DefinedFamily, AnUnknownNameIsAUsageErrorThatNamesIt) {
    FamilyDefinition bad = defined_add();
    bad.constraints[0].holds = "threds * unroll <= 1024";
    const Catalogue catalogue = catalogue_with(bad);
    try {
        catalogue.find_family("add/by_value")->space(catalogue.problem({"hadd", "65536", {}}), device()).count();
        FAIL() << "an unknown name was given a value";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        EXPECT_THAT(error.what(), HasSubstr("there is no 'threds'"));
    }
}

}  // namespace
}  // namespace autotune::defined_family_test
