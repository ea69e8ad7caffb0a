// Common variants of input: other spellings are accepted, typing errors get a suggestion, and a mistake gives the same message
// with and without a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"

namespace autotune::cli::forgiving_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string key_of(const std::vector<std::string>& words) {
    CliBench autotune;
    std::vector<std::string> line = {"sweep", "--dry-run", "--json"};
    line.insert(line.end(), words.begin(), words.end());
    const Said said = autotune(line);
    EXPECT_EQ(said.code, ExitCode::done) << said.err;
    return said.code == ExitCode::done ? said.json()["problems"][0]["key"].get<std::string>() : said.err;
}

TEST(Forgiving, TypesLayoutsAndShapesHaveSeveralSpellings) {
    const std::string bf16_nt = key_of({"--op", "bgemm", "--shape", "64x32x16", "--layout", "nt"});
    EXPECT_EQ(key_of({"--op", "BGEMM", "--shape", "64X32X16", "--layout", "NT"}), bf16_nt);
    EXPECT_EQ(key_of({"--op", " bgemm ", "--shape", " 64 x 32×16 ", "--layout", " Nt"}), bf16_nt);
    EXPECT_EQ(key_of({"--op", "gemm", "--shape", "64x32x16", "--layout", "nt", "--dtype", "bfloat16"}), bf16_nt);
    EXPECT_EQ(key_of({"--op", "gemm", "--shape", "64x32x16", "--layout", "nt", "--dtype", "torch.bfloat16"}), bf16_nt);
    const std::string f16 = key_of({"--op", "hgemm", "--shape", "64x32x16"});
    for (const char* type : {"fp16", "half", "float16", "F16", "torch.half"})
        EXPECT_EQ(key_of({"--op", "hgemm", "--shape", "64x32x16", "--dtype", type}), f16) << type;
    EXPECT_EQ(key_of({"--op", "gemm", "--shape", "64x32x16", "--acc", "fp32"}), f16);
    EXPECT_EQ(key_of({"--op", "add", "--shape", "64X32", "--dtype", "half"}), key_of({"--op", "hadd", "--shape", "64x32"}));
    EXPECT_EQ(key_of({"--op", "attention", "--shape", "2X8X64X64", "--mask", "Causal", "--lse", "YES"}),
              key_of({"--op", "attention", "--shape", "2x8x64x64", "--mask", "causal", "--lse", "yes"}));
}

TEST(Forgiving, ShapeFilesTakeTheSameSpellings) {
    CliBench autotune;
    const std::string text = autotune.file("a.txt", "64X32×16 OP=bgemm Layout=NT\n");
    const std::string toml =
        autotune.file("a.toml", "dtype = \"bfloat16\"\n[[problem]]\nop = \"GEMM\"\nshape = \"64X32X16\"\nlayout = \"NT\"\n");
    const std::string plain = key_of({"--op", "bgemm", "--shape", "64x32x16", "--layout", "nt"});
    EXPECT_EQ(key_of({"--shapes", text}), plain);
    EXPECT_EQ(key_of({"--shapes", toml}), plain);
    EXPECT_EQ(key_of({"--op", "hgemm", "--shapes", " 64X32X16 "}), key_of({"--op", "hgemm", "--shape", "64x32x16"}));
    EXPECT_EQ(key_of({"--layout", "nn", "--shapes", text}), plain) << "a word in the file overrides the flag";
}

TEST(Forgiving, FamiliesParametersArchitecturesAndClosedListsTakeOtherSpellings) {
    CliBench autotune;
    const Said said = autotune({"tune", "--op", "hgemm", "--shape", "64x64x64", "--family", " GEMM/MMA ", "--param",
                                " Block-M = 64 ", "--arch", "SM90A", "--l2", "WARM", "--strategy", "Random", "--seed", " 7 "});
    ASSERT_EQ(said.code, ExitCode::done) << said.err;
    EXPECT_THAT(autotune.services.tune_options.choice.families, ElementsAre("gemm/mma"));
    EXPECT_EQ(autotune.services.tune_options.choice.pins.to_string(), "block_m=64");
    EXPECT_TRUE(autotune.services.tune_options.method.l2_warm);
    EXPECT_EQ(autotune.services.tune_options.strategy, "random");
    EXPECT_EQ(autotune.services.tune_options.seed, 7u);
}

TEST(Forgiving, TheComputeTypeAloneMakesAProblemOfFp8) {
    const std::string fp8 = key_of({"--op", "fp8gemm", "--shape", "64x64x64"});
    for (const char* type : {"fp8", "e4m3", "float8_e4m3fn"})
        EXPECT_EQ(key_of({"--op", "gemm", "--shape", "64x64x64", "--compute", type}), fp8) << type;
}

TEST(Forgiving, AnArchitectureGivenTwiceIsOne) {
    CliBench autotune;
    autotune({"compile", "--op", "hgemm", "--shape", "64x64x64", "--arch", "sm_80,SM80,sm_90a"});
    EXPECT_THAT(autotune.services.compiled_archs, ElementsAre("sm_80", "sm_90a"));
}

TEST(Forgiving, AWarmOfWhatNoFamilyCanDoIsExit4) {
    CliBench autotune;
    const Said said = autotune({"warm", "--op", "fp8gemm", "--shape", "64x64x64", "--arch", "sm_80"});
    EXPECT_EQ(said.code, ExitCode::no_valid_config) << said.err;
    EXPECT_THAT(said.err, AllOf(HasSubstr("no family can do"), Not(HasSubstr("internal error"))));
}

struct Slip {
    std::vector<std::string> words;
    std::string said;
};

TEST(Forgiving, EachSlipGetsItsRemedy) {
    const std::vector<std::string> problem = {"--op", "hgemm", "--shape", "64x64x64"};
    const auto with = [&](std::vector<std::string> more, const char* command = "tune") {
        more.insert(more.begin(), problem.begin(), problem.end());
        more.insert(more.begin(), command);
        return more;
    };
    const std::vector<Slip> slips = {
        {{"--op", "hgemm", "--shape", "64,64,64"}, "shape '64,64,64': put x between extents: 64x64x64"},
        {{"--op", "hgemm", "--shape", "64 64 64"}, "shape '64 64 64': put x between extents: 64x64x64"},
        {{"--op", "hgemm", "--shape", "64*64*64"}, "shape '64*64*64': put x between extents: 64x64x64"},
        {{"--op", "hgemm", "--shape", "64,64"}, "shape '64,64': put x between extents: MxNxK"},
        {{"sweep", "--op", "hgemm", "--shapes", "64,64,64"}, "put x between extents: 64x64x64"},
        {{"--op", "softmax", "--shape", "64,64"}, "shape '64,64': put x between extents: 64x64"},
        {{"--op", "attention", "--shape", "2,8,64,64"}, "put x between extents: 2x8x64x64"},
        {{"--op", "hgemm", "--shape", "4,096x64x64"}, "M is '096'; write it without a 0 in front, and 4096 without a comma"},
        {{"--op", "hgemm", "--shape", "64"}, "shape '64' has 1 extent; MxNxK has 3"},
        {{"--op", "hgem", "--shape", "1x1x1"}, "unknown op 'hgem' (did you mean hgemm?)"},
        {{"--op", "atention", "--shape", "1x1x1"}, "(did you mean attention?)"},
        {{"tuen"}, "unknown command 'tuen' (did you mean tune?)"},
        {{"hgemm", "--shape", "1x1x1"}, "'hgemm' is an operation and no command; write `autotune --op hgemm --shape ...`"},
        {{"--op", "hgemm", "64x64x64"}, "'64x64x64' is not expected here (did you mean --shape 64x64x64?)"},
        {with({"--budgte", "3s"}), "unknown flag '--budgte' (did you mean --budget?)"},
        {with({"--family", "mmma"}), "unknown family 'mmma' (did you mean mma?)"},
        {with({"--family", "gemm/wgma"}), "(did you mean gemm/wgmma?)"},
        {with({"--param", std::string("math_") + "groups=2"}), "is called 'consumer_warpgroups' now"},
        {with({"--param", "blockm=64"}), "unknown parameter 'blockm' (did you mean block_m?)"},
        {with({"--param", "block_m=64", "--param", "block_m=128"}), "--param sets block_m to 64 and to 128; give one value"},
        {with({"--config", "wmma_m16n16k16_naiv"}), "(did you mean wmma_m16n16k16_naive?)"},
        {with({"--strategy", "randm"}), "not 'randm' (did you mean random?)"},
        {with({"--arch", "sm_90"}), "not 'sm_90' (did you mean sm_90a?)"},
        {with({"--layuot", "nt"}), "(did you mean --layout?)"},
        {with({"--dtype", "bfloat61"}), "unknown dtype 'bfloat61'; allowed are f16, bf16"},
        {with({"--compute", "tf32x"}), "unknown compute 'tf32x' (did you mean tf32x3?)"},
        {with({"--dtype", "f17"}), "unknown dtype 'f17'; allowed are f16, bf16"},
        {with({"--budget", "fast"}), "--budget (30s, 5m, 200t or 30s,200t) wants a number > 0, not 'fast'"},
        {with({"--budget", "3t", "--trials", "5"}), "--budget 3t and --trials both count trials; give one"},
        {with({"--budget", "1e300"}), "is at most 1000 days"},
        {with({"--budget="}), "--budget is empty; give TIME"},
        {with({"--retune=no"}), "--retune takes no value, and has 'no'"},
        {with({"-budget", "3s"}), "unknown flag '-budget' (did you mean --budget?)"},
        {with({"--KEEP", "x"}), "unknown flag '--KEEP' (did you mean --keep?)"},
        {{"--OP", "hgemm", "--shape", "1x1x1"}, "unknown flag '--OP' (did you mean --op?)"},
        {with({"--budgte=3s"}), "unknown flag '--budgte' (did you mean --budget?)"},
        {{"--op", "hgemm", "--shape", "(64, 64, 64)"}, "put x between extents: 64x64x64"},
        {{"completion", "BASHH"}, "the shell of a completion is one of bash, zsh, not 'BASHH' (did you mean bash?)"},
        {{"--op=", "--shape=64x64x64"}, "--op is empty; give NAME"},
        {{"families", "--templates", "/etc"},
         "the templates folder '/etc' has no kernel template; give a folder laid out like kernel_templates"},
        {with({"--keep", ""}), "--keep is empty; give DIR"},
        {with({"--against", "cublass"}, "bench"), "not 'cublass' (did you mean cublas?)"},
        {with({"--against", "cublas,"}, "bench"), "--against has an empty item in 'cublas,'; separate by one comma"},
        {with({"--burst", "--warm", "2"}, "bench"), "--burst and --warm exclude each other; give one of them"},
        {with({"--candidate", "mma blok_m=64"}, "bench"), "(did you mean block_m?)"},
        {with({"--candidate", "mma block_m"}, "bench"), "--candidate wants name=value, not 'block_m'"},
        {{"families", "gemm/wgma"},
         "unknown family or operation 'gemm/wgma' (did you mean gemm/wgmma?); `autotune families` lists all"},
        {{"report", "--html", "same.html", "--plot", "same.html"}, "--html and --plot name the same file, same.html; give two"},
        {{"report", "--html", "/tmp/x.html", "--all", "--limit", "3"}, "--all and --limit exclude each other; give one of them"}};
    for (const bool has_driver : {true, false}) {
        for (const Slip& slip : slips) {
            CliBench autotune;
            autotune.services.has_driver = has_driver;
            const Said said = autotune(slip.words);
            EXPECT_EQ(said.code, ExitCode::usage) << slip.said << "\n" << said.err;
            EXPECT_THAT(said.err, HasSubstr(slip.said));
        }
    }
}

TEST(Forgiving, AFileGetsSuggestionsToo) {
    CliBench autotune;
    const std::string file = autotune.file("a.txt", "64x64x64 op=hgemm layuot=nt\n");
    EXPECT_THAT(autotune({"sweep", "--shapes", file}).err, HasSubstr("has no option 'layuot' (did you mean layout?)"));
    const std::string twice = autotune.file("b.txt", "64x64x64 op=hgemm layout=nt LAYOUT=nn\n");
    EXPECT_THAT(autotune({"sweep", "--dry-run", "--shapes", twice}).err, HasSubstr("b.txt:1: 'layout' is given twice"));
}

TEST(Forgiving, TwoLettersGetNoSuggestion) {
    CliBench autotune;
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"xy"},
                                               {"--op", "ab", "--shape", "1x1x1"},
                                               {"--op", "hgemm", "--shape", "1x1x1", "--family", "ma"},
                                               {"--op", "hgemm", "--shape", "1x1x1", "--layout", "nx"},
                                               {"--op", "hgemm", "--shape", "1x1x1", "--xx", "1"}}) {
        const Said said = autotune(words);
        EXPECT_EQ(said.code, ExitCode::usage);
        EXPECT_THAT(said.err, Not(HasSubstr("did you mean")));
    }
}

// Every flag of every command that has rules for its value gives the same refusal with and without a GPU, and touches nothing.
TEST(Forgiving, AValueThatAFlagCannotHaveIsRefusedBeforeAnythingElse) {
    std::size_t flags = 0;
    for (const Command& command : all_commands()) {
        for (const Flag& flag : command.flags) {
            if (!flag.check && flag.allowed.empty()) continue;
            ++flags;
            std::string messages[2];
            for (const bool has_driver : {false, true}) {
                CliBench autotune;
                autotune.services.has_driver = has_driver;
                bool touched = false;
                autotune.services.on_open = [&] { touched = true; };
                std::vector<std::string> words = {command.name, "--" + flag.name, "!never!"};
                if (command.min_positional > 0) words.emplace_back("word");
                const Said said = autotune(words);
                EXPECT_EQ(said.code, ExitCode::usage) << command.name << " --" << flag.name;
                EXPECT_THAT(said.err, AllOf(HasSubstr(flag.name), HasSubstr("!never!")));
                EXPECT_FALSE(touched) << command.name << " --" << flag.name;
                messages[has_driver ? 1 : 0] = said.err;
            }
            EXPECT_EQ(messages[0], messages[1]);
        }
    }
    EXPECT_GE(flags, 40u);
}

TEST(Forgiving, NoFlagTakesAnEmptyValue) {
    for (const Command& command : all_commands()) {
        for (const Flag& flag : command.flags) {
            if (flag.form.empty()) continue;
            CliBench autotune;
            std::vector<std::string> words = {command.name, "--" + flag.name, " "};
            if (command.min_positional > 0) words.emplace_back("word");
            const Said said = autotune(words);
            EXPECT_EQ(said.code, ExitCode::usage) << command.name << " --" << flag.name;
            EXPECT_THAT(said.err, HasSubstr("--" + flag.name + " is empty; give " + flag.form)) << command.name;
        }
    }
}

TEST(Forgiving, AnEmptyCommandIsToldTheCommands) {
    CliBench autotune;
    const Said said = autotune({""});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, HasSubstr("the command is empty; the commands are tune, sweep"));
}

// ---- help for one op ----

TEST(HelpOfAnOp, ShowsItsOptionsAndNoOthers) {
    CliBench autotune;
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"tune", "--op", "softmax", "--help"},
                                                                                       {"--op", "softmax", "--help"},
                                                                                       {"help", "tune", "--op", "softmax"},
                                                                                       {"--help", "--op", "softmax"},
                                                                                       {"tune", "--help", "--op", " SoftMax"}}) {
        const Said said = autotune(words);
        EXPECT_EQ(said.code, ExitCode::done) << said.err;
        EXPECT_THAT(said.out, AllOf(HasSubstr("options of softmax:\n"), HasSubstr("--ldx"), Not(HasSubstr("--kv-heads")),
                                    Not(HasSubstr("--layout")), HasSubstr("--op softmax --shape RxC")));
    }
}

TEST(HelpOfAnOp, SaysWhatAnAliasMeans) {
    CliBench autotune;
    EXPECT_THAT(autotune({"tune", "--op", "bgemm", "--help"}).out,
                AllOf(HasSubstr("bgemm is gemm with"), HasSubstr("dtype=bf16"), HasSubstr("autotune tune --op bgemm --shape ")));
}

TEST(HelpOfAnOp, AnUnknownOneIsToldTheOps) {
    CliBench autotune;
    const Said said = autotune({"tune", "--op", "hgem", "--help"});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, HasSubstr("not 'hgem' (did you mean hgemm?)"));
}

TEST(HelpOfAnOp, IsNamedInTheHelpOfTheCommand) {
    CliBench autotune;
    EXPECT_THAT(autotune({"tune", "--help"}).out, HasSubstr("`autotune --op NAME --help` shows the options of one operation."));
    EXPECT_THAT(autotune({"bench", "--help"}).out, HasSubstr("`autotune bench --op NAME --help` shows"));
}

// ---- families by name ----

std::vector<std::string> families_shown(const std::vector<std::string>& words) {
    CliBench autotune;
    std::vector<std::string> line = {"families", "--json", "--arch", "sm_90a"};
    line.insert(line.end(), words.begin(), words.end());
    const Said said = autotune(line);
    EXPECT_EQ(said.code, ExitCode::done) << said.err;
    std::vector<std::string> names;
    if (said.code != ExitCode::done) return names;
    const auto json = said.json();
    for (const auto& family : json["families"]) names.push_back(family["name"]);
    return names;
}

TEST(FamiliesByName, NeedNoOp) {
    EXPECT_THAT(families_shown({"gemm/mma"}), ElementsAre("gemm/mma"));
    EXPECT_THAT(families_shown({"add/vector", "Gemm/MMA"}), ElementsAre("add/vector", "gemm/mma"));
    EXPECT_THAT(families_shown({"--family", "gemm/simt"}), ElementsAre("gemm/simt"));
    EXPECT_THAT(families_shown({"--op", "hgemm", "simt"}), ElementsAre("gemm/simt"));
    EXPECT_EQ(families_shown({"hadd"}), families_shown({"--op", "hadd"}));
    EXPECT_THAT(families_shown({"wgmma"}), testing::Contains("attention/wgmma")) << "every op's family of that name";
    CliBench autotune;
    EXPECT_THAT(autotune({"families", "add/vector"}).out, AllOf(HasSubstr("add/vector"), Not(HasSubstr("--op hgemm"))));
}

}  // namespace
}  // namespace autotune::cli::forgiving_test
