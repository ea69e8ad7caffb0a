// Requirements on every family, checked for every family found: a new folder is tested without further changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/sanitizer.h"
#include "tests/support/spread_configs.h"

namespace autotune::conformance_test {
namespace {

// A reason names the fault of the config that is dropped: an excess, a lack or a contradiction. It does not state the rule that
// the config breaks. The wording distinguishes the two; "" if `reason` names a fault.
std::string wrong_polarity(const std::string& reason) {
    static const std::regex rule(R"(\b(must|needs?|only|(is|are) for|exists?|belongs?|has at most|nobody)\b)");
    static const std::regex fault(
        R"(\b(although|without|not|no|neither|nothing|none|cannot|exceeds?|too|than|fewer|outside|below|)"
        R"(before sm_\d+|twice|half|would|anyhow|the same|behind|another)\b)");
    if (std::regex_search(reason, rule)) return "states a rule: " + reason;
    return std::regex_search(reason, fault) ? "" : "names no fault: " + reason;
}

// A family with a problem that it accepts on a device.
struct Subject {
    const Family* family;
    Problem problem;
    Device device;

    std::string describe() const { return std::string(family->name()) + " on " + device.arch() + " for " + problem.key(); }
};

std::vector<Problem> problems_of(const Catalogue& catalogue, const Family& family) {
    const std::string_view name = family.name();
    const Op* op = catalogue.find_op(name.substr(0, name.find('/')));
    std::vector<Problem> problems;
    if (op == nullptr) return problems;
    for (const ProblemRequest& request : op->examples()) problems.push_back(catalogue.problem(request));
    return problems;
}

// Every problem on every device. Under a sanitizer, which checks the code and not the results, it is one problem per device.
std::vector<Subject> subjects(const Catalogue& catalogue, const Family& family) {
    std::vector<Subject> found;
    for (const std::string& arch : known_archs()) {
        const Device device = reference_device(arch).value();
        for (const Problem& problem : problems_of(catalogue, family)) {
            if (family.refuses(problem, device)) continue;
            found.push_back({&family, problem, device});
            if (test::kIsSanitized) break;
        }
    }
    return found;
}

// Every problem on one device, with another device for each. They are for checks that need an enumeration. Under a sanitizer it
// is a single one.
std::vector<Subject> few_subjects(const Catalogue& catalogue, const Family& family) {
    const std::vector<std::string> archs = known_archs();
    std::vector<Subject> found;
    std::size_t turn = 0;
    for (const Problem& problem : problems_of(catalogue, family)) {
        for (std::size_t i = 0; i < archs.size(); ++i) {
            const Device device = reference_device(archs[(turn + i) % archs.size()]).value();
            if (family.refuses(problem, device)) continue;
            found.push_back({&family, problem, device});
            break;
        }
        if (test::kIsSanitized && found.size() == 1) break;
        ++turn;
    }
    return found;
}

class Conformance : public ::testing::TestWithParam<std::string> {
  protected:
    Conformance() : catalogue_(test::embedded_catalogue()), family_(*catalogue_.find_family(GetParam())) {}
    std::vector<Subject> subjects_here() const { return subjects(catalogue_, family_); }
    std::vector<Subject> few_subjects_here() const { return few_subjects(catalogue_, family_); }

    const Catalogue& catalogue_;
    const Family& family_;
};

std::vector<std::string> family_names() {
    std::vector<std::string> names;
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const Family* family : catalogue.families()) names.emplace_back(family->name());
    return names;
}

std::string test_name(std::string name) {
    for (char& c : name) {
        if (c == '/' || c == '-') c = '_';
    }
    return name;
}

// The default and 20 to 39 configs spread over the legal ones, or 3 to 5 under a sanitizer. They are cached, because finding them
// takes most of the time of these tests.
const std::vector<Config>& sample(const Subject& subject) {
    static std::map<std::string, std::vector<Config>> samples;
    std::vector<Config>& picked = samples[subject.describe()];
    if (!picked.empty()) return picked;
    const SearchSpace space = subject.family->space(subject.problem, subject.device);
    picked = test::spread_configs(space, test::kIsSanitized ? 3 : 20);
    picked.insert(picked.begin(), space.default_config);
    return picked;
}

TEST_P(Conformance, ItsNameIsItsFolderAndItSaysWhatItIs) {
    EXPECT_FALSE(family_.about().empty());
    EXPECT_FALSE(catalogue_.text(family_).empty());
}

TEST_P(Conformance, AcceptsAnExampleOfItsOp) {
    EXPECT_FALSE(subjects_here().empty());
}

TEST_P(Conformance, ARefusalIsASentence) {
    for (const std::string& arch : known_archs()) {
        for (const Problem& problem : problems_of(catalogue_, family_)) {
            if (const auto reason = family_.refuses(problem, reference_device(arch).value())) {
                EXPECT_GT(reason->size(), 10U);
            }
        }
    }
}

TEST_P(Conformance, ParametersHaveNamesDomainsAndAWordAboutThem) {
    for (const Subject& subject : subjects_here()) {
        const SearchSpace space = family_.space(subject.problem, subject.device);
        std::set<std::string> names;
        for (const Parameter& parameter : space.parameters) {
            EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
            EXPECT_EQ(parameter.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), std::string::npos);
            EXPECT_FALSE(parameter.about.empty()) << parameter.name;
            EXPECT_FALSE(parameter.values.empty()) << parameter.name;
            EXPECT_TRUE(std::is_sorted(parameter.values.begin(), parameter.values.end())) << parameter.name;
        }
        EXPECT_EQ(space.version, family_.space_version());
    }
}

TEST_P(Conformance, AConstraintsReasonSaysWhyAConfigIsDropped) {
    for (const Subject& subject : subjects_here()) {
        const SearchSpace space = family_.space(subject.problem, subject.device);
        for (const Constraint& constraint : space.constraints) EXPECT_EQ(wrong_polarity(constraint.reason), "");
    }
}

// A search caches the result of a constraint by the values of the parameters that it names.
TEST_P(Conformance, AConstraintReadsOnlyParametersThatItNames) {
    constexpr std::size_t kConfigs = 4;
    for (const Subject& subject : few_subjects_here()) {
        const SearchSpace space = family_.rules(subject.problem, subject.device);
        const std::vector<Config>& configs = sample(subject);
        for (std::size_t i = 0; i < std::min(kConfigs, configs.size()); ++i) {
            for (const Constraint& constraint : space.constraints) {
                for (const Parameter& parameter : space.parameters) {
                    if (std::find(constraint.needs.begin(), constraint.needs.end(), parameter.name) != constraint.needs.end())
                        continue;
                    Config other = configs[i];
                    for (const std::int64_t value : parameter.values) {
                        other.set(parameter.name, value);
                        ASSERT_EQ(constraint.holds(other), constraint.holds(configs[i]))
                            << subject.describe() << ": '" << constraint.reason << "' reads " << parameter.name;
                    }
                }
            }
        }
    }
}

TEST(ConstraintReasons, ARuleIsNoReason) {
    for (const char* rule :
         {"ping-pong takes two consumer warpgroups", "TMA stores rows of a multiple of 16 bytes", "a block has 2 to 16 warps",
          "programmatic dependent launch exists from sm_90 on", "L2 hints are for operands that are read once",
          "a second kernel adds the parts of split-K alone", "split-K only where tiles alone leave SMs idle",
          "a split barrier needs two register buffers", "the operand with more lines is streamed"}) {
        EXPECT_NE(wrong_polarity(rule), "") << rule;
    }
}

TEST_P(Conformance, TheDefaultIsLegal) {
    for (const Subject& subject : subjects_here()) {
        const SearchSpace space = family_.space(subject.problem, subject.device);
        EXPECT_EQ(space.why_not(space.default_config).value_or(""), "") << subject.describe();
        EXPECT_EQ(space.canonical(space.default_config), space.default_config) << subject.describe();
    }
}

// Two names may mean one config, because some classic variants are the same config.
TEST_P(Conformance, NamedConfigsAreLegalUnderDistinctNames) {
    for (const Subject& subject : subjects_here()) {
        const SearchSpace space = family_.space(subject.problem, subject.device);
        std::set<std::string> names;
        for (const NamedConfig& named : space.named) {
            EXPECT_EQ(space.why_not(named.config).value_or(""), "") << named.name << ", " << subject.describe();
            EXPECT_EQ(space.canonical(named.config), named.config) << named.name;
            EXPECT_TRUE(names.insert(named.name).second) << named.name;
        }
    }
}

TEST_P(Conformance, FactsHaveTheSameNamesForEveryProblem) {
    std::set<std::vector<std::string>> seen;
    for (const Subject& subject : subjects_here()) {
        std::vector<std::string> names;
        for (const Binding& binding : family_.facts(subject.problem)) names.push_back(binding.name);
        seen.insert(names);
    }
    EXPECT_EQ(seen.size(), 1U);
}

void expect_within_limits(const LaunchPlan& plan, const Subject& subject, const Config& config) {
    const std::string what = subject.describe() + " " + config.to_string();
    for (const LaunchStep& step : plan.steps) {
        EXPECT_GE(step.grid.x, 1U) << what;
        EXPECT_LE(step.grid.x, 2147483647U) << what;
        EXPECT_TRUE(step.grid.y >= 1 && step.grid.y <= 65535) << what;
        EXPECT_TRUE(step.grid.z >= 1 && step.grid.z <= 65535) << what;
        const std::uint64_t threads = std::uint64_t{step.block.x} * step.block.y * step.block.z;
        EXPECT_TRUE(threads >= 1 && threads <= static_cast<std::uint64_t>(subject.device.limits.threads_per_block)) << what;
        EXPECT_LE(step.dynamic_smem_bytes, static_cast<std::size_t>(subject.device.limits.smem_per_block_bytes)) << what;
        EXPECT_EQ(step.grid.x % step.cluster.x, 0U) << what;
        for (const Argument& argument : step.arguments) {
            if (const auto* at = std::get_if<WorkspaceArg>(&argument)) {
                EXPECT_LE(at->offset_bytes, plan.workspace_bytes) << what;
            }
            if (const auto* at = std::get_if<TensorArg>(&argument)) {
                ASSERT_LT(at->index, static_cast<int>(subject.problem.tensors.size()));
                const Tensor& tensor = subject.problem.tensors[static_cast<std::size_t>(at->index)];
                const std::size_t bytes = tensor.is_absent ? 0 : static_cast<std::size_t>(tensor.span_bytes());
                EXPECT_LE(at->offset_bytes, bytes) << what;
            }
            if (const auto* at = std::get_if<ScalarArg>(&argument)) {
                EXPECT_LT(at->index, static_cast<int>(subject.problem.scalars.size()));
            }
        }
    }
    EXPECT_LE(plan.workspace_zero_bytes, plan.workspace_bytes) << what;
}

void expect_neighbours_within_limits(const Op& op, const Subject& subject, const Config& config) {
    for (const Problem& neighbour : op.edge_case_problems(subject.problem, config)) {
        ASSERT_FALSE(subject.family->refuses(neighbour, subject.device)) << neighbour.key();
        expect_within_limits(subject.family->plan(neighbour, config, subject.device), {subject.family, neighbour, subject.device},
                             config);
    }
}

void expect_legal_neighbours(const Subject& subject) {
    const SearchSpace space = subject.family->space(subject.problem, subject.device);
    for (const Config& config : sample(subject)) {
        for (const Config& neighbour : space.neighbours(config)) {
            EXPECT_EQ(space.why_not(neighbour).value_or(""), "");
            EXPECT_NE(neighbour, config);
        }
    }
}

// Checks in one test, which enumerates each space once: constraints read only what they name (otherwise the walk throws),
// neighbours in the space are legal, plans stay within the device's limits, predictions are positive.
TEST_P(Conformance, SpacesCanBeWalkedNeighboursAreLegalAndPlansFitTheDevice) {
    const std::vector<Subject> few = few_subjects_here();
    expect_legal_neighbours(few.front());
    for (const Subject& subject : few) {
        SCOPED_TRACE(subject.describe());
        for (const Config& config : sample(subject)) {
            const LaunchPlan plan = family_.plan(subject.problem, config, subject.device);
            EXPECT_FALSE(plan.steps.empty());
            expect_within_limits(plan, subject, config);
            expect_neighbours_within_limits(catalogue_.op_of(subject.problem), subject, config);
            EXPECT_GT(family_.predict_us(subject.problem, config, subject.device).value_or(1), 0) << config.to_string();
        }
    }
}

// The neighbours must use the same text. Otherwise verifying a winner on them would compile again and test something else.
TEST_P(Conformance, AwkwardNeighboursShareTheFacts) {
    const auto spelled = [&](const Problem& problem) {
        std::vector<std::int64_t> values;
        for (const Binding& binding : family_.facts(problem)) {
            const auto* type = std::get_if<DType>(&binding.value);
            values.push_back(type != nullptr ? static_cast<std::int64_t>(*type) : std::get<std::int64_t>(binding.value));
        }
        return values;
    };
    for (const Subject& subject : subjects_here()) {
        const Config config = family_.space(subject.problem, subject.device).default_config;
        for (const Problem& neighbour : catalogue_.op_of(subject.problem).edge_case_problems(subject.problem, config)) {
            EXPECT_EQ(spelled(neighbour), spelled(subject.problem)) << neighbour.key();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Families, Conformance, ::testing::ValuesIn(family_names()),
                         [](const auto& entry) { return test_name(entry.param); });

TEST(OpConformance, EveryOpHasExamplesThatParse) {
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const Op* op : catalogue.ops()) {
        EXPECT_FALSE(op->examples().empty()) << op->name();
        for (const ProblemRequest& request : op->examples()) EXPECT_EQ(catalogue.problem(request).op, op->name());
    }
}

}  // namespace
}  // namespace autotune::conformance_test
