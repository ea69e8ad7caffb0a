// Whether a family can compute a problem must not depend on the function that is called: refusals, defaults, spaces and launch
// plans agree for random problems. AUTOTUNE_RANDOM_PROBLEMS=N draws N per op instead of the usual number, and
// AUTOTUNE_RANDOM_SEED selects another sequence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <initializer_list>

#include "kernel_templates/structured_family.h"
#include "src/core/error.h"
#include "src/core/statistics/random.h"
#include "src/dispatch/offers.h"
#include "src/dispatch/rules/refusals.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/sanitizer.h"

namespace autotune::random_problems_test {
namespace {

using ::testing::HasSubstr;
using Words = std::initializer_list<const char*>;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* const text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::size_t problems_of_each_op() {
    return number_from("AUTOTUNE_RANDOM_PROBLEMS", test::kIsSanitized ? 10 : 300);
}

class Draw {
  public:
    explicit Draw(std::uint64_t seed) : random_(seed + number_from("AUTOTUNE_RANDOM_SEED", 0)) {}

    bool chance(double of_one) { return random_.uniform() < of_one; }
    std::int64_t below(std::int64_t count) { return static_cast<std::int64_t>(random_.below(static_cast<std::size_t>(count))); }
    // Draws an extent. Most are small and some large, and every second one is round.
    std::int64_t extent(std::int64_t most) {
        const auto value = static_cast<std::int64_t>(std::exp2(random_.uniform() * std::log2(static_cast<double>(most))));
        return chance(0.5) && value > 16 ? value / 16 * 16 : value;
    }
    std::string word(Words words) { return *(words.begin() + below(static_cast<std::int64_t>(words.size()))); }

  private:
    Random random_;
};

std::string text(std::int64_t value) {
    return std::to_string(value);
}

ProblemRequest gemm(Draw& draw) {
    ProblemRequest request{"gemm", "", {}};
    auto& options = request.options;
    const bool is_fp8 = draw.chance(0.4);
    if (is_fp8) {
        options["a"] = draw.word({"e4m3", "e5m2"});
        options["b"] = options["a"] == "e5m2" ? "e4m3" : draw.word({"e4m3", "e5m2"});
        options["c"] = draw.word({"bf16", "f16", "f32", "e4m3", "e5m2"});
        options["scale"] = draw.word({"none", "tensor", "row", "block"});
        options["acc"] = options["scale"] == "block" ? "f32" : draw.word({"f32", "f32fast"});
        options["bias"] = draw.word({"none", "none", "bf16", "f16", "f32"});
        options["amax"] = draw.word({"no", "no", "yes"});
        if (options["c"][0] == 'e') options["scale_d"] = draw.word({"none", "tensor"});
    } else {
        options["dtype"] = draw.word({"f16", "bf16", "f32"});
        options["layout"] = draw.word({"nn", "nt", "tn", "tt"});
        if (options["dtype"] == "f16") options["acc"] = draw.word({"f32", "f16"});
        if (options["dtype"] == "f32") options["compute"] = draw.word({"f32", "tf32", "tf32x3"});
    }
    options["beta"] = draw.word({"zero", "any"});
    const int least = options["dtype"] == "f32" || options["c"] == "f32" ? 4 : 2;
    if (draw.chance(0.3)) options["align"] = least == 4 ? draw.word({"4", "8", "16"}) : draw.word({"2", "4", "8", "16"});
    // The shapes have few rows of a large vocabulary, are as in decoding, are squares, or have maximum length in one direction.
    std::int64_t m = draw.extent(20'000), n = draw.extent(200'000), k = draw.extent(30'000), batch = 1;
    if (draw.chance(0.3)) m = 1 + draw.below(40);
    if (draw.chance(0.1)) n = 1 + draw.below(40);
    if (draw.chance(0.3))
        batch = draw.extent(draw.chance(0.1) ? 100'000'000 : 1000), m = 1 + m % 300, n = 1 + n % 300, k = 1 + k % 300;
    if (draw.chance(0.05)) *std::array{&m, &n, &k}[static_cast<std::size_t>(draw.below(3))] = 2147483647;
    request.shape = (batch > 1 ? text(batch) + "*" : "") + text(m) + "x" + text(n) + "x" + text(k);
    return request;
}

ProblemRequest attention(Draw& draw, const char* op) {
    ProblemRequest request{op, "", {}};
    auto& options = request.options;
    options["dtype"] = draw.word({"bf16", "f16", "f32"});
    if (options["dtype"] == "f32" && draw.chance(0.5)) options["compute"] = "tf32";
    options["mask"] = draw.word({"none", "causal", "causal_bottom_right", "window", "window_bottom_right"});
    if (options["mask"].starts_with("window"))
        options["left"] = text(draw.extent(5000)), options["right"] = text(draw.extent(500));
    options["order"] = draw.word({"bhsd", "bshd"});
    const std::int64_t kv_heads = draw.extent(32), group = draw.chance(0.5) ? 1 : 1 + draw.below(16);
    options["kv-heads"] = text(kv_heads);
    const bool is_decoding = draw.chance(0.3);
    if (is_decoding || draw.chance(0.3)) options["kv-len"] = text(draw.extent(100'000));
    const std::int64_t d = 8 * (1 + draw.below(32));
    if (draw.chance(0.2)) options["dv"] = text(8 * (1 + draw.below(32)));
    if (draw.chance(0.2)) options["align"] = options["dtype"] == "f32" ? draw.word({"4", "8"}) : draw.word({"2", "4", "8"});
    const bool is_forward = request.op == "attention";
    if (is_forward) options["lse"] = draw.word({"no", "yes"});
    if (is_forward && draw.chance(0.2)) options["packed"] = "yes";
    if (!is_forward) options["deterministic"] = draw.word({"yes", "any"});
    const std::int64_t queries = is_decoding ? 1 + draw.below(16) : draw.extent(40'000);
    request.shape = text(draw.extent(64)) + "x" + text(kv_heads * group) + "x" + text(queries) + "x" + text(d);
    return request;
}

ProblemRequest softmax(Draw& draw) {
    ProblemRequest request{"softmax", "", {{"dtype", draw.word({"bf16", "f16", "f32"})}, {"lse", draw.word({"no", "yes"})}}};
    if (draw.chance(0.3))
        request.options["align"] = request.options["dtype"] == "f32" ? draw.word({"4", "8"}) : draw.word({"2", "4", "8"});
    const std::int64_t cols = draw.extent(1 << 20), rows = draw.chance(0.05) ? 2147483647 : draw.extent(1'000'000);
    if (draw.chance(0.2)) request.options["ldx"] = text(cols + draw.below(64));
    request.shape = text(rows) + "x" + text(cols);
    return request;
}

ProblemRequest add(Draw& draw) {
    ProblemRequest request{"add", text(draw.extent(std::int64_t{1} << 40)), {{"dtype", draw.word({"bf16", "f16", "f32"})}}};
    if (draw.chance(0.5))
        request.options["align"] = request.options["dtype"] == "f32" ? draw.word({"4", "8"}) : draw.word({"2", "4", "8"});
    return request;
}

// All answers for one problem on one device must agree.
void expect_one_answer(const Problem& problem, const Device& device) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const FamilyDefaults defaults = family_defaults(catalogue, problem, device);
    std::size_t able = 0;
    for (const Family* family : catalogue.families_of(problem.op)) {
        const std::string what = std::string(family->name()) + " on " + device.arch() + " for " + problem.key();
        const auto reason = why_unable(*family, problem, device);
        const auto chosen = std::find_if(defaults.candidates.begin(), defaults.candidates.end(),
                                         [&](const Candidate& each) { return each.family == family->name(); });
        EXPECT_EQ(reason.has_value(), chosen == defaults.candidates.end()) << what << ": " << reason.value_or("");
        if (reason || chosen == defaults.candidates.end()) continue;
        ++able;
        EXPECT_EQ(family->rules(problem, device).why_not(chosen->config), std::nullopt)
            << what << ": " << chosen->config.to_string();
        const LaunchPlan plan = family->plan(problem, chosen->config, device);
        for (const LaunchStep& step : plan.steps) {
            constexpr std::uint32_t kMostX = 2147483647, kMostYZ = 65535;
            EXPECT_TRUE(step.grid.x >= 1 && step.grid.x <= kMostX && step.grid.y >= 1 && step.grid.y <= kMostYZ &&
                        step.grid.z >= 1 && step.grid.z <= kMostYZ)
                << what << step.entry << ": " << step.grid.x << " x " << step.grid.y << " x " << step.grid.z;
        }
    }
    EXPECT_EQ(able, defaults.candidates.size());
}

void expect_one_answer_everywhere(const char* op, const std::function<ProblemRequest(Draw&)>& request_of) {
    Draw draw(20261128);
    std::size_t made = 0;
    for (std::size_t tries = 0; made < problems_of_each_op() && tries < 20 * problems_of_each_op(); ++tries) {
        const ProblemRequest request = request_of(draw);
        std::optional<Problem> problem;
        try {
            problem = test::embedded_catalogue().problem(request);
        } catch (const Error& error) {
            ASSERT_EQ(error.code(), ErrorCode::usage) << request.shape << ": " << error.what();
            continue;  // This is not a problem of the op; for example, it is larger than an address space.
        }
        ++made;
        // Each problem has two architectures, in turn, so that all of them get many problems.
        const std::vector<std::string> archs = known_archs();
        for (const std::size_t turn : {made, made + 1}) {
            try {
                expect_one_answer(*problem, reference_device(archs[turn % archs.size()]).value());
            } catch (const Error& error) {
                FAIL() << problem->key() << " on " << archs[turn % archs.size()] << ": " << error.what();
            }
        }
    }
    EXPECT_GE(made, problems_of_each_op()) << op;
}

TEST(RandomProblems, OfGemmGetOneAnswer) {
    expect_one_answer_everywhere("gemm", gemm);
}

TEST(RandomProblems, OfAttentionGetOneAnswer) {
    expect_one_answer_everywhere("attention", [](Draw& draw) { return attention(draw, "attention"); });
}

TEST(RandomProblems, OfItsGradientsGetOneAnswer) {
    expect_one_answer_everywhere("attention_bwd", [](Draw& draw) { return attention(draw, "attention_bwd"); });
}

TEST(RandomProblems, OfSoftmaxGetOneAnswer) {
    expect_one_answer_everywhere("softmax", softmax);
}

TEST(RandomProblems, OfAddGetOneAnswer) {
    expect_one_answer_everywhere("add", add);
}

// Logits of a language model: three rules once left the family without configs for them, which was an internal error.
TEST(RandomProblems, FewRowsOfFp8AndAWideCHaveConfigs) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Device hopper = reference_device("sm_90a").value();
    const Family& family = *catalogue.find_family("gemm/wgmma_fp8");
    for (const char* type : {"f32", "e4m3", "bf16"}) {
        for (const std::int64_t rows : {1, 3, 4, 5, 16, 31, 32, 33, 64}) {
            for (const char* scale : {"tensor", "block"}) {
                const std::string shape = std::to_string(rows) + "x128256x4096";
                const Problem problem = catalogue.problem({"fp8gemm", shape, {{"c", type}, {"scale", scale}}});
                EXPECT_EQ(why_unable(family, problem, hopper), std::nullopt) << problem.key();
                EXPECT_TRUE(family.rules(problem, hopper).contains(family.default_config(problem, hopper))) << problem.key();
            }
        }
    }
}

// A family whose rules contradict each other. It refuses nothing and has no configs.
class Contradictory final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/contradictory"; }
    std::string_view about() const override { return "nothing is legal"; }
    std::optional<std::string> refuses(const Problem&, const Device&) const override { return std::nullopt; }
    std::vector<Binding> facts(const Problem&) const override { return {}; }
    LaunchPlan plan(const Problem&, const Config&, const Device&) const override { return {}; }

  protected:
    std::vector<Parameter> parameters() const override { return {{"x", {1, 2}, ParameterKind::compile, "a parameter"}}; }
    std::vector<Constraint> constraints(const Problem&, const Device&) const override {
        return {{"it is 1", {"x"}, [](const Config& c) { return c["x"] != 1; }},
                {"it is 2", {"x"}, [](const Config& c) { return c["x"] != 2; }}};
    }
    Config usual_config(const SearchSpace&, const Problem&, const Device&) const override { return {}; }
    std::vector<NamedConfig> named_configs(const Problem&, const Device&) const override { return {{"usual", {{"x", 1}}}}; }
};

TEST(Refusals, AnEmptySpaceIsTheFamilysRefusal) {
    const Contradictory family;
    const Problem problem = test::embedded_catalogue().problem({"hgemm", "64x64x64", {}});
    const Device device = reference_device("sm_80").value();
    EXPECT_EQ(why_unable(family, problem, device), "none of its configs is legal for this problem");
    EXPECT_TRUE(family.default_config(problem, device).empty());
    const SearchSpace space = family.space(problem, device);
    EXPECT_TRUE(space.default_config.empty());
    EXPECT_TRUE(space.named.empty());
}

}  // namespace
}  // namespace autotune::random_problems_test
