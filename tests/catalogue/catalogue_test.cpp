#include "src/catalogue/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "kernel_templates/registry.h"
#include "src/core/error.h"
#include "src/core/system/read_file.h"
#include "src/core/text.h"
#include "src/jit/render.h"

namespace autotune::catalogue_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A folder of templates. It is deleted after the test.
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

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    return text;
}

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
    EXPECT_FALSE(names.contains("gemm/op/reference.cuh"));
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
    folder.write("common/gone.cuh", "constexpr int one = 1;\n");
    const Catalogue one = Catalogue::from_directory(folder.path());
    EXPECT_TRUE(std::any_of(one.headers().begin(), one.headers().end(),
                            [](const TemplateHeader& header) { return header.name == "common/gone.cuh"; }));
    folder.write("common/gone.cuh", "constexpr int one = 2;\n");
    EXPECT_NE(Catalogue::from_directory(folder.path()).template_identity(family), one.template_identity(family));
}

// A copy of a text with a comment at the end of every line that may have one, and with more spaces.
std::string reworded(const std::string& text) {
    std::string all;
    bool is_continued = false;
    for (const std::string& line : split(text, '\n')) {
        const bool continues = line.ends_with('\\');
        const bool is_marker = line == "// ---- end of parameters ----";
        const std::size_t comment = line.find("//");
        const bool has_comment = comment != std::string::npos && line.find('"') == std::string::npos;
        if (is_continued || continues || is_marker) {
            all += line + "\n";
        } else {
            all += "  \t" + (has_comment ? line.substr(0, comment) : line) + " // \"other\" words */ of #1\r\n\n";
        }
        is_continued = continues;
    }
    return all;
}

// Writes all embedded texts to a folder, each after `changed`.
void write_all(const TemplatesFolder& folder, const std::function<std::string(const std::string&)>& changed) {
    for (const EmbeddedFile& file : registry().files) folder.write(std::string(file.name), changed(std::string(file.text)));
}

// Two identities for every family: of its template, and of the instance with its default config for the first example that it
// accepts.
std::map<std::string, std::string> identities_of(const Catalogue& catalogue) {
    std::map<std::string, std::string> identities;
    const Device device = *reference_device("sm_90a");
    for (const Family* family : catalogue.families()) {
        const std::string name(family->name());
        identities[name] = catalogue.template_identity(*family);
        for (const ProblemRequest& request : catalogue.find_op(name.substr(0, name.find('/')))->examples()) {
            const Problem problem = catalogue.problem(request);
            if (family->refuses(problem, device)) continue;
            const SearchSpace space = family->space(problem, device);
            identities[name + " instance"] =
                jit::render(catalogue, *family, problem, space, space.default_config, {"sm_90a", "13.0"}).identity;
            break;
        }
    }
    return identities;
}

TEST(Catalogue, RewordedCommentsAndOtherWhiteSpaceKeepBothIdentities) {
    const TemplatesFolder folder;
    write_all(folder, reworded);
    const Catalogue changed = Catalogue::from_directory(folder.path());
    const std::map<std::string, std::string> identities = identities_of(Catalogue::embedded());
    EXPECT_GT(identities.size(), 2 * changed.families().size() - 5);  // some families may refuse the device
    EXPECT_EQ(identities_of(changed), identities);
}

TEST(Catalogue, AMovedHeaderKeepsBothIdentities) {
    const TemplatesFolder folder;
    write_all(folder, [](const std::string& text) { return replaced(text, "common/types.cuh", "common/basics/types.cuh"); });
    fs::create_directories(fs::path(folder.path()) / "common/basics");
    fs::rename(fs::path(folder.path()) / "common/types.cuh", fs::path(folder.path()) / "common/basics/types.cuh");
    EXPECT_EQ(identities_of(Catalogue::from_directory(folder.path())), identities_of(Catalogue::embedded()));
}

// Changes one constant, one string literal and one directive, in a family's own text and in a header that many share.
TEST(Catalogue, ChangedCodeChangesBothIdentities) {
    struct Change {
        const char *file, *from, *to;
    };
    const std::string family = "gemm/mma";
    const Catalogue embedded = Catalogue::embedded();
    const std::map<std::string, std::string> before = identities_of(embedded);
    for (const Change& change : {Change{"gemm/mma/kernel.cuh", "16 * warps_m", "32 * warps_m"},
                                 Change{"gemm/mma/kernel.cuh", "\"common/types.cuh\"", "\"common/fp8.cuh\""},
                                 Change{"gemm/mma/kernel.cuh", "#pragma unroll\n", "#pragma unroll 1\n"},
                                 Change{"common/ptx.cuh", "asm volatile(\"", "asm volatile(\" "}}) {
        const TemplatesFolder folder;
        write_all(folder, [](const std::string& text) { return text; });
        const std::string path = folder.path() + "/" + change.file;
        const std::string text = read_regular_file(path, 1 << 20).text;
        ASSERT_NE(text.find(change.from), std::string::npos) << change.from;
        folder.write(change.file, replaced(text, change.from, change.to));
        const std::map<std::string, std::string> after = identities_of(Catalogue::from_directory(folder.path()));
        EXPECT_NE(after.at(family), before.at(family)) << change.from;
        EXPECT_NE(after.at(family + " instance"), before.at(family + " instance")) << change.from;
        const bool is_own = std::string_view(change.file).starts_with(family);
        EXPECT_TRUE(!is_own || after.at("add/vector") == before.at("add/vector")) << change.from;
    }
}

std::string refusal_of(const TemplatesFolder& folder) {
    try {
        (void)Catalogue::from_directory(folder.path());
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        return error.what();
    }
    return "";
}

// A folder in the layout of an earlier version, or with a family that this build lacks, would silently have no effect.
TEST(Catalogue, AFileOfTheDirectoryWithoutAnEffectIsRefused) {
    const TemplatesFolder folder;
    const std::string begin = "in the templates folder '" + folder.path() + "' the file ";
    folder.write("gemm/pack.cuh", "// the folder of an earlier version\n");
    EXPECT_EQ(refusal_of(folder),
              begin + "gemm/pack.cuh has no effect: this version reads it as gemm/device/pack.cuh; move it there");
    folder.write("gemm/mma/kernel.cuh", "#include \"gemm/pack.cuh\"\n");  // an older text has its own headers
    EXPECT_EQ(refusal_of(folder), "");
    folder.write("add/reference.cuh", "// the folder of an earlier version\n");
    EXPECT_EQ(refusal_of(folder),
              begin + "add/reference.cuh has no effect: this version reads it as add/op/reference.cuh; move it there");
    folder.write("add/mine/kernel.cuh", "// of no family\n");
    EXPECT_EQ(refusal_of(folder), begin +
                                      "add/mine/kernel.cuh has no effect: this build has no family add/mine; remove the file, "
                                      "or build autotune with the family (and 1 other files have no effect)");
}

TEST(Catalogue, AHeaderOfTheDirectoryThatNothingIncludesIsRefused) {
    const TemplatesFolder folder;
    folder.write("common/none.cuh", "// included by nothing\n");
    EXPECT_EQ(refusal_of(folder), "in the templates folder '" + folder.path() +
                                      "' the file common/none.cuh has no effect: no template includes it; include it as "
                                      "\"common/none.cuh\", or remove it");
}

TEST(Catalogue, TwoHeadersOfOneBaseNameInOneTemplateAreRefused) {
    const TemplatesFolder folder;
    folder.write("common/one/same.cuh", "// one\n");
    folder.write("common/two/same.cuh", "// two\n");
    folder.write("gemm/mma/kernel.cuh", "#include \"common/two/same.cuh\"\n#include \"common/one/same.cuh\"\n");
    EXPECT_EQ(refusal_of(folder), "with the templates folder '" + folder.path() +
                                      "' gemm/mma/kernel.cuh includes two headers of one base name, common/one/same.cuh and "
                                      "common/two/same.cuh; rename one of them");
    folder.write("gemm/mma/kernel.cuh", "#include \"common/two/same.cuh\"\n");
    folder.write("gemm/simt/kernel.cuh", "#include \"common/one/same.cuh\"\n");
    EXPECT_EQ(refusal_of(folder), "");
}

// If a header's macro turns its arguments into strings, white space counts in the text that uses the macro.
TEST(Catalogue, WhiteSpaceCountsBesideAMacroThatShowsIt) {
    for (const bool shows : {true, false}) {
        std::vector<std::map<std::string, std::string>> identities;
        for (const char* argument : {"a+b", "a + b"}) {
            const TemplatesFolder folder;
            folder.write("common/text.cuh", shows ? "#define TEXT(x) #x\n" : "#define TEXT(x) x\n");
            const Catalogue embedded = Catalogue::embedded();
            folder.write(
                "gemm/mma/kernel.cuh",
                "#include \"common/text.cuh\"\n" + embedded.text(*embedded.find_family("gemm/mma")) + "TEXT(" + argument + ")\n");
            identities.push_back(identities_of(Catalogue::from_directory(folder.path())));
        }
        for (const char* what : {"gemm/mma", "gemm/mma instance"})
            EXPECT_EQ(identities[0].at(what) == identities[1].at(what), !shows) << what;
    }
}

// Identities name a header by its base name, and __LINE__ would make lines part of the code.
TEST(Catalogue, BaseNamesOfHeadersAreUniqueAndNoTextCountsItsLines) {
    const Catalogue catalogue = Catalogue::embedded();
    std::set<std::string_view> names;
    for (const TemplateHeader& header : catalogue.headers())
        EXPECT_TRUE(names.insert(base_name(header.name)).second) << header.name << ": another header has this base name";
    for (const EmbeddedFile& file : registry().files) {
        for (const char* word : {"__LINE__", "__COUNTER__", "__FILE__"})
            EXPECT_EQ(file.text.find(word), std::string_view::npos) << file.name << " uses " << word;
        EXPECT_NE(code_of(file.text), file.text) << file.name << " counts as it is (src/catalogue/code_of.h)";
    }
}

TEST(Catalogue, HeadersAreInNameOrderEmbeddedAndFromADirectory) {
    const TemplatesFolder folder;
    folder.write("add/aside.cuh", "// between others\n");
    folder.write("add/vector/kernel.cuh", "#include \"add/aside.cuh\"\n");
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
