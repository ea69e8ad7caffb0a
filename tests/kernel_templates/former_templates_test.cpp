#include "src/catalogue/former_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/embedded_catalogue.h"

namespace autotune {
namespace {

const Catalogue& catalogue() {
    return test::embedded_catalogue();
}

// If a family's code changes, its former identities must be removed. If a change leaves the machine code as it is, its new
// identity goes into the table and into the shipped rows.
TEST(FormerTemplates, AreOfTodaysCode) {
    std::set<std::string_view> former;
    for (const FormerIdentity& each : former_identities()) {
        const Family* const family = catalogue().find_family(each.family);
        ASSERT_NE(family, nullptr) << each.family;
        EXPECT_EQ(each.same_code, catalogue().template_identity(*family))
            << "the code of " << each.family << " has changed: delete its lines in src/catalogue/former_templates.cpp, or write "
            << "the new identity there if the machine code is shown to be the same";
        EXPECT_NE(each.former, each.same_code);
        EXPECT_TRUE(former.insert(each.former).second) << each.former;
    }
}

TEST(FormerTemplates, GiveTheIdentityOfToday) {
    const FormerTemplates names = former_templates(catalogue());
    for (const FormerIdentity& each : former_identities()) {
        const std::string family(each.family);
        EXPECT_EQ(names.present_identity(family, std::string(each.former)), std::string(each.same_code));
        EXPECT_EQ(names.present_identity(family, std::string(each.same_code)), std::nullopt);
        EXPECT_EQ(names.present_identity("add/none", std::string(each.former)), std::nullopt);
        EXPECT_EQ(names.present_identity(family, "00000000deadbeef"), std::nullopt);
    }
}

TEST(FormerTemplates, AreNoneOfAnotherText) {
    const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / ("former_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder / "gemm/mma");
    const Family& mma = *catalogue().find_family("gemm/mma");
    std::ofstream(folder / "gemm/mma/kernel.cuh") << catalogue().text(mma) << "namespace another {}\n";
    const Catalogue changed = Catalogue::from_directory(folder.string());
    std::filesystem::remove_all(folder);
    const FormerTemplates names = former_templates(changed);
    for (const FormerIdentity& each : former_identities()) {
        const bool is_known = names.present_identity(std::string(each.family), std::string(each.former)).has_value();
        EXPECT_EQ(is_known, each.family != "gemm/mma") << each.family;
    }
}

TEST(FormerTemplates, RenameWhatTheFamilyHasUnderANewNameAlone) {
    const FormerTemplates names = former_templates(catalogue());
    const Device device = *reference_device("sm_90a");
    EXPECT_EQ(names.present_parameter("gemm/mma", "stages"), "stages");
    EXPECT_EQ(names.present_parameter("mine/own", "held"), "held");
    std::set<std::string_view> seen;
    for (const RenamedParameter& each : renamed_parameters()) {
        EXPECT_TRUE(seen.insert(each.former).second && seen.insert(each.present).second) << each.former;
        for (const Family* family : catalogue().families()) {
            const std::string name(family->name());
            std::set<std::string> parameters;
            for (const ProblemRequest& request : catalogue().find_op(name.substr(0, name.find('/')))->examples()) {
                const Problem problem = catalogue().problem(request);
                if (family->refuses(problem, device)) continue;
                for (const Parameter& parameter : family->rules(problem, device).parameters) parameters.insert(parameter.name);
                break;
            }
            const bool has_former = parameters.contains(std::string(each.former));
            const bool has_present = parameters.contains(std::string(each.present));
            EXPECT_FALSE(has_former && has_present) << name << ": " << each.former;
            if (parameters.empty()) continue;
            EXPECT_EQ(names.present_parameter(name, std::string(each.former)), has_present ? each.present : each.former) << name;
        }
    }
}

}  // namespace
}  // namespace autotune
