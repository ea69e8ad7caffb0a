// Users' kernels on the host: the examples of examples/kernels are right, and each fault of tests/kernel_files/mutants.json is
// found by the tests of their op, with their own reference.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "src/kernel_files/kernel_file.h"
#include "tests/support/host_cuda/candidate.h"

namespace autotune::test::users_mutants_host_test {
namespace {

using nlohmann::json;

struct UsersMutant {
    std::string example, name, find, replace;
    std::string shape;  // empty: the example's
};

void PrintTo(const UsersMutant& mutant, std::ostream* out) {
    *out << mutant.example << " " << mutant.name;
}

std::string test_folder() {
    return std::string(AUTOTUNE_TEST_DATA) + "/..";
}

const json& listed() {
    static const json& all = *new json(json::parse(std::ifstream(test_folder() + "/kernel_files/mutants.json")));
    return all;
}

// A kernel file of an example with a changed source.
FamilyDefinition definition_of(const std::string& example, const std::string& find, const std::string& replace,
                               bool has_exact_test) {
    kernel_files::Loaded loaded = kernel_files::load(test_folder() + "/../examples/kernels/" + example + ".toml", {});
    check(loaded.is_whole(), "the example is whole");
    FamilyDefinition family = std::move(loaded.file.family);
    auto op = std::make_shared<OpDefinition>(*family.op);
    std::string& text = op->source.files.front().text;
    const std::size_t at = text.find(find);
    check(find.empty() || (at != std::string::npos && text.find(find, at + 1) == std::string::npos),
          "a mutant's text is there once");
    if (!find.empty()) text.replace(at, find.size(), replace);
    op->has_exact_test = has_exact_test;
    family.op = std::move(op);
    return family;
}

std::string findings(const UsersMutant& mutant, bool has_exact_test = true) {
    const json& about = listed().at(mutant.example);
    Catalogue catalogue = Catalogue::embedded();
    catalogue.add(definition_of(mutant.example, mutant.find, mutant.replace, has_exact_test));
    const Family& family = *catalogue.find_family("user_" + mutant.example + "/main");
    const std::string shape = mutant.shape.empty() ? about.at("shape").get<std::string>() : mutant.shape;
    const Problem problem =
        catalogue.problem({"user_" + mutant.example, shape, about.at("options").get<std::map<std::string, std::string>>()});
    return host_cuda::HostCandidate(catalogue, family, problem,
                                    host_cuda::config_with(family, problem, about.at("config").get<std::string>()))
        .examine(problem);
}

std::vector<UsersMutant> on_host() {
    std::vector<UsersMutant> all;
    for (const auto& [example, about] : listed().items())
        for (const json& each : about.at("mutants"))
            if (each.at("where") != "gpu")
                all.push_back({example, each.at("name"), each.at("find"), each.at("replace"), each.value("host_shape", "")});
    return all;
}

std::vector<UsersMutant> sound() {
    std::vector<UsersMutant> all;
    for (const auto& [example, about] : listed().items()) all.push_back({example, "sound", "", "", ""});
    return all;
}

class UsersKernelOnHost : public ::testing::TestWithParam<UsersMutant> {};
TEST_P(UsersKernelOnHost, IsRight) {
    EXPECT_EQ(findings(GetParam()), "");
}

class UsersMutantOnHost : public ::testing::TestWithParam<UsersMutant> {};
TEST_P(UsersMutantOnHost, IsRejected) {
    const std::string found = findings(GetParam());
    EXPECT_FALSE(found.empty()) << "a wrong kernel passes";
    std::printf("%s\n", found.c_str());
}

// Faults that are smaller than the rounding that a long sum may have.
std::vector<UsersMutant> within_the_tolerance() {
    std::vector<UsersMutant> all;
    for (const auto& [example, about] : listed().items())
        for (const json& each : about.at("mutants"))
            if (each.contains("within_tolerance_at"))
                all.push_back({example, each.at("name"), each.at("find"), each.at("replace"), each.at("within_tolerance_at")});
    return all;
}

class SmallMutantOnHost : public ::testing::TestWithParam<UsersMutant> {};
TEST_P(SmallMutantOnHost, PassesTheToleranceAndFailsTheExactTest) {
    EXPECT_EQ(findings(GetParam(), false), "");
    EXPECT_NE(findings(GetParam()), "");
}

TEST(UsersMutants, FourAndMoreAreFoundByTheExactTestAlone) {
    EXPECT_GE(within_the_tolerance().size(), 4U);
}

TEST(UsersMutants, AreListedForEachExample) {
    std::size_t examples = 0;
    for (const auto& entry : std::filesystem::directory_iterator(test_folder() + "/../examples/kernels")) {
        if (entry.path().extension() != ".toml") continue;
        ++examples;
        EXPECT_TRUE(listed().contains(entry.path().stem().string())) << entry.path();
    }
    EXPECT_EQ(examples, listed().size());
}

const auto name_of = [](const auto& entry) { return entry.param.example + "_" + entry.param.name; };
INSTANTIATE_TEST_SUITE_P(Each, UsersKernelOnHost, ::testing::ValuesIn(sound()), name_of);
INSTANTIATE_TEST_SUITE_P(Each, UsersMutantOnHost, ::testing::ValuesIn(on_host()), name_of);
INSTANTIATE_TEST_SUITE_P(Each, SmallMutantOnHost, ::testing::ValuesIn(within_the_tolerance()), name_of);

}  // namespace
}  // namespace autotune::test::users_mutants_host_test
