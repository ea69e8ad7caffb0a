// Checks the winners in db/winners with the ops and templates of this tree: a change of a key, a space or a template's text that
// would lose one fails here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "db/portfolio.h"
#include "db/store/store.h"
#include "src/dispatch/offers.h"
#include "src/dispatch/rules/stored_winner.h"
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

// A problem described by typed tensors must be the one for which the winner was tuned.
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
        // The options that both the op's descriptions and the key have. Alignments and element types come from the tensors.
        for (const OpOption& known : catalogue.find_op(problem.op)->attributes()) {
            if (problem.has_attribute(known.name)) given.attributes.push_back({known.name, problem.attribute(known.name)});
        }
        EXPECT_EQ(catalogue.find_op(problem.op)->described(given).problem.key(), problem.key());
    }
}

// Wrong configs. For each parameter they have values outside every domain, from another parameter's domain, missing, and given
// twice.
std::vector<Config> mutants_of(const Config& config) {
    std::vector<Config> mutants = {{}};
    for (std::size_t at = 0; at < config.values().size(); ++at) {
        for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1}, std::int64_t{3}, std::int64_t{4096},
                                         std::int64_t{INT32_MIN}, INT64_MIN, INT64_MAX}) {
            mutants.push_back(config);
            mutants.back().set_at(at, value);
        }
        Config without, renamed, swapped = config;
        for (std::size_t i = 0; i < config.values().size(); ++i) {
            const auto& [name, value] = config.values()[i];
            if (i != at) without.set(name, value);
            renamed.set(i == at ? "no_such_parameter" : name, value);
        }
        swapped.set_at(at, config.values()[(at + 1) % config.values().size()].second);
        mutants.insert(mutants.end(), {without, renamed, swapped});
    }
    mutants.push_back(config);
    mutants.back().set("no_such_parameter", 1);
    return mutants;
}

// The library uses the ranking, and every program uses the rule. Neither may end the process, and the ranking may return only
// legal candidates. A row with block_m=0 once caused a division by zero.
void expect_only_legal_choices(const Catalogue& catalogue, TemplateIdentities& identities, const Winner& winner) {
    const auto device = device_of(winner);
    ASSERT_TRUE(device.has_value());
    Problem at = problem_of(catalogue, winner).value();
    for (const std::int64_t first : {std::int64_t{1}, std::int64_t{17}, at.extents.front().value}) {
        at.extents.front().value = first;
        OfferRanking ranking(catalogue, at, *device);
        Legality legality(catalogue, at, *device);
        for (const Config& mutant : mutants_of(winner.candidate.config)) {
            const Candidate offer{winner.candidate.family, mutant};
            for (const auto& ranked : ranking.best(std::span(&offer, 1), 1))
                EXPECT_EQ(legality.why_not(ranked.candidate).value_or(""), "") << mutant.to_string();
        }
    }
    Winner row = winner;
    for (const Config& mutant : mutants_of(winner.candidate.config)) {
        row.candidate.config = mutant;
        if (mutant.values().size() != winner.candidate.config.values().size()) {
            EXPECT_TRUE(why_unusable(identities, row).has_value()) << mutant.to_string();
        } else {
            (void)why_unusable(identities, row);
        }
    }
}

TEST(ShippedWinners, WithAnyValueChangedEndNoProcess) {
    const Catalogue& catalogue = test::embedded_catalogue();
    TemplateIdentities identities(catalogue);
    std::map<std::string, int> seen;
    for (const Winner& winner : shipped())
        if (++seen[winner.candidate.family + " " + winner.class_key] == 1)
            expect_only_legal_choices(catalogue, identities, winner);
    EXPECT_GE(seen.size(), 30U);
}

TEST(ShippedPortfolios, WithAnyValueChangedEndNoProcess) {
    const Catalogue& catalogue = test::embedded_catalogue();
    TemplateIdentities identities(catalogue);
    const auto fail = [](const std::string& text) { ADD_FAILURE() << text; };
    for (const db::Portfolio& portfolio : db::read_portfolios(db::portfolio_path(AUTOTUNE_TEST_DATA "/../../db/winners"), fail)) {
        Winner winner;
        winner.op = portfolio.op;
        winner.class_key = portfolio.class_key;
        winner.extents = {{"m", 4096}, {"n", 4096}, {"k", 4096}, {"batch", 1}};
        if (!problem_of(catalogue, winner)) winner.extents = {{"m", 4095}, {"n", 4095}, {"k", 4095}, {"batch", 1}};
        winner.device = reference_device(portfolio.arch).value().identity;
        winner.timing.median_us = 100;
        std::set<std::string> families;
        for (const Candidate& each : portfolio.candidates) {
            if (!families.insert(each.family).second) continue;
            winner.candidate = each;
            winner.template_identity = portfolio.templates.at(each.family);
            expect_only_legal_choices(catalogue, identities, winner);
        }
    }
}

// Any combination of values from the domains: rules exclude those that a cost model cannot compute with.
TEST(OfferRanking, TakesAnyPointOfAnyFamilysDomain) {
    const Catalogue& catalogue = test::embedded_catalogue();
    std::mt19937_64 random(1);
    for (const char* arch : {"sm_90a", "sm_80", "sm_89"}) {
        const Device device = reference_device(arch).value();
        for (const Op* op : catalogue.ops()) {
            for (const ProblemRequest& request : op->examples()) {
                const Problem problem = catalogue.problem(request);
                std::vector<Candidate> offers;
                for (const Family* family : catalogue.families_of(problem.op)) {
                    if (family->refuses(problem, device)) continue;
                    const std::vector<Parameter> parameters = family->rules(problem, device).parameters;
                    for (int i = 0; i < 200; ++i) {
                        Candidate& offer = offers.emplace_back(Candidate{std::string(family->name()), {}});
                        for (const Parameter& each : parameters)
                            offer.config.set(each.name, each.values[random() % each.values.size()]);
                    }
                }
                std::vector<const Candidate*> all;
                for (const Candidate& each : offers) all.push_back(&each);
                OfferRanking::Checked checked;
                OfferRanking(catalogue, problem, device).check(all, checked);
                // A candidate that was checked for one problem must be checked again for another.
                for (const std::int64_t first : {1, 7, 129, 8192}) {
                    Problem other = problem;
                    other.extents.front().value = first;
                    Legality legality(catalogue, other, device);
                    for (const auto& ranked : OfferRanking(catalogue, other, device).best_of_checked(all, checked, 3))
                        EXPECT_EQ(legality.why_not(ranked.candidate).value_or(""), "") << ranked.candidate.to_string();
                }
            }
        }
    }
}

TEST(ShippedPortfolios, AreOfTodaysTemplates) {
    const Catalogue& catalogue = test::embedded_catalogue();
    TemplateIdentities identities(catalogue);
    const auto fail = [](const std::string& text) { ADD_FAILURE() << text; };
    for (const db::Portfolio& portfolio : db::read_portfolios(db::portfolio_path(AUTOTUNE_TEST_DATA "/../../db/winners"), fail)) {
        for (const Candidate& each : portfolio.candidates) {
            EXPECT_EQ(why_of_another_template(identities, each.family, portfolio.templates.at(each.family)).value_or(""), "")
                << "where the machine code is the same, tools/scripts/portfolio_templates.py writes the "
                   "identity";
        }
    }
}

std::vector<std::string> names_of(const Config& config) {
    std::vector<std::string> names;
    for (const auto& [name, value] : config.values()) names.push_back(name);
    return names;
}

// A config that lacks a parameter that its family got later is legal for no problem: a portfolio once silently lost half of its
// kernels in this way.
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
            if (!problem) continue;  // rows with another alignment
            for (const Candidate& each : family_defaults(catalogue, *problem, device).candidates)
                known[each.family] = names_of(each.config);
        }
        for (const Candidate& each : portfolio.candidates)
            EXPECT_EQ(names_of(each.config), known[each.family]) << each.to_string();
    }
}

}  // namespace
}  // namespace autotune::tuner::shipped_winners_test
