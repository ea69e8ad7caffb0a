// Shell completion and the manual page, as text.
#include "tools/cli/help/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/embedded_catalogue.h"
#include "tests/tools/cli_bench.h"
#include "tools/cli/help/manual.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

Completions after(const std::vector<std::string>& words) {
    return complete(all_commands(), test::embedded_catalogue(), words);
}

std::vector<std::string> words_after(const std::vector<std::string>& words) {
    std::vector<std::string> found;
    for (const Completion& completion : after(words).words) found.push_back(completion.word);
    return found;
}

TEST(Completion, TheFirstWordIsACommandOrAFlagOfTune) {
    EXPECT_THAT(words_after({""}), IsSupersetOf({"tune", "sweep", "completion", "manual"}));
    EXPECT_THAT(words_after({"--"}), IsSupersetOf({"--op", "--shape", "--layout", "--help", "--version"}));
    EXPECT_THAT(words_after({"do"}), ElementsAre("doctor"));
    EXPECT_THAT(words_after({}), Contains("tune"));
}

TEST(Completion, FlagsAreThoseOfTheCommandAndEachOnce) {
    EXPECT_THAT(words_after({"doctor", "--"}), AllOf(Contains("--require-gpu"), Not(Contains("--op"))));
    EXPECT_THAT(words_after({"sweep", "--op", "hgemm", "--"}), AllOf(Not(Contains("--op")), Contains("--shapes")));
    EXPECT_THAT(words_after({"sweep", "--shapes", "a.txt", "--sh"}), ElementsAre("--shape", "--shapes", "--shard"))
        << "the first two may be repeated";
    EXPECT_THAT(words_after({"bench", ""}), Contains("--against")) << "no plain word may follow, so a flag must";
}

TEST(Completion, AFlagOfAListTakesItsItemsAfterACommaButNoneTwice) {
    EXPECT_THAT(words_after({"bench", "--against", ""}), IsSupersetOf({"cublas", "cublaslt"}));
    EXPECT_THAT(words_after({"bench", "--against", "cublas,"}),
                AllOf(Contains("cublas,cublaslt"), Not(Contains("cublas,cublas"))));
    EXPECT_TRUE(after({"bench", "--against", "cublas"}).goes_on);
    EXPECT_THAT(words_after({"compile", "--arch", "sm_90a,sm_8"}), ElementsAre("sm_90a,sm_80", "sm_90a,sm_86", "sm_90a,sm_89"));
}

TEST(Completion, ValuesOfFlagsThatHaveAClosedList) {
    EXPECT_THAT(words_after({"--op", "hg"}), ElementsAre("hgemm", "hgemm_f16acc"));
    EXPECT_THAT(words_after({"tune", "--layout", ""}), ElementsAre("nn", "nt", "tn", "tt"));
    EXPECT_THAT(words_after({"--strategy", "gre"}), ElementsAre("greedy"));
    EXPECT_THAT(words_after({"--op=hg"}), ElementsAre("--op=hgemm", "--op=hgemm_f16acc"));
    EXPECT_THAT(words_after({"--budget", ""}), IsEmpty());
}

TEST(Completion, FamiliesConfigsAndParametersFollowTheOpOnTheLine) {
    EXPECT_THAT(words_after({"--op", "hgemm", "--family", ""}), AllOf(Contains("gemm/mma"), Each(HasSubstr("gemm/"))));
    EXPECT_THAT(words_after({"--op", "hgemm", "--config", "wmma_"}), Contains("wmma_m16n16k16_naive"));
    EXPECT_THAT(words_after({"--op", "hgemm", "--family", "simt", "--config", "wmma_"}), IsEmpty());
    EXPECT_THAT(words_after({"--op", "hgemm", "--param", "stag"}), ElementsAre("stages="));
    EXPECT_TRUE(after({"--op", "hgemm", "--param", "stag"}).goes_on);
    EXPECT_THAT(words_after({"--op", "hgemm", "--family", "mma", "--param", "stages="}),
                ElementsAre("stages=2", "stages=3", "stages=4", "stages=5", "stages=6"));
    EXPECT_THAT(words_after({"--config", ""}), IsEmpty()) << "without an op there is no space";
    EXPECT_THAT(words_after({"--op", "hgemm", "--shape", "1x", "--param", "stages=3"}), Contains("stages=3"))
        << "a shape that is no shape yet";
}

TEST(Completion, PlainWordsAreChoicesOrFiles) {
    EXPECT_THAT(words_after({"completion", ""}), ElementsAre("bash", "zsh"));
    EXPECT_THAT(words_after({"completion", "bash", ""}), IsEmpty());
    EXPECT_THAT(words_after({"families", "add/"}), Contains("add/vector"));
    EXPECT_THAT(words_after({"families", "hge"}), ElementsAre("hgemm", "hgemm_f16acc"));
    EXPECT_EQ(after({"import", ""}).paths, PathKind::files);
    EXPECT_EQ(after({"sweep", "--shapes", "x"}).paths, PathKind::files);
    EXPECT_EQ(after({"--keep", ""}).paths, PathKind::folders);
    EXPECT_THAT(words_after({"help", "swe"}), ElementsAre("sweep"));
}

TEST(Completion, ALineThatCannotBeUnderstoodHasNone) {
    EXPECT_THAT(words_after({"tuen", ""}), IsEmpty());
    EXPECT_THAT(words_after({"tune", "--nonesuch=x"}), IsEmpty());
    EXPECT_THAT(words_after({"tune", "--json=x"}), IsEmpty());
}

TEST(Completion, TheCommandAnswersTheShellsInLines) {
    CliBench autotune;
    EXPECT_EQ(autotune({"__complete", "bench", "--against", "cublasl"}).out, "cublaslt\t\n:goes_on\n");
    EXPECT_EQ(autotune({"__complete", "import", ""}).out, ":files\n");
}

TEST(Manual, DescribesEveryCommandFlagCodeAndVariable) {
    const std::string page = manual_page(all_commands(), test::embedded_catalogue().ops(), "9.8.7");
    for (const Command& command : all_commands()) {
        EXPECT_THAT(page, HasSubstr(".SS autotune " + command.name)) << command.name;
        for (const Flag& flag : command.flags) {
            std::string name;
            for (const char c : flag.name) name += c == '-' ? std::string("\\-") : std::string(1, c);
            EXPECT_THAT(page, HasSubstr("\\fB\\-\\-" + name + "\\fR")) << command.name << " " << flag.name;
        }
    }
    for (const EnvironmentVariable& variable : environment_variables())
        EXPECT_THAT(page, HasSubstr("\\fB" + std::string(variable.name) + "\\fR"));
    for (const auto& [code, meaning] : exit_code_meanings()) EXPECT_THAT(page, HasSubstr(std::string(meaning)));
    EXPECT_THAT(page, HasSubstr("autotune 9.8.7"));
}

TEST(Manual, IsADocumentWithJson) {
    CliBench autotune;
    EXPECT_EQ(autotune({"manual", "--json"}).json()["page"], autotune({"manual"}).out);
}

TEST(Manual, AFlagThatManyCommandsTakeIsDescribedOnce) {
    const std::string page = manual_page(all_commands(), test::embedded_catalogue().ops(), "1");
    const std::string entry = "\\fB\\-\\-json\\fR";
    const std::size_t first = page.find(entry);
    ASSERT_NE(first, std::string::npos);
    EXPECT_EQ(page.find(entry, first + 1), std::string::npos);
}

TEST(Manual, NoLineOfTextCanBeTakenForARequest) {
    Command odd;
    odd.name = "odd";
    odd.about = ".so /etc/passwd";
    odd.examples = {"'quoted' \\n"};
    const std::string page = manual_page({odd}, {}, "1");
    EXPECT_THAT(page, AllOf(HasSubstr("\n\\&.so /etc/passwd\n"), HasSubstr("\n\\&'quoted' \\en\n")));
}

TEST(Completion, IsAScriptForEachShell) {
    CliBench autotune;
    EXPECT_THAT(autotune({"completion", "bash"}).out, HasSubstr("complete -F _autotune autotune"));
    EXPECT_THAT(autotune({"completion", "zsh"}).out, HasSubstr("#compdef autotune"));
}

}  // namespace
}  // namespace autotune::cli
