#include "tools/cli/input/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/core/error.h"
#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Shapes, APlainShapeIsPassedOnAsWritten) {
    EXPECT_THAT(expand_shapes("4096x4096x2048", 3), ElementsAre("4096x4096x2048"));
    EXPECT_THAT(expand_shapes("-1x..", 3), ElementsAre("-1x.."));
    EXPECT_THAT(expand_shapes("", 3), ElementsAre(""));
}

TEST(Shapes, ARangeIncludesItsStop) {
    EXPECT_THAT(expand_shapes("1024:3072:1024x8x16", 3), ElementsAre("1024x8x16", "2048x8x16", "3072x8x16"));
}

TEST(Shapes, ARangeStopsBeforeAStopThatNoStepReaches) {
    EXPECT_THAT(expand_shapes("1:6:2x1x1", 3), ElementsAre("1x1x1", "3x1x1", "5x1x1"));
}

TEST(Shapes, ListsAndRangesMultiplyWithTheLastExtentFastest) {
    EXPECT_THAT(expand_shapes("8,16x4x2:4:2", 3), ElementsAre("8x4x2", "8x4x4", "16x4x2", "16x4x4"));
}

TEST(Shapes, AListInTheMiddleIsNotAListOfShapes) {
    EXPECT_THAT(expand_shapes("512x1024,2048x512", 3), ElementsAre("512x1024x512", "512x2048x512"));
}

TEST(Shapes, WholeShapesMayBeJoinedByCommas) {
    EXPECT_THAT(expand_shapes("1x2x3,4x5x6", 3), ElementsAre("1x2x3", "4x5x6"));
}

TEST(Shapes, ABatchInFrontMayBeARangeToo) {
    EXPECT_THAT(expand_shapes("1,2*8x8x8", 3), ElementsAre("1*8x8x8", "2*8x8x8"));
}

TEST(Shapes, MoreThanTheLimitIsRefused) {
    EXPECT_THAT([] { expand_shapes("1:1000:1x1:1000:1x1:1000:1", 3); }, ThrowsMessage<Error>(HasSubstr("100000")));
}

TEST(Shapes, ALineHasAShapeAndWords) {
    const auto lines = parse_shapes_text("# all of them\n\n4096x4096x2048 op=hgemm layout=nt # big\n  8x8x8\n", "f");
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines[0].shape, "4096x4096x2048");
    EXPECT_THAT(lines[0].options, ElementsAre(std::pair("layout", "nt"), std::pair("op", "hgemm")));
    EXPECT_EQ(lines[1].shape, "8x8x8");
    EXPECT_EQ(lines[1].where, "f:4");
}

TEST(Shapes, ALineWithWindowsEndReadsTheSame) {
    EXPECT_EQ(parse_shapes_text("8x8x8\r\n", "f").at(0).shape, "8x8x8");
}

TEST(Shapes, ABadLineIsNamedByFileAndNumber) {
    EXPECT_THAT([] { parse_shapes_text("8x8x8\n8x8x8 fast\n", "list.txt"); },
                ThrowsMessage<Error>(HasSubstr("list.txt:2: 'fast'")));
    EXPECT_THAT([] { parse_shapes_text("layout=nt\n", "list.txt"); }, ThrowsMessage<Error>(HasSubstr("list.txt:1")));
    EXPECT_THAT([] { parse_shapes_text("8x8x8 a=1 a=2\n", "list.txt"); }, ThrowsMessage<Error>(HasSubstr("'a' is given twice")));
}

TEST(Shapes, TomlProblemsInheritTopLevelWords) {
    const auto lines = parse_shapes_toml(
        "op = \"hgemm\"\n[[problem]]\nshape = \"8x8x8\"\nbatch = 4\n[[problem]]\nshape = \"1x1x1\"\nop = \"bgemm\"\n", "f.toml");
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_THAT(lines[0].options, ElementsAre(std::pair("batch", "4"), std::pair("op", "hgemm")));
    EXPECT_THAT(lines[1].options, ElementsAre(std::pair("op", "bgemm")));
}

TEST(Shapes, BadTomlIsNamedByFileAndLine) {
    EXPECT_THAT([] { parse_shapes_toml("[[problem]]\nshape = \n", "f.toml"); }, ThrowsMessage<Error>(HasSubstr("f.toml:2")));
    EXPECT_THAT([] { parse_shapes_toml("op = \"hgemm\"\n", "f.toml"); }, ThrowsMessage<Error>(HasSubstr("[[problem]]")));
    EXPECT_THAT([] { parse_shapes_toml("[[problem]]\nlayout = \"nt\"\n", "f.toml"); },
                ThrowsMessage<Error>(HasSubstr("no shape")));
}

// The examples that ship name what their comments say, and both forms are read by the command.
TEST(Shapes, TheExamplesThatShipAreReadAsTheirCommentsSay) {
    const std::string folder = AUTOTUNE_TEST_DATA "/../../examples/shapes/";
    const auto text = read_shapes_file(folder + "set.txt");
    ASSERT_EQ(text.size(), 4u);
    EXPECT_THAT(expand_shapes(text[2].shape, 3), testing::SizeIs(8));
    const auto toml = read_shapes_file(folder + "set.toml");
    ASSERT_EQ(toml.size(), 3u);
    EXPECT_THAT(toml[0].options, ElementsAre(std::pair("layout", "nt"), std::pair("op", "bgemm")));
    EXPECT_THAT(expand_shapes(toml[1].shape, 3), testing::SizeIs(4));
    EXPECT_THAT(toml[2].options, ElementsAre(std::pair("batch", "16"), std::pair("layout", "nn"), std::pair("op", "hgemm")));
}

TEST(Shapes, EveryProblemOfTheExamplesIsOneOfItsOp) {
    CliBench autotune;
    for (const auto& [file, count] : {std::pair("set.txt", 11u), std::pair("set.toml", 6u)}) {
        const std::string path = AUTOTUNE_TEST_DATA "/../../examples/shapes/" + std::string(file);
        const Said said = autotune({"sweep", "--shapes", path, "--dry-run", "--json"});
        ASSERT_EQ(said.code, ExitCode::done) << said.err;
        EXPECT_THAT(said.json()["problems"], testing::SizeIs(count)) << file;
    }
}

TEST(Shapes, HelpAndManualShowBothFormsAndTheirExampleIsRead) {
    CliBench autotune;
    for (const char* command : {"sweep", "bench", "show"})
        EXPECT_THAT(autotune({command, "--help"}).out, testing::AllOf(HasSubstr("[[problem]]"), HasSubstr("examples/shapes")))
            << command;
    EXPECT_THAT(autotune({"doctor", "--help"}).out, testing::Not(HasSubstr("[[problem]]")));
    EXPECT_THAT(autotune({"manual"}).out, HasSubstr("[[problem]]"));
}

}  // namespace
}  // namespace autotune::cli
