// Compiles the texts of every family that chosen_texts.h chooses with the real compiler; needs no GPU. AUTOTUNE_EVERY_CONFIG=1,
// set by the soak test, compiles all named configs and examples. sides_host_test.cpp checks what the choice covers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "src/catalogue/code_of.h"
#include "src/core/error.h"
#include "src/jit/compiler.h"
#include "tests/kernel_templates/chosen_texts.h"
#include "tests/support/cubin_sections.h"
#include "tests/support/nvrtc_for_tests.h"
#include "tests/support/test_names.h"

namespace autotune {
namespace {

using test::ChosenText;
using test::kArchs;

// Everything that a reference's text is made from, such as "in_type=f16", "d=64".
std::vector<std::string> facts_of_reference(const Op& op, const Problem& problem) {
    std::vector<std::string> words;
    for (const Binding& fact : op.reference_facts(problem)) words.push_back(fact.name + "=" + fact.spelled());
    return words;
}

// A family and an architecture.
class TemplatesTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(TemplatesTest, ChosenTextsCompile) {
    std::string why;
    const std::shared_ptr<const gpu::Nvrtc> nvrtc = test::nvrtc_or_skip(why);
    if (!nvrtc) GTEST_SKIP() << why;
    const auto& [name, arch] = GetParam();
    const Catalogue catalogue = Catalogue::embedded();
    const Family& family = *catalogue.find_family(name);
    const std::vector<ChosenText> texts = test::chosen_texts(catalogue, family, arch);
    if (texts.empty()) GTEST_SKIP() << "not for " << arch;
    std::set<std::string> compiled;  // identities
    for (const ChosenText& text : texts) {
        const SearchSpace space = family.space(text.problem, reference_device(arch).value());
        const jit::Rendered rendered = jit::render(catalogue, family, text.problem, space, text.config, {arch, nvrtc->version()});
        if (!compiled.insert(rendered.identity).second) continue;
        const std::string what = text.problem.key() + " " + text.config.to_string();
        const jit::CompileResult result = jit::compile(*nvrtc, jit::CubinCache(""), rendered);
        EXPECT_TRUE(result.compiled) << what << ": " << result.failure;
        EXPECT_TRUE(!text.fits || result.rejected.empty()) << what << ": " << result.rejected;
    }
    std::printf("%zu texts\n", compiled.size());
}

std::vector<std::string> family_names() {
    std::vector<std::string> names;
    const Catalogue catalogue = Catalogue::embedded();
    for (const Family* family : catalogue.families()) names.emplace_back(family->name());
    return names;
}

INSTANTIATE_TEST_SUITE_P(Families, TemplatesTest,
                         ::testing::Combine(::testing::ValuesIn(family_names()), ::testing::ValuesIn(kArchs)),
                         test::NamedByParameter());

// Reduces each text to its code and gives headers their base names, as for an identity. The symbol is kept, so that nothing else
// differs.
jit::Rendered code_alone(const jit::Rendered& rendered) {
    jit::Rendered code = rendered;
    code.source = code_of(rendered.source);
    for (auto& [name, text] : code.headers) {
        name = base_name(name);
        text = code_of(text);
    }
    return code;
}

void expect_same_machine_code(const gpu::Nvrtc& nvrtc, const jit::Rendered& rendered, const std::string& what) {
    const jit::CubinCache no_cache("");
    const jit::CompileResult text = jit::compile(nvrtc, no_cache, rendered);
    const jit::CompileResult code = jit::compile(nvrtc, no_cache, code_alone(rendered));
    ASSERT_TRUE(text.compiled && code.compiled) << what << ": " << text.failure << code.failure;
    EXPECT_EQ(text.compiled->report.registers, code.compiled->report.registers) << what;
    const auto of_text = test::machine_code(text.compiled->cubin), of_code = test::machine_code(code.compiled->cubin);
    EXPECT_GE(of_text.size(), 3U) << what;
    EXPECT_TRUE(of_text == of_code) << what;
}

// These tests compile one kernel of each family, for sm_90a if possible, else for the first architecture that accepts it. For
// every eighth family they compile one more.
class CodeTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(CodeTest, CompilesToTheMachineCodeOfTheText) {
    std::string why;
    const std::shared_ptr<const gpu::Nvrtc> nvrtc = test::nvrtc_or_skip(why);
    if (!nvrtc) GTEST_SKIP() << why;
    const Catalogue catalogue = Catalogue::embedded();
    const Family& family = *catalogue.families().at(GetParam());
    const std::string_view op = family.name().substr(0, family.name().find('/'));
    std::size_t compared = 0;
    const std::size_t wanted = GetParam() % 8 == 0 ? 2 : 1;
    for (const std::string arch : {"sm_90a", "sm_80", "sm_89", "sm_120"}) {
        const Device device = reference_device(arch).value();
        for (const ProblemRequest& request : catalogue.find_op(op)->examples()) {
            const Problem problem = catalogue.problem(request);
            if (compared == wanted || family.refuses(problem, device)) continue;
            const SearchSpace space = family.space(problem, device);
            const std::vector<Config> first = space.enumerate({}, 1);  // The smallest tile compiles in a third of the time.
            ASSERT_FALSE(first.empty()) << problem.key();
            const jit::Rendered rendered =
                jit::render(catalogue, family, problem, space, first.front(), {arch, nvrtc->version()});
            expect_same_machine_code(*nvrtc, rendered, problem.key() + " " + arch);
            ++compared;
            break;
        }
    }
    EXPECT_GE(compared, 1U);
}

INSTANTIATE_TEST_SUITE_P(Families, CodeTest, ::testing::Range(std::size_t{0}, Catalogue::embedded().families().size()),
                         [](const auto& entry) {
                             std::string name(Catalogue::embedded().families().at(entry.param)->name());
                             std::replace(name.begin(), name.end(), '/', '_');
                             return name;
                         });

TEST(CodeOfSharedTexts, CompilesToTheMachineCodeOfTheText) {
    std::string why;
    const std::shared_ptr<const gpu::Nvrtc> nvrtc = test::nvrtc_or_skip(why);
    if (!nvrtc) GTEST_SKIP() << why;
    const Catalogue catalogue = Catalogue::embedded();
    const jit::Target target = {"sm_90a", nvrtc->version()};
    expect_same_machine_code(*nvrtc, jit::render_harness(catalogue, target), "harness");
    const Problem any = catalogue.problem({"hgemm", "64x64x64", {}});
    expect_same_machine_code(*nvrtc, jit::render(catalogue, *catalogue.find_family("common/empty_sum"), any, {}, {}, target),
                             "empty_sum");
    for (const Op* op : catalogue.ops()) {
        const Problem problem = catalogue.problem(op->examples().front());
        expect_same_machine_code(*nvrtc, jit::render_reference(catalogue, *op, problem, target), std::string(op->name()));
    }
}

class SharedTextTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SharedTextTest, HarnessAndReferencesCompileWithoutSpills) {
    std::string why;
    const std::shared_ptr<const gpu::Nvrtc> nvrtc = test::nvrtc_or_skip(why);
    if (!nvrtc) GTEST_SKIP() << why;
    const Catalogue catalogue = Catalogue::embedded();
    const jit::Target target = {GetParam(), nvrtc->version()};
    const jit::CubinCache no_cache("");
    EXPECT_TRUE(jit::compile(*nvrtc, no_cache, jit::render_harness(catalogue, target)).compiled);
    std::size_t turn = 0;
    for (const Op* op : catalogue.ops()) {
        std::vector<Problem> distinct;
        std::vector<std::vector<std::string>> rows;
        std::set<std::string> seen;
        for (const ProblemRequest& request : op->examples()) {
            const Problem problem = catalogue.problem(request);
            if (!seen.insert(jit::render_reference(catalogue, *op, problem, target).identity).second) continue;
            distinct.push_back(problem);
            rows.push_back(facts_of_reference(*op, problem));
        }
        for (const std::size_t at : test::covering(rows)) {
            // Types and layouts are combined on one architecture. On the others the first problem is enough.
            if (turn++ > 0 && GetParam() != "sm_90a") continue;
            const jit::CompileResult result =
                jit::compile(*nvrtc, no_cache, jit::render_reference(catalogue, *op, distinct[at], target));
            ASSERT_TRUE(result.compiled) << result.failure;
            EXPECT_EQ(result.rejected, "") << distinct[at].class_key();
        }
    }
}

TEST_P(SharedTextTest, SumsOfNothingCompileWithoutSpills) {
    std::string why;
    const std::shared_ptr<const gpu::Nvrtc> nvrtc = test::nvrtc_or_skip(why);
    if (!nvrtc) GTEST_SKIP() << why;
    const Catalogue catalogue = Catalogue::embedded();
    const Problem problem = catalogue.problem({"hgemm", "64x64x64", {}});  // any problem will do, because the text has no facts
    const Family* const family = catalogue.find_family("common/empty_sum");
    ASSERT_NE(family, nullptr);
    const jit::Rendered text = jit::render(catalogue, *family, problem, {}, {}, {GetParam(), nvrtc->version()});
    const jit::CompileResult result = jit::compile(*nvrtc, jit::CubinCache(""), text);
    ASSERT_TRUE(result.compiled) << result.failure;
    EXPECT_EQ(result.rejected, "");
}

// C is read run by run while it is stored. Without a condition before the read of each run, the compiler read all of a tile first
// and spilled 672 bytes.
TEST(DirectStores, OfF32ReadCWithoutSpills) {
    std::string why;
    const std::shared_ptr<const gpu::Nvrtc> nvrtc = test::nvrtc_or_skip(why);
    if (!nvrtc) GTEST_SKIP() << why;
    const Catalogue catalogue = Catalogue::embedded();
    const Problem problem = catalogue.problem({"tf32gemm", "131x133x257", {{"layout", "nn"}, {"beta", "1"}}});
    const Family& family = *catalogue.find_family("gemm/wgmma_tf32");
    const SearchSpace space = family.space(problem, reference_device("sm_90a").value());
    int compiled = 0;
    for (const NamedConfig& named : space.named) {
        if (named.config["block_m"] != 128 || named.config["block_n"] != 128) continue;
        const jit::Rendered text = jit::render(catalogue, family, problem, space, named.config, {"sm_90a", nvrtc->version()});
        const jit::CompileResult result = jit::compile(*nvrtc, jit::CubinCache(""), text);
        ASSERT_TRUE(result.compiled) << named.name << ": " << result.failure;
        EXPECT_EQ(result.rejected, "") << named.name;
        ++compiled;
    }
    EXPECT_GT(compiled, 0);
}

INSTANTIATE_TEST_SUITE_P(Architectures, SharedTextTest, ::testing::ValuesIn(kArchs), test::NamedByParameter());

}  // namespace
}  // namespace autotune
