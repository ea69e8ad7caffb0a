// The winners in db/winners against the ops and templates of this tree: a change of a key, a space or a template's text that
// would lose one fails here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "db/portfolio.h"
#include "db/store.h"
#include "kernel_templates/offers.h"
#include "kernel_templates/stored_winner.h"
#include "src/jit/render.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::tuner::shipped_winners_test {
namespace {

using ::testing::Contains;

std::vector<Winner> shipped() {
    return db::Store::open({.path = ":memory:", .shipped = {AUTOTUNE_TEST_DATA "/../../db/winners"}}).list_shipped({});
}

TEST(ShippedWinners, MayAllAnswer) {
    const Catalogue& catalogue = test::embedded_catalogue();
    TemplateIdentities identities(catalogue);
    const std::vector<Winner> all = shipped();
    EXPECT_GE(all.size(), 186U);
    for (const Winner& winner : all)
        EXPECT_EQ(why_unusable(identities, winner).value_or(""), "") << winner.class_key << " " << winner.candidate.to_string();
}

TEST(ShippedWinners, AreFoundUnderTheKeyThatTheirProblemHasToday) {
    const Catalogue& catalogue = test::embedded_catalogue();
    std::set<std::string> classes;
    for (const Winner& winner : shipped()) {
        const auto problem = problem_of(catalogue, winner);
        ASSERT_TRUE(problem.has_value()) << winner.class_key;
        EXPECT_EQ(problem->class_key(), winner.class_key);
        EXPECT_EQ(problem->extents, winner.extents);
        classes.insert(winner.class_key);
    }
    EXPECT_THAT(classes, Contains("gemm a=f16 b=f16 c=f16 compute=f16 acc=f32 layout=nn beta=zero align=16,16,16"));
    EXPECT_THAT(classes, Contains("gemm a=bf16 b=bf16 c=bf16 compute=bf16 acc=f32 layout=nt beta=zero align=16,16,16"));
    EXPECT_THAT(classes, Contains("add dtype=f16 align=16,16,16"));
}

// What a program describes by typed tensors is the problem that the winner was tuned for.
TEST(ShippedWinners, AreFoundFromTypedDescriptionsToo) {
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const Winner& winner : shipped()) {
        const Problem problem = problem_of(catalogue, winner).value();
        ProblemDescription given{.op = problem.op, .tensors = {}};
        for (const Tensor& tensor : problem.tensors) {
            if (!tensor.is_absent) given.tensors.push_back({tensor.name, tensor.dtype, tensor.dims, tensor.alignment_bytes});
        }
        if (problem.op == "gemm") {
            for (const std::size_t i : {0, 1}) {
                if (problem.word("layout")[i] == 't') std::swap(given.tensors[i].dims[1], given.tensors[i].dims[2]);
            }
            given.attributes.push_back({"order", "row"});
        }
        // What the op's descriptions name and the key has. Alignments and element types are the tensors' own.
        for (const OpOption& known : catalogue.find_op(problem.op)->attributes()) {
            if (problem.has_attribute(known.name)) given.attributes.push_back({known.name, problem.attribute(known.name)});
        }
        EXPECT_EQ(catalogue.find_op(problem.op)->described(given).problem.key(), problem.key());
    }
}

std::vector<std::string> names_of(const Config& config) {
    std::vector<std::string> names;
    for (const auto& [name, value] : config.values()) names.push_back(name);
    return names;
}

// A config without a parameter that its family has got since is legal for no problem: a portfolio once lost half of its kernels
// so, and nothing said it.
TEST(ShippedPortfolios, HaveAllParametersOfTheirFamilies) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const auto fail = [](const std::string& text) { ADD_FAILURE() << text; };
    const auto all = db::read_portfolios(db::portfolio_path(AUTOTUNE_TEST_DATA "/../../db/winners"), fail);
    EXPECT_EQ(all.size(), 16U);
    for (const db::Portfolio& portfolio : all) {
        const Device device = reference_device(portfolio.arch).value();
        std::map<std::string, std::vector<std::string>> known;  // parameters, by family
        for (const std::int64_t m : {16, 4090}) {
            Winner at;
            at.op = portfolio.op;
            at.class_key = portfolio.class_key;
            at.extents = {{"m", m}, {"n", 4096}, {"k", 4096}, {"batch", 1}};
            const auto problem = problem_of(catalogue, at);
            if (!problem) continue;  // rows of another alignment
            for (const Candidate& each : family_defaults(catalogue, *problem, device).candidates)
                known[each.family] = names_of(each.config);
        }
        for (const Candidate& each : portfolio.candidates)
            EXPECT_EQ(names_of(each.config), known[each.family]) << each.to_string();
    }
}

}  // namespace
}  // namespace autotune::tuner::shipped_winners_test
