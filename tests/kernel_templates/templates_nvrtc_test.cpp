// Compiles every family's text with the real compiler, without a GPU: named configs, and the default and a few others for the
// layouts, types and alignments of the op's examples, distributed over the architectures. Of named configs and examples, a subset
// is compiled that contains every pair of values (pair_cover.h); AUTOTUNE_EVERY_CONFIG=1, set by the soak test, compiles all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "src/catalogue/code_of.h"
#include "src/core/error.h"
#include "src/jit/compiler.h"
#include "tests/support/cubin_sections.h"
#include "tests/support/nvrtc_for_tests.h"
#include "tests/support/pair_cover.h"
#include "tests/support/spread_configs.h"
#include "tests/support/test_names.h"

namespace autotune {
namespace {

const std::vector<std::string> kArchs = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_120"};

bool compiles_all() {
    const char* const wanted = std::getenv("AUTOTUNE_EVERY_CONFIG");
    return wanted != nullptr && std::string(wanted) == "1";
}

// The rows of pair_cover(), or all.
std::vector<std::size_t> covering(const std::vector<test::Words>& rows) {
    if (!compiles_all()) return test::pair_cover(rows);
    std::vector<std::size_t> all(rows.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
}

// "a=f16", "layout=nt", ...: the properties of a problem that change the text.
test::Words attributes_of(const Problem& problem) {
    std::istringstream key(problem.key());
    test::Words words;
    for (std::string word; key >> word;)
        if (word.find('=') != std::string::npos) words.push_back(word);
    return words;
}

// "in_type=f16", "d=64", ...: everything that determines a reference's text.
test::Words facts_of_reference(const Op& op, const Problem& problem) {
    test::Words words;
    for (const Binding& fact : op.reference_facts(problem)) words.push_back(fact.name + "=" + fact.spelled());
    return words;
}

// The parameters of a text. The tile and its division form one word, because registers depend on all of them together; so each
// tile is combined with each value of every other parameter.
test::Words parameters_of(const Config& text) {
    test::Words words(1);
    for (const auto& [name, value] : text.values()) {
        const std::string word = name + "=" + std::to_string(value);
        if (name.starts_with("block_") || name.starts_with("thread_") || name.starts_with("warps_")) {
            words.front() += word + " ";
        } else {
            words.push_back(word);
        }
    }
    return words;
}

class TemplatesTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
  protected:
    void SetUp() override {
        std::string why;
        nvrtc_ = test::nvrtc_or_skip(why);
        if (!nvrtc_) GTEST_SKIP() << why;
    }

    const Family& family() const { return *catalogue_.find_family(std::get<0>(GetParam())); }
    const std::string& arch() const { return std::get<1>(GetParam()); }
    jit::Target target() const { return {arch(), nvrtc_->version()}; }
    std::vector<ProblemRequest> examples() const {
        const std::string_view name = family().name();
        return catalogue_.find_op(name.substr(0, name.find('/')))->examples();
    }

    // The architectures on which the family accepts the problem.
    std::vector<std::string> takers(const Problem& problem) const {
        std::vector<std::string> names;
        for (const std::string& name : kArchs)
            if (!family().refuses(problem, reference_device(name).value())) names.push_back(name);
        return names;
    }
    std::vector<Config> covering_named(const Problem& problem) const;
    std::vector<Problem> share() const;
    std::string owner(const Problem& problem, const Config& config, std::size_t text) const;
    void expect_fit(const jit::CompileResult& result, const std::string& what) const {
        ASSERT_TRUE(result.compiled) << what << ": " << result.failure;
        EXPECT_EQ(result.rejected, "") << what;
    }
    // Compiles, unless this test has compiled the same instance before.
    void expect_compiles(const Problem& problem, const SearchSpace& space, const Config& config) {
        const jit::Rendered rendered = jit::render(catalogue_, family(), problem, space, config, target());
        if (!seen_.insert(rendered.identity).second) return;
        expect_fit(jit::compile(*nvrtc_, jit::CubinCache(""), rendered), problem.key() + " " + config.to_string());
    }

    Catalogue catalogue_ = Catalogue::embedded();
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    std::set<std::string> seen_;
};

// Architectures with the same registers and, except for a few, instructions: texts for all of them are distributed.
const std::vector<std::string> kDealt = {"sm_80", "sm_86", "sm_89", "sm_120"};

// One of the architectures on which the config is legal: sm_90a for every second text, the others alternately.
std::string TemplatesTest::owner(const Problem& problem, const Config& config, std::size_t text) const {
    std::vector<std::string> others;
    bool has_hopper = false;
    for (const std::string& name : takers(problem)) {
        if (!family().rules(problem, reference_device(name).value()).contains(config)) continue;
        if (name == "sm_90a") {
            has_hopper = true;
        } else {
            others.push_back(name);
        }
    }
    return others.empty() || (has_hopper && text % 2 == 0) ? "sm_90a" : others[text / 2 % others.size()];
}

// The named configs, over all architectures, whose texts cover all pairs; one config per text.
std::vector<Config> TemplatesTest::covering_named(const Problem& problem) const {
    std::vector<Config> distinct;
    std::vector<test::Words> rows;
    std::set<std::string> seen;
    for (const std::string& name : takers(problem)) {
        const SearchSpace space = family().space(problem, reference_device(name).value());
        for (const NamedConfig& named : space.named) {
            const Config text = space.compile_part(named.config);
            if (!seen.insert(text.to_string()).second) continue;
            distinct.push_back(named.config);
            rows.push_back(parameters_of(text));
        }
    }
    std::vector<Config> picked;
    for (const std::size_t at : covering(rows)) picked.push_back(distinct[at]);
    return picked;
}

// Texts of the first example that the family accepts, and of the first example of each other way to multiply f32, which needs
// different registers; their layouts are distributed over the architectures.
TEST_P(TemplatesTest, NamedConfigsCompileWithoutSpills) {
    const Device device = reference_device(arch()).value();
    const auto turn = static_cast<std::size_t>(std::find(kArchs.begin(), kArchs.end(), arch()) - kArchs.begin());
    std::map<std::string, std::vector<Problem>> accepted;
    for (const ProblemRequest& request : examples()) {
        const Problem problem = catalogue_.problem(request);
        if (family().refuses(problem, device)) continue;
        const bool is_f32 = problem.has_attribute("compute") && problem.has_attribute("a") && problem.word("a") == "f32";
        accepted[is_f32 ? problem.word("compute") : ""].push_back(problem);
    }
    if (accepted.empty()) GTEST_SKIP() << "not for " << arch();
    for (const auto& [compute, problems] : accepted) {
        const Problem& mine = compute.empty() ? problems.front() : problems[2 * turn % problems.size()];
        const SearchSpace space = family().space(mine, device);
        const SearchSpace of_first = family().space(problems.front(), device);
        std::size_t number = 0;
        for (const Config& config : covering_named(problems.front())) {
            if (owner(problems.front(), config, number++) != arch()) continue;
            const bool is_legal = space.contains(config);
            expect_compiles(is_legal ? mine : problems.front(), is_legal ? space : of_first, config);
        }
        if (number > 0 && seen_.empty()) expect_compiles(problems.front(), of_first, of_first.named.front().config);
    }
}

// f16 sums need fewer registers, so texts that compile with f32 sums compile with them too: a fifth is enough on an architecture
// that has all; each tile that exists only with f16 sums is assigned to one architecture.
TEST_P(TemplatesTest, NamedConfigsOfHalfPrecisionSumsCompileWithoutSpills) {
    const Device device = reference_device(arch()).value();
    const ProblemRequest request = examples().front();
    if (request.op != "hgemm") GTEST_SKIP() << "no product";
    const Problem problem = catalogue_.problem({"hgemm_f16acc", request.shape, request.options});
    if (family().refuses(problem, device)) GTEST_SKIP() << "not for " << arch();
    const SearchSpace space = family().space(problem, device);
    const SearchSpace full_precision = family().space(catalogue_.problem(request), device);
    std::size_t turn = 0;
    for (const Config& config : covering_named(problem)) {
        const std::string& in_turn = kArchs[turn++ % kArchs.size()];
        const bool is_alone = !full_precision.contains(config);
        if ((is_alone ? owner(problem, config, turn) : in_turn) == arch() && space.contains(config))
            expect_compiles(problem, space, config);
    }
}

// The covering examples are distributed over the architectures on which the family accepts them. Returns this architecture's
// share; at least one.
std::vector<Problem> TemplatesTest::share() const {
    std::vector<Problem> accepted, mine;
    std::vector<test::Words> rows;
    for (const ProblemRequest& request : examples()) {
        const Problem problem = catalogue_.problem(request);
        if (takers(problem).empty()) continue;
        accepted.push_back(problem);
        rows.push_back(attributes_of(problem));
    }
    std::size_t turn = 0;
    for (const std::size_t at : covering(rows)) {
        const std::vector<std::string> names = takers(accepted[at]);
        if (names[turn++ % names.size()] == arch()) mine.push_back(accepted[at]);
    }
    for (auto next = accepted.begin(); mine.empty() && next != accepted.end(); ++next)
        if (!family().refuses(*next, reference_device(arch()).value())) mine.push_back(*next);
    return mine;
}

TEST_P(TemplatesTest, DefaultsCompileForEveryLayoutTypeAndAlignment) {
    for (const Problem& problem : share()) {
        const SearchSpace space = family().space(problem, reference_device(arch()).value());
        expect_compiles(problem, space, space.default_config);
    }
}

// The compiler must accept every legal config; the tuner finds those that spill. Three for sm_90a, one different config for each
// other architecture.
TEST_P(TemplatesTest, SampledConfigsCompile) {
    const Device device = reference_device(arch()).value();
    const std::vector<ProblemRequest> requests = examples();
    const auto accepted = std::find_if(requests.begin() + 2, requests.end(), [&](const ProblemRequest& request) {
        return !family().refuses(catalogue_.problem(request), device);
    });
    if (accepted == requests.end()) GTEST_SKIP() << "not for " << arch();
    const Problem problem = catalogue_.problem(*accepted);
    const SearchSpace space = family().space(problem, device);
    const std::vector<Config> all = test::spread_configs(space, 24);
    const auto turn = static_cast<std::size_t>(std::find(kDealt.begin(), kDealt.end(), arch()) - kDealt.begin());
    const bool is_dealt = turn < kDealt.size();
    const std::size_t samples = is_dealt ? 1 : 3;
    for (std::size_t i = 0; i < samples; ++i) {
        const std::size_t at =
            is_dealt ? (2 * turn + 1) * all.size() / (2 * kDealt.size()) : (2 * i + 1) * all.size() / (2 * samples);
        const jit::Rendered rendered = jit::render(catalogue_, family(), problem, space, all[at], target());
        const jit::CompileResult result = jit::compile(*nvrtc_, jit::CubinCache(""), rendered);
        EXPECT_TRUE(result.compiled) << all[at].to_string() << ": " << result.failure;
    }
}

std::vector<std::string> family_names() {
    std::vector<std::string> names;
    const Catalogue catalogue = Catalogue::embedded();
    for (const Family* family : catalogue.families()) names.emplace_back(family->name());
    return names;
}

INSTANTIATE_TEST_SUITE_P(Families, TemplatesTest,
                         ::testing::Combine(::testing::ValuesIn(family_names()), ::testing::ValuesIn(kArchs)),
                         [](const auto& entry) {
                             std::string name = std::get<0>(entry.param) + "_" + std::get<1>(entry.param);
                             for (char& c : name) {
                                 if (c == '/' || c == '-') c = '_';
                             }
                             return name;
                         });

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

// For each family one kernel, for sm_90a if possible, else for the first architecture that accepts it; for every eighth family
// one more.
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
            const std::vector<Config> first = space.enumerate({}, 1);  // of the smallest tile: compiled in a third of the time
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
        std::vector<test::Words> rows;
        std::set<std::string> seen;
        for (const ProblemRequest& request : op->examples()) {
            const Problem problem = catalogue.problem(request);
            if (!seen.insert(jit::render_reference(catalogue, *op, problem, target).identity).second) continue;
            distinct.push_back(problem);
            rows.push_back(facts_of_reference(*op, problem));
        }
        for (const std::size_t at : covering(rows)) {
            // Types and layouts are combined on one architecture; on others the first combination is enough.
            if (turn++ > 0 && GetParam() != "sm_90a") continue;
            const jit::CompileResult result =
                jit::compile(*nvrtc, no_cache, jit::render_reference(catalogue, *op, distinct[at], target));
            ASSERT_TRUE(result.compiled) << result.failure;
            EXPECT_EQ(result.rejected, "");
        }
    }
}

TEST_P(SharedTextTest, SumsOfNothingCompileWithoutSpills) {
    std::string why;
    const std::shared_ptr<const gpu::Nvrtc> nvrtc = test::nvrtc_or_skip(why);
    if (!nvrtc) GTEST_SKIP() << why;
    const Catalogue catalogue = Catalogue::embedded();
    const Problem problem = catalogue.problem({"hgemm", "64x64x64", {}});  // any problem, because its text has no facts
    const Family* const family = catalogue.find_family("common/empty_sum");
    ASSERT_NE(family, nullptr);
    const jit::Rendered text = jit::render(catalogue, *family, problem, {}, {}, {GetParam(), nvrtc->version()});
    const jit::CompileResult result = jit::compile(*nvrtc, jit::CubinCache(""), text);
    ASSERT_TRUE(result.compiled) << result.failure;
    EXPECT_EQ(result.rejected, "");
}

// C is read run by run while it is stored. Without the condition of each run before its read, the compiler read all of a tile
// first, and spilled 672 bytes.
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
