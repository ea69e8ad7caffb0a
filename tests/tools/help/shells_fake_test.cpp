// Passes the command's scripts and manual to real shells and the real manual reader. Skips those that are not installed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/fake/fake_run.h"

namespace autotune::shells_fake_test {
namespace {

using fake::Outcome;
using fake::Sandbox;
using testing::HasSubstr;
using testing::Not;

std::string script(const Sandbox& machine, const std::string& name, const std::string& text) {
    const std::string path = (machine.folder() / name).string();
    std::ofstream(path) << text;
    return path;
}

// Defines `try LINE`: prints bash's completions at the end of the line.
constexpr const char* kBash = R"sh(
PATH=$(dirname "$1"):$PATH
source <(autotune completion bash) || exit 1
try() { COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=(); _autotune; printf '[%s]\n' "${COMPREPLY[*]}"; }
cd "$(dirname "$0")"; mkdir -p folder; touch 'a shapes file.txt'
)sh";

std::string offered_by_bash(const std::string& line) {
    Sandbox machine;
    const std::string path = script(machine, "try.sh", std::string(kBash) + "try '" + line + "'\n");
    const Outcome said = machine.run({"/bin/bash", path, fake::autotune_binary()});
    EXPECT_EQ(said.err, "");
    return said.out;
}

TEST(Bash, CompletesFlagsValuesAndLists) {
    EXPECT_THAT(offered_by_bash("autotune --la"), HasSubstr("[--layout]"));
    EXPECT_THAT(offered_by_bash("autotune completion "), HasSubstr("[bash zsh]"));
    EXPECT_THAT(offered_by_bash("autotune bench --against cublas,"), HasSubstr("[cublas,cublaslt]"));
    EXPECT_THAT(offered_by_bash("autotune doc"), HasSubstr("[doctor]"));
}

TEST(Bash, OffersOnlyWhatStandsBehindAnEqualsSign) {
    EXPECT_THAT(offered_by_bash("autotune --op=hg"), HasSubstr("[hgemm hgemm_f16acc]"));
    EXPECT_THAT(offered_by_bash("autotune --op hgemm --family mma --param stages="), HasSubstr("[2 3 4 5 6]"));
}

TEST(Bash, CompletesPathsWithBlanks) {
    EXPECT_THAT(offered_by_bash("autotune sweep --shapes a"), HasSubstr("[a shapes file.txt]"));
    EXPECT_THAT(offered_by_bash("autotune --keep fol"), HasSubstr("[folder]"));
}

// Runs an interactive zsh in a pseudo-terminal. It types the line and a tab, then prints the resulting words.
constexpr const char* kZsh = R"sh(
zmodload zsh/zpty || exit 77
zpty -b shell "zsh -f -i"
zpty -w shell "PROMPT=; unsetopt zle_bracketed_paste 2>/dev/null; autoload -Uz compinit; compinit -u -D; PATH=${1:h}:\$PATH"
zpty -w shell 'source <(autotune completion zsh); bindkey -e; print -r -- RE""ADY'
zpty -r -m shell output '*READY*'
zpty -w -n shell "$2"$'\t\x01print -r -- "RAN "\n'
zpty -r -m shell output $'*\nRAN *\n*'
print -r -- "$output"
zpty -d shell
)sh";

std::string typed_by_zsh(const std::string& line) {
    Sandbox machine;
    const std::string path = script(machine, "try.zsh", kZsh);
    const Outcome said = machine.run({"/usr/bin/zsh", "-f", path, fake::autotune_binary(), line}, {.timeout_s = 60});
    EXPECT_FALSE(said.timed_out) << line;
    return said.out;
}

class Zsh : public testing::Test {
    void SetUp() override {
        if (!std::filesystem::exists("/usr/bin/zsh")) GTEST_SKIP() << "zsh is not installed";
    }
};

TEST_F(Zsh, CompletesFlagsValuesAndLists) {
    EXPECT_THAT(typed_by_zsh("autotune --layo"), HasSubstr("RAN autotune --layout"));
    EXPECT_THAT(typed_by_zsh("autotune completion b"), HasSubstr("RAN autotune completion bash"));
    EXPECT_THAT(typed_by_zsh("autotune bench --against cublas,"), HasSubstr("RAN autotune bench --against cublas,cublaslt"));
    EXPECT_THAT(typed_by_zsh("autotune --op=hgemm_"), HasSubstr("RAN autotune --op=hgemm_f16acc"));
}

TEST(ManualPage, IsReadWithoutAWarning) {
    if (!std::filesystem::exists("/usr/bin/man")) GTEST_SKIP() << "man is not installed";
    Sandbox machine;
    const std::string path = script(machine, "autotune.1", machine.autotune({"manual"}).out);
    const Outcome said = machine.run({"/usr/bin/man", "--warnings", "-l", path});
    if (said.out.starts_with("This system has been minimized")) GTEST_SKIP() << "man is a script that shows nothing";
    EXPECT_EQ(said.exit_code, 0);
    EXPECT_EQ(said.err, "");
    EXPECT_THAT(said.out, testing::AllOf(HasSubstr("EXIT STATUS"), HasSubstr("--shape"), Not(HasSubstr("\\-"))));
}

}  // namespace
}  // namespace autotune::shells_fake_test
