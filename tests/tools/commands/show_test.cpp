#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"
#include "tests/tools/commands/words_of_commands.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

TEST(Show, AnEmptyDatabaseIsNoError) {
    CliBench autotune;
    const Said said = autotune({"show"});
    EXPECT_EQ(said.code, ExitCode::done);
    EXPECT_THAT(said.out, HasSubstr("no winner yet"));
}

TEST(Show, JsonCountsAllAndShowsTheLimit) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "8,16,24x8x8"});
    const auto json = autotune({"show", "--json", "--limit", "2"}).json();
    EXPECT_EQ(json["total"], 3);
    EXPECT_EQ(json["shown"], 2);
    EXPECT_THAT(json["winners"], SizeIs(2));
}

TEST(Show, AShapeSelectsItsRow) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "8,16,24x8x8"});
    const auto json = autotune({"show", "--json", "--op", "hgemm", "--shape", "16x8x8"}).json();
    ASSERT_EQ(json["total"], 1);
    EXPECT_EQ(json["winners"][0]["shape"], "16x8x8");
}

TEST(Database, ANamedOneThatIsMissingIsExit5ForReaders) {
    CliBench autotune;
    const Said said = autotune({"show", "--db", autotune.folder + "/none.db"});
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.err, HasSubstr("none.db"));
}

TEST(Database, AForeignFileIsExit5AndIsNotTouched) {
    CliBench autotune;
    const std::string notes(200, 'n');
    const std::string path = autotune.file("notes.txt", notes);
    const Said said = autotune(on("", {"--db", path}));
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.err, HasSubstr("notes.txt"));
    EXPECT_EQ((std::ostringstream() << std::ifstream(path).rdbuf()).str(), notes);
    EXPECT_THAT(autotune.services.tuned, IsEmpty());
}

TEST(Database, AFolderThatCannotBeMadeIsExit5) {
    CliBench autotune;
    const std::string file = autotune.file("file", "in the way");
    const Said said = autotune(on("", {"--db", file + "/x.db"}));
    EXPECT_EQ(said.code, ExitCode::database);
    EXPECT_THAT(said.err, HasSubstr("x.db"));
}

TEST(Csv, ShowSweepAndSimulatePrintRowsWithTheNamesOfTheirJson) {
    CliBench autotune;
    autotune(on(""));
    EXPECT_THAT(autotune({"show", "--csv"}).out,
                AllOf(testing::StartsWith("op,class_key,shape,device.name,"), HasSubstr("512x512x512")));
    EXPECT_THAT(autotune({"sweep", "--op", "hgemm", "--shapes", "8x8x8", "--csv"}).out,
                AllOf(testing::StartsWith("problem.op,problem.shape,"), HasSubstr(",tuned,")));
    const std::string simulated = autotune({"simulate", "space.json", "--csv"}).out;
    EXPECT_THAT(simulated,
                AllOf(testing::StartsWith("space,name,runs,"), HasSubstr("median_evaluations_to_5pct"), Not(HasSubstr("curve"))));
}

}  // namespace
}  // namespace autotune::cli
