// The texts that are compiled without a GPU (chosen_texts.h) have both sides of every `if constexpr` and `#if`
// of every kernel.cuh, as g++ reads the texts, and every pair of values that named configs have.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "src/jit/render.h"
#include "tests/kernel_templates/chosen_texts.h"
#include "tests/support/host_cuda/sides.h"
#include "tests/support/pair_cover.h"
#include "tests/support/test_names.h"

namespace autotune::test::sides_host_test {
namespace {

using host_cuda::Branch;

// Sides that no legal config of an example has, as "family: condition is value".
// because gemm/mma accepts only outputs of two bytes
const std::set<std::string> kNeverTaken = {"gemm/mma: sizeof(Out) == 2 is false"};

std::vector<std::string> family_names() {
    std::vector<std::string> names;
    const Catalogue catalogue = Catalogue::embedded();
    for (const Family* family : catalogue.families()) names.emplace_back(family->name());
    return names;
}

class ChosenTexts : public ::testing::TestWithParam<std::string> {
  protected:
    Catalogue catalogue_ = Catalogue::embedded();
    const Family& family_ = *catalogue_.find_family(GetParam());
};

// Reads texts until all sides were seen, those of sm_90a first.
TEST_P(ChosenTexts, TakeBothSidesOfEveryBranch) {
    const std::vector<Branch> branches = host_cuda::branches_of(catalogue_.text(family_));
    std::set<std::pair<std::size_t, bool>> missing;
    for (std::size_t i = 0; i < branches.size(); ++i) {
        for (const bool value : {false, true}) {
            const std::string side = GetParam() + ": " + branches[i].condition + (value ? " is true" : " is false");
            if (!kNeverTaken.contains(side)) missing.emplace(i, value);
        }
    }
    std::set<std::string> read;
    for (const char* arch : {"sm_90a", "sm_80", "sm_89", "sm_86", "sm_120"}) {
        if (missing.empty()) break;
        for (const ChosenText& text : chosen_texts(catalogue_, family_, arch)) {
            if (missing.empty()) break;
            const SearchSpace rules = family_.rules(text.problem, reference_device(arch).value());
            const jit::Rendered rendered = jit::render(catalogue_, family_, text.problem, rules, text.config, {arch, "13.0"});
            if (!read.insert(rendered.identity).second) continue;
            for (const auto& side : host_cuda::sides_taken(rendered)) missing.erase(side);
        }
    }
    for (const auto& [number, value] : missing)
        ADD_FAILURE() << GetParam() << "/kernel.cuh:" << branches[number].line << ": in no chosen text "
                      << branches[number].condition << (value ? " is true" : " is false");
    std::printf("%zu branches, %zu texts read\n", branches.size(), read.size());
}

INSTANTIATE_TEST_SUITE_P(Each, ChosenTexts, ::testing::ValuesIn(family_names()), NamedByParameter());

TEST(PairCover, HoldsEveryPairAndNoRowTooMany) {
    std::vector<Words> rows;
    for (int i = 0; i < 60; ++i)
        rows.push_back({"a" + std::to_string(i % 5), "b" + std::to_string(i % 4), "c" + std::to_string(i * i % 7),
                        "d" + std::to_string(i / 30)});
    const auto held_by = [&](const std::vector<std::size_t>& picked) {
        Pairs all;
        for (const std::size_t at : picked) all.merge(pairs_of(rows[at]));
        return all;
    };
    Pairs every;
    for (const Words& row : rows) every.merge(pairs_of(row));
    const std::vector<std::size_t> picked = pair_cover(rows);
    EXPECT_EQ(held_by(picked), every);
    EXPECT_LT(picked.size(), 35U);
    for (std::size_t i = 0; i < picked.size(); ++i) {
        std::vector<std::size_t> fewer = picked;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        EXPECT_NE(held_by(fewer), every) << "row " << picked[i];
    }
}

}  // namespace
}  // namespace autotune::test::sides_host_test
