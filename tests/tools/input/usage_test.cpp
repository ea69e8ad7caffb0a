#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Mistake {
    const char* name;
    std::vector<std::string> words;
    std::vector<std::string> said;  // the message must have the wrong word and the remedy
};

class RefusesWithUsage : public testing::TestWithParam<Mistake> {};

// For each: exit 2, one line on standard error that names the wrong word and the remedy, nothing on standard output, no GPU
// touched.
TEST_P(RefusesWithUsage, NamesCulpritAndRemedy) {
    CliBench autotune;
    bool touched = false;
    autotune.services.on_open = [&] { touched = true; };
    const Said said = autotune(GetParam().words);
    EXPECT_EQ(said.code, ExitCode::usage) << said.err;
    EXPECT_EQ(said.out, "");
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
    for (const std::string& part : GetParam().said) EXPECT_THAT(said.err, HasSubstr(part));
    EXPECT_TRUE(autotune.services.tuned.empty());
    EXPECT_FALSE(touched && GetParam().words.front() == "--op" && GetParam().words.size() == 4);
}

std::vector<std::string> shape(const char* text) {
    return {"--op", "hgemm", "--shape", text};
}
std::vector<std::string> with(std::vector<std::string> more) {
    std::vector<std::string> words = shape("512x512x512");
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

INSTANTIATE_TEST_SUITE_P(
    BadInput, RefusesWithUsage,
    testing::Values(
        Mistake{"ZeroExtent", shape("0x1x1"), {"0"}}, Mistake{"NegativeExtent", shape("-1x4x4"), {"-1"}},
        Mistake{"TrailingX", shape("4096x"), {"4096x", "N is missing"}},
        Mistake{"TwoExtents", shape("4096x4096"), {"4096x4096", "MxNxK"}},
        Mistake{"FourExtents", shape("1x2x3x4"), {"1x2x3x4", "MxNxK"}},
        Mistake{"TwoToThe31", shape("2147483648x1x1"), {"2147483648"}},
        Mistake{"TwoToThe63", shape("9223372036854775808x1x1"), {"9223372036854775808"}},
        Mistake{"OverflowOfBytes", shape("2147483647x2147483647x2147483647"), {"2147483647"}},
        Mistake{"EmptyShape", shape(""), {"--shape is empty; give SHAPE"}}, Mistake{"WordInShape", shape("axbxc"), {"a"}},
        Mistake{"UnknownOp", {"--op", "hgem", "--shape", "1x1x1"}, {"hgem", "hgemm"}},
        Mistake{"PathAsOp", {"--op", "../../etc/passwd", "--shape", "1x1x1"}, {"../../etc/passwd"}},
        Mistake{"NoOp", {"--shape", "1x1x1"}, {"--op", "hgemm"}}, Mistake{"NoShape", {"--op", "hgemm"}, {"--shape", "MxNxK"}},
        Mistake{"UnknownDtype", with({"--dtype", "f17"}), {"f17", "bf16"}},
        Mistake{"UnknownLayout", with({"--layout", "nx"}), {"nx", "nt"}}, Mistake{"SmallLd", with({"--lda", "8"}), {"lda", "8"}},
        Mistake{"UnknownFamily", with({"--family", "mmma"}), {"mmma", "gemm/mma"}},
        Mistake{"UnknownParameter", with({"--param", "blockm=64"}), {"blockm", "block_m"}},
        Mistake{"ParameterOutsideItsDomain", with({"--param", "block_m=7"}), {"block_m", "7"}},
        Mistake{"ParameterIsCode", with({"--param", "block_m=1;}evil"}), {"1;}evil", "integer"}},
        Mistake{"ParameterWithoutValue", with({"--param", "block_m"}), {"block_m", "name=value"}},
        Mistake{"UnknownConfig", with({"--config", "nonesuch"}), {"nonesuch", "families"}},
        Mistake{"UnknownFlag", with({"--shpae", "1"}), {"--shpae", "--shape"}},
        Mistake{"FlagTwice", with({"--op", "bgemm"}), {"--op", "2 times"}},
        Mistake{"MissingValue", {"--op"}, {"--op", "wants a value"}}, Mistake{"StrayWord", with({"fast"}), {"fast"}},
        Mistake{"UnknownCommand", {"tuen"}, {"tuen", "tune"}}, Mistake{"BadBudget", with({"--budget", "soon"}), {"soon", "30s"}},
        Mistake{"NegativeBudget", with({"--budget", "-3s"}), {"-3"}},
        Mistake{"ZeroTrials", with({"--trials", "0"}), {"--trials", ">= 1"}},
        Mistake{"NoTieGap", with({"--tie-gap", "0"}), {"--tie-gap", "> 0"}},
        Mistake{"BadSeed", with({"--seed", "x"}), {"--seed", "x"}},
        Mistake{"BadStrategy", with({"--strategy", "magic"}), {"magic", "random"}},
        Mistake{"BadL2", with({"--l2", "hot"}), {"hot", "warm"}},
        Mistake{"BadDevice", with({"--device", "-1"}), {"--device", "-1"}},
        Mistake{"BadRange", shape("1:2x4x4"), {"1:2", "start:stop:step"}},
        Mistake{"ZeroStep", shape("1:4:0x4x4"), {"1:4:0", ">= 1"}}, Mistake{"BackwardRange", shape("8:4:1x4x4"), {"8:4:1"}},
        Mistake{"EndlessRange", shape("1:9223372036854775807:1x4x4"), {"100000"}},
        Mistake{"UnknownPredecessor", {"bench", "--op", "hgemm", "--shape", "1x1x1", "--after", "me"}, {"--after", "trigger"}},
        Mistake{"UnknownRival", {"bench", "--op", "hgemm", "--shape", "1x1x1", "--against", "mkl"}, {"mkl", "cublaslt"}},
        Mistake{"BenchWithoutShape", {"bench", "--op", "hgemm", "--named"}, {"--shape", "MxNxK"}},
        Mistake{"NoRacers", {"bench", "--op", "hgemm", "--shape", "1x1x1", "--racers", "0"}, {"--racers", ">= 1"}},
        Mistake{"BadBenchBudget", {"bench", "--op", "hgemm", "--shape", "1x1x1", "--budget", "soon"}, {"--budget", "soon"}},
        Mistake{"JsonAndCsv", {"bench", "--op", "hgemm", "--shape", "1x1x1", "--json", "--csv"}, {"--json", "--csv"}},
        Mistake{"ReportWithoutFile", {"report"}, {"--html"}},
        Mistake{"ReportIntoNowhere", {"report", "--html", "/nonexistent/r.html"}, {"/nonexistent/r.html", "--html"}},
        Mistake{"RaceAndNoRace", {"verify", "--race", "--no-race"}, {"--race", "--no-race"}},
        Mistake{"PlotIntoNowhere", {"simulate", "x.json", "--plot", "/nonexistent/x.svg"}, {"/nonexistent/x.svg", "--plot"}},
        Mistake{"PlotOfRunsThatEndEarly", {"simulate", "x.json", "--until", "5", "--plot", "x.svg"}, {"--plot", "--until"}},
        Mistake{"UnknownArch", {"compile", "--op", "hgemm", "--shape", "1x1x1", "--arch", "sm_70"}, {"sm_70", "sm_80"}},
        Mistake{"UnknownTemplates", {"families", "--templates", "/nonexistent"}, {"/nonexistent"}},
        Mistake{"SweepWithoutShapes", {"sweep", "--op", "hgemm"}, {"--shapes"}},
        Mistake{"SweepFileMissing", {"sweep", "--op", "hgemm", "--shapes", "/nonexistent"}, {"/nonexistent"}},
        Mistake{"ImportOfNothing", {"import"}, {"FILE"}},
        Mistake{"ImportOfMissing", {"import", "/nonexistent"}, {"/nonexistent"}},
        Mistake{"UnknownShell", {"completion", "fish"}, {"fish", "bash"}}),
    [](const auto& mistake) { return mistake.param.name; });

TEST(Usage, AnArgumentOfTenMegabytesIsRefusedAndNotRepeatedInFull) {
    CliBench autotune;
    const Said said = autotune({"--op", "hgemm", "--shape", std::string(10u << 20, '9')});
    EXPECT_EQ(said.code, ExitCode::usage);
}

TEST(Usage, NoWordsShowTheHelp) {
    CliBench autotune;
    const Said said = autotune({});
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, AllOf(HasSubstr("sweep"), HasSubstr("exit codes"), HasSubstr("130")));
}

TEST(Usage, EveryCommandHasHelpWithAnExample) {
    CliBench autotune;
    for (const Command& command : all_commands()) {
        const Said said = autotune({command.name, "--help"});
        EXPECT_EQ(said.code, ExitCode::done);
        EXPECT_THAT(said.out, HasSubstr("autotune " + command.name)) << command.name;
        EXPECT_FALSE(command.examples.empty()) << command.name;
    }
}

TEST(Usage, VersionIsOneLine) {
    CliBench autotune;
    EXPECT_EQ(autotune({"--version"}).out, "autotune 9.8.7\n");
    EXPECT_EQ(autotune({"-V"}).out, "autotune 9.8.7\n");
}

// Every op name that the message for an unknown op lists is also in `autotune families`, and is accepted.
TEST(Usage, AnUnknownOpIsToldTheOpsThatFamiliesLists) {
    CliBench autotune;
    const std::string& listed = all_families().out;
    const auto ops = all_families({"--json"}).json()["ops"];
    ASSERT_GE(ops.size(), 2u);
    for (const auto& op : ops) {
        for (const std::string name : op["names"]) {
            EXPECT_THAT(listed, HasSubstr(name));
            EXPECT_NE(autotune({"show", "--op", name}).code, ExitCode::usage) << name;
        }
    }
    for (const char* command : {"families", "show", "tune", "sweep"}) {
        const std::string message = autotune({command, "--op", "hgem", "--shape", "1x1x1"}).err;
        EXPECT_THAT(message, HasSubstr("autotune families")) << command;
        for (const auto& op : ops)
            for (const std::string name : op["names"]) EXPECT_THAT(message, HasSubstr(name)) << command;
    }
}

TEST(Usage, NoLineOfAHelpIsWiderThan120Columns) {
    CliBench autotune;
    for (const Command& command : all_commands()) {
        std::istringstream help(autotune({command.name, "--help"}).out);
        bool is_example = false;  // a command must be complete, because users copy it
        for (std::string line; std::getline(help, line);) {
            is_example = line == "examples:" || (is_example && !line.empty());
            if (is_example) continue;
            EXPECT_LE(line.size(), 120u) << line;
        }
    }
}

TEST(Usage, ALongFlagHasALineOfItsOwn) {
    CliBench autotune;
    EXPECT_THAT(autotune({"tune", "--help"}).out, HasSubstr("  --lda integer >= a row's elements\n   "));
}

TEST(Usage, HelpOfTuneShowsTheOpsOwnOptions) {
    CliBench autotune;
    EXPECT_THAT(autotune({"tune", "--help"}).out, AllOf(HasSubstr("--layout"), HasSubstr("--lda")));
}

}  // namespace
}  // namespace autotune::cli
