// Compares the facts of each op in docs/adding_a_family.md with the names that families of the op bind.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "src/catalogue/catalogue.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::facts_in_docs_test {
namespace {

// The names that families of an op bind. Those that all bind come first.
struct Facts {
    std::set<std::string> of_all, of_some;
};

std::set<std::string> facts_of(const Catalogue& catalogue, const Family& family, const Op& op) {
    std::set<std::string> names;
    for (const ProblemRequest& request : op.examples()) {
        const Problem problem = catalogue.problem(request);
        for (const std::string& arch : known_archs()) {
            if (family.refuses(problem, reference_device(arch).value())) continue;
            for (const Binding& binding : family.facts(problem)) names.insert(binding.name);
            return names;  // every problem has the same names
        }
    }
    return names;
}

Facts facts_of(const Catalogue& catalogue, const Op& op) {
    Facts facts;
    std::map<std::string, std::size_t> families;
    for (const Family* family : catalogue.families_of(op.name())) {
        for (const std::string& name : facts_of(catalogue, *family, op)) ++families[name];
    }
    for (const auto& [name, count] : families) {
        const bool has_all = count == catalogue.families_of(op.name()).size();
        (has_all ? facts.of_all : facts.of_some).insert(name);
    }
    return facts;
}

std::string list(const std::set<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "`" : ", `") + name + "`";
    return text.empty() ? "none" : text;
}

TEST(FactsInDocs, AreThoseOfTheFamilies) {
    const Catalogue& catalogue = test::embedded_catalogue();
    std::ostringstream page;
    page << std::ifstream(AUTOTUNE_TEST_DATA "/../../docs/adding_a_family.md").rdbuf();
    for (const Op* op : catalogue.ops()) {
        const Facts facts = facts_of(catalogue, *op);
        const std::string row =
            "| `" + std::string(op->name()) + "` | " + list(facts.of_all) + " | " + list(facts.of_some) + " |";
        EXPECT_NE(page.str().find(row + "\n"), std::string::npos) << "docs/adding_a_family.md lacks the row\n" << row;
    }
}

}  // namespace
}  // namespace autotune::facts_in_docs_test
