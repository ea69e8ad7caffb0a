// `autotune fleet` and `autotune sync` without a server: arguments, messages, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/catalogue/sha256.h"
#include "src/dispatch/stored/label_file.h"
#include "tests/tools/cli_bench.h"

namespace autotune::cli::fleet_command_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

const std::string kNoStore = "no store is named; give --store postgresql://HOST/DATABASE, or set AUTOTUNE_STORE";
const std::string kNowhere = "host=/nonexistent dbname=fleet";

Said fleet(CliBench& autotune, std::vector<std::string> words) {
    words.insert(words.begin(), "fleet");
    return autotune(words);
}

TEST(FleetCommand, RefusesWhatCannotBeMeantBeforeItConnects) {
    CliBench autotune;
    autotune.variables["AUTOTUNE_STORE"] = kNowhere;
    const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
        {{},
         "autotune fleet wants migrate|doctor|want|freeze|publish|withdraw|retry|list ...; `autotune fleet --help` shows how"},
        {{"freze"},
         "what `autotune fleet` does is one of migrate, doctor, want, freeze, publish, withdraw, retry, list, not 'freze'"},
        {{"freeze"}, "autotune fleet freeze wants the label's name, such as 2026-12-01; `autotune fleet --help` shows how"},
        {{"freeze", "../x"}, "'../x' is no name of a label or channel: small letters, digits, '.', '_' and '-', at most 64"},
        {{"freeze", "A"}, "'A' is no name of a label or channel"},
        {{"freeze", "a", "b"}, "'b' is not expected here; `autotune fleet --help` shows how"},
        {{"publish", "prod"}, "autotune fleet publish wants a channel and a label, such as prod 2026-12-01"},
        {{"publish", "prod", "a b"}, "'a b' is no name of a label or channel"},
        {{"publish", "'; DROP", "a"}, "''; DROP' is no name of a label or channel"},
        {{"publish", "prod", "a", "b"}, "'b' is not expected here"},
        {{"withdraw"}, "autotune fleet withdraw wants numbers of results, as `autotune fleet list winners` shows them"},
        {{"withdraw", "7"}, "say with --note why the result is withdrawn; it is kept with it"},
        {{"withdraw", "7", "seven", "--note", "x"}, "the result wants an integer >= 1, not 'seven'"},
        {{"withdraw", "0", "--note", "x"}, "the result wants an integer >= 1, not '0'"},
        {{"retry", "all"}, "'all' is not expected here"},
        {{"list", "things"},
         "what `autotune fleet list` lists is one of queue, failures, workers, winners, labels, channels, verdicts, not "
         "'things'"},
        {{"list", "queue", "x"}, "'x' is not expected here"},
        {{"migrate", "now"}, "'now' is not expected here"},
        {{"doctor", "now"}, "'now' is not expected here"},
        {{"want"}, "shape"},
        {{"want", "--op", "hadd", "--shape", "1x2x3x4"}, "1x2x3x4"},
        {{"doctor", "--store"}, "--store"},
    };
    for (const auto& [words, message] : wrong) {
        const Said said = fleet(autotune, words);
        EXPECT_EQ(said.code, ExitCode::usage) << testing::PrintToString(words) << said.err;
        EXPECT_THAT(said.err, HasSubstr(message));
        EXPECT_EQ(said.out, "");
    }
}

TEST(FleetCommand, NeedsAStore) {
    CliBench autotune;
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"migrate"},
                                               {"migrate", "--dry-run"},
                                               {"doctor"},
                                               {"want", "--op", "hadd", "--shape", "1024"},
                                               {"freeze", "a"},
                                               {"publish", "prod", "a"},
                                               {"withdraw", "7", "--note", "wrong"},
                                               {"retry"},
                                               {"list"}}) {
        const Said said = fleet(autotune, words);
        EXPECT_EQ(said.code, ExitCode::usage) << words.front();
        EXPECT_THAT(said.err, HasSubstr(kNoStore));
    }
}

TEST(FleetCommand, AStoreThatCannotBeReachedIsOneSentenceAndCodeFive) {
    CliBench autotune;
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"migrate"},
                                               {"doctor"},
                                               {"want", "--op", "hadd", "--shape", "1024"},
                                               {"freeze", "a"},
                                               {"publish", "prod", "a"},
                                               {"withdraw", "7", "--note", "wrong"},
                                               {"retry"},
                                               {"list", "winners", "--json"}}) {
        std::vector<std::string> all = words;
        all.insert(all.end(), {"--store", kNowhere});
        const Said said = fleet(autotune, all);
        EXPECT_THAT(said.err,
                    AnyOf(HasSubstr("the store cannot be reached: "), HasSubstr("the fleet needs PostgreSQL's client library")));
        EXPECT_THAT(said.code, AnyOf(ExitCode::database, ExitCode::error)) << words.front();
        EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
        EXPECT_EQ(said.out, "");
    }
}

TEST(FleetCommand, WantsProblemsForAKindOfGpu) {
    CliBench autotune;
    autotune.services.has_driver = false;
    Said said = fleet(autotune, {"want", "--op", "hadd", "--shape", "1024", "--store", kNowhere});
    EXPECT_EQ(said.code, ExitCode::no_gpu);
    EXPECT_THAT(said.err, HasSubstr("autotune fleet want is for a kind of GPU, named by --device-key"));
    said = fleet(autotune, {"want", "--op", "hadd", "--shape", "1024", "--device-key", "cc9.0-sm132-l2_60-mem144-bus6016",
                            "--store", kNowhere});
    EXPECT_THAT(said.code, AnyOf(ExitCode::database, ExitCode::error));
}

// ---- sync ----

TEST(SyncCommand, RefusesWhatCannotBeMeant) {
    CliBench autotune;
    const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
        {{"sync"}, kNoStore},
        {{"sync", "prod"}, "prod"},
        {{"sync", "--label", "../x"}, "'../x' is no name of a label or channel"},
        {{"sync", "--label", "../x", "--store", kNowhere}, "'../x' is no name of a label or channel"},
        {{"sync", "--from", "a.jsonl", "--store", kNowhere}, "--from takes a label from a file, and no store; leave out --store"},
        {{"sync", "--from", "a.jsonl", "--label", "A"}, "'A' is no name of a label or channel"},
    };
    for (const auto& [words, message] : wrong) {
        const Said said = autotune(words);
        EXPECT_EQ(said.code, ExitCode::usage) << testing::PrintToString(words);
        EXPECT_THAT(said.err, HasSubstr(message));
    }
}

TEST(SyncCommand, AStoreThatIsAwayChangesNothing) {
    CliBench autotune;
    const Said said = autotune({"sync", "--label", "prod", "--store", kNowhere});
    EXPECT_THAT(said.code, AnyOf(ExitCode::database, ExitCode::error));
    EXPECT_FALSE(std::filesystem::exists(autotune.folder + "/.local/share/autotune/fleet"));
}

TEST(SyncCommand, TakesALabelFromAFile) {
    CliBench autotune;
    const std::string lines =
        R"({"autotune_label":"verdict","problem":"z","device":"a card","rival":"torch","in_stream":2,"in_graphs":3,"date":"2026-11-23T18:51:56Z"})"
        "\n";
    const std::string file = autotune.file("one.jsonl", dispatch::label_text({"one", sha256_hex(lines), 1, lines}));
    Said said = autotune({"sync", "--from", file, "--label", "prod"});
    EXPECT_EQ(said.code, ExitCode::done) << said.err;
    const std::string folder = autotune.folder + "/.local/share/autotune/fleet/";
    EXPECT_EQ(said.out, "label one: 0 winners and 1 verdicts, new here, " + folder + "one.jsonl\n");
    EXPECT_EQ(std::filesystem::read_symlink(folder + "prod.jsonl"), "one.jsonl");
    EXPECT_THAT(autotune({"sync", "--from", file}).out, HasSubstr("here already"));
    // A program may name its label by a file, which is no name to sync.
    autotune.variables["AUTOTUNE_LABEL"] = file;
    EXPECT_THAT(autotune({"sync"}).err, HasSubstr(kNoStore));
    const nlohmann::json json = autotune({"sync", "--from", file, "--folder", autotune.folder + "/other", "--json"}).json();
    EXPECT_EQ(json["label"]["rows"], 0);
    EXPECT_EQ(json["label"]["verdicts"], 1);
    EXPECT_EQ(json["label"]["new"], true);
    for (const std::string& bad :
         {std::string(), std::string("{}\n"), dispatch::label_text({"one", sha256_hex(lines), 2, lines}),
          dispatch::label_text({"one", sha256_hex("x"), 1, lines}), dispatch::label_text({"one", sha256_hex("x\n"), 1, "x\n"})}) {
        said = autotune({"sync", "--from", autotune.file("bad.jsonl", bad)});
        EXPECT_EQ(said.code, ExitCode::database);
        EXPECT_THAT(said.err, AnyOf(HasSubstr("is not used: "), HasSubstr("is refused: line 1: "))) << bad;
    }
    EXPECT_THAT(autotune({"sync", "--from", autotune.folder + "/missing.jsonl"}).err, HasSubstr("No such file"));
}

}  // namespace
}  // namespace autotune::cli::fleet_command_test
