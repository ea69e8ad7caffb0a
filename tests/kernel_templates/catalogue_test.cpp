#include "kernel_templates/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "src/core/error.h"

namespace autotune::catalogue_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A folder of templates that is gone after the test.
class TemplatesFolder {
  public:
    TemplatesFolder() : path_(fs::path(::testing::TempDir()) / ("templates_" + std::to_string(::getpid()))) {
        fs::create_directories(path_);
    }
    ~TemplatesFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    TemplatesFolder(const TemplatesFolder&) = delete;
    TemplatesFolder& operator=(const TemplatesFolder&) = delete;

    void write(const std::string& name, const std::string& text) const {
        fs::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name) << text;
    }
    std::string path() const { return path_.string(); }

  private:
    fs::path path_;
};

TEST(Catalogue, FindsOpsByNameAndAlias) {
    const Catalogue catalogue = Catalogue::embedded();
    ASSERT_NE(catalogue.find_op("gemm"), nullptr);
    EXPECT_EQ(catalogue.find_op("hgemm"), catalogue.find_op("gemm"));
    EXPECT_EQ(catalogue.find_op("convolution"), nullptr);
}

TEST(Catalogue, FamiliesAreInNameOrderAndFoundByTheirFolder) {
    const Catalogue catalogue = Catalogue::embedded();
    ASSERT_FALSE(catalogue.families().empty());
    for (std::size_t i = 1; i < catalogue.families().size(); ++i) {
        EXPECT_LT(catalogue.families()[i - 1]->name(), catalogue.families()[i]->name());
    }
    for (const Family* family : catalogue.families()) EXPECT_EQ(catalogue.find_family(family->name()), family);
    EXPECT_EQ(catalogue.find_family("gemm/none"), nullptr);
    EXPECT_TRUE(catalogue.families_of("gem").empty());
}

TEST(Catalogue, HeadersAreWhatTextsMayInclude) {
    const Catalogue catalogue = Catalogue::embedded();
    std::set<std::string> names;
    for (const TemplateHeader& header : catalogue.headers()) names.insert(header.name);
    EXPECT_TRUE(names.contains("common/types.cuh"));
    EXPECT_FALSE(names.contains("common/harness.cuh"));
    EXPECT_FALSE(names.contains("gemm/reference.cuh"));
}

TEST(Catalogue, TemplateIdentityIsSixteenHexDigitsAndDiffersBetweenFamilies) {
    const Catalogue catalogue = Catalogue::embedded();
    std::set<std::string> identities;
    for (const Family* family : catalogue.families()) {
        const std::string identity = catalogue.template_identity(*family);
        EXPECT_EQ(identity.size(), 16U);
        EXPECT_EQ(identity.find_first_not_of("0123456789abcdef"), std::string::npos);
        EXPECT_TRUE(identities.insert(identity).second);
    }
}

TEST(Catalogue, ADirectoryReplacesTextAndIdentityOfWhatItHolds) {
    const Catalogue embedded = Catalogue::embedded();
    const Family& family = *embedded.families().front();
    const TemplatesFolder folder;
    folder.write(std::string(family.name()) + "/kernel.cuh", "// other text\n");
    const Catalogue replaced = Catalogue::from_directory(folder.path());
    EXPECT_EQ(replaced.text(family), "// other text\n");
    EXPECT_NE(replaced.template_identity(family), embedded.template_identity(family));
    EXPECT_EQ(replaced.harness_text(), embedded.harness_text());
    for (const Family* other : embedded.families()) {
        if (other == &family) continue;
        EXPECT_EQ(replaced.template_identity(*other), embedded.template_identity(*other));
    }
}

TEST(Catalogue, AChangedHeaderChangesTheIdentityOfThoseWhoIncludeIt) {
    const Catalogue embedded = Catalogue::embedded();
    const TemplatesFolder folder;
    folder.write("common/types.cuh", "// other types\n");
    const Catalogue replaced = Catalogue::from_directory(folder.path());
    for (const Family* family : embedded.families()) {
        EXPECT_NE(replaced.template_identity(*family), embedded.template_identity(*family));
    }
}

TEST(Catalogue, AHeaderThatOnlyTheDirectoryHasIsPartOfWhatIncludesIt) {
    const Family& family = *Catalogue::embedded().families().front();
    const TemplatesFolder folder;
    folder.write(std::string(family.name()) + "/kernel.cuh", "#include \"common/gone.cuh\"\n");
    folder.write("common/gone.cuh", "// one text\n");
    const Catalogue one = Catalogue::from_directory(folder.path());
    EXPECT_TRUE(std::any_of(one.headers().begin(), one.headers().end(),
                            [](const TemplateHeader& header) { return header.name == "common/gone.cuh"; }));
    folder.write("common/gone.cuh", "// another text\n");
    EXPECT_NE(Catalogue::from_directory(folder.path()).template_identity(family), one.template_identity(family));
}

TEST(Catalogue, HeadersAreInNameOrderEmbeddedAndFromADirectory) {
    const TemplatesFolder folder;
    folder.write("add/aside.cuh", "// between others\n");
    for (const Catalogue& catalogue : {Catalogue::embedded(), Catalogue::from_directory(folder.path())}) {
        const auto& headers = catalogue.headers();
        EXPECT_TRUE(std::is_sorted(headers.begin(), headers.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
    }
}

TEST(Catalogue, AnUnreadableDirectoryIsTheCallersMistake) {
    try {
        Catalogue::from_directory("/nowhere/at/all");
        FAIL() << "a missing folder was accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        EXPECT_THAT(error.what(), HasSubstr("/nowhere/at/all"));
    }
}

}  // namespace
}  // namespace autotune::catalogue_test
