#include "tools/cli/input/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

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

// The shipped examples contain what their comments say, and the command reads both forms.
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

std::string refusal_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        return error.what();
    }
    return "";
}

TEST(ShapesFile, MayBeginWithAMark) {
    for (const char* mark : {"", "\xEF\xBB\xBF"}) {
        EXPECT_EQ(parse_shapes_text(mark + std::string("8x8x8\n"), "f.txt").at(0).shape, "8x8x8");
        EXPECT_EQ(parse_shapes_toml(mark + std::string("[[problem]]\nshape = \"8x8x8\"\n"), "f.toml").at(0).shape, "8x8x8");
    }
}

TEST(ShapesFile, ThatIsNoFileIsNamedAndNotWaitedFor) {
    std::string folder = (std::filesystem::temp_directory_path() / "autotune-shapes-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    const std::string remedy = "; give a file, or shapes such as 1024:4096:1024x4096x2048";
    ASSERT_EQ(::mkfifo((folder + "/pipe").c_str(), 0600), 0);
    EXPECT_EQ(refusal_of([&] { read_shapes_file(folder + "/pipe"); }),
              "cannot read the shapes file '" + folder + "/pipe': it is a pipe, not a regular file" + remedy);
    EXPECT_EQ(refusal_of([&] { read_shapes_file("/dev/zero"); }),
              "cannot read the shapes file '/dev/zero': it is a device, not a regular file" + remedy);
    EXPECT_EQ(refusal_of([&] { read_shapes_file(folder + "/none"); }),
              "cannot read the shapes file '" + folder + "/none': No such file or directory" + remedy);
    std::ofstream(folder + "/wide.txt") << "\xFF\xFE"
                                        << "8";
    EXPECT_EQ(refusal_of([&] { read_shapes_file(folder + "/wide.txt"); }),
              "the shapes file '" + folder + "/wide.txt' is text in UTF-16; save it as UTF-8");
    std::filesystem::remove_all(folder);
}

TEST(ShapesToml, AWordWithoutQuotesGetsThem) {
    EXPECT_EQ(refusal_of([] { parse_shapes_toml("[[problem]]\nshape = 4096x4096x2048  # large\n", "f.toml"); }),
              "f.toml:2: the value has to stand in quotes: shape = \"4096x4096x2048\"");
    EXPECT_EQ(refusal_of([] { parse_shapes_toml("layout = nt\n[[problem]]\nshape = \"1x1x1\"\n", "f.toml"); }),
              "f.toml:1: the value has to stand in quotes: layout = \"nt\"");
    EXPECT_EQ(refusal_of([] { parse_shapes_toml("[[problem]]\nshape = 1024:4096:1024x8x8\n", "f.toml"); }),
              "f.toml:2: the value has to stand in quotes: shape = \"1024:4096:1024x8x8\"");
}

// toml++ asserts if a table's header has a control character.
TEST(ShapesToml, ControlCharactersAreRefusedWithTheirLine) {
    for (const char letter : {'\x01', '\x1b', '\x7f', '\0'}) {
        for (const std::string before : {"[", "[[", "[[problem]]\n[a", "a = ", "a", "\"", "[\"", "# "}) {
            const std::string text = before + letter + "\n";
            EXPECT_THAT(refusal_of([&] { parse_shapes_toml(text, "f.toml"); }),
                        HasSubstr("there is a control character in the line"))
                << before;
        }
    }
    EXPECT_EQ(refusal_of([] { parse_shapes_toml("[[problem]]\n[\x01\n", "f.toml"); }),
              "f.toml:2: there is a control character in the line");
    EXPECT_EQ(parse_shapes_toml("[[problem]]\r\n\tshape = \"1x1x1\"\r\n", "f.toml").size(), 1U);
}

TEST(ShapesToml, NestingThatWouldTakeTheStackIsRefused) {
    std::string deep;
    for (int i = 0; i < 30'000; ++i) deep += "a.";
    EXPECT_EQ(refusal_of([&] { parse_shapes_toml(deep + "a = 1\n", "f.toml"); }), "f.toml:1: the line has more than 256 dots");
    EXPECT_EQ(refusal_of([&] { parse_shapes_toml("a = \"" + std::string(70'000, 'x') + "\"\n", "f.toml"); }),
              "f.toml:1: the line is longer than 64 KiB");
    const std::string most = deep.substr(0, 512);
    EXPECT_NE(refusal_of([&] { parse_shapes_toml("[" + most + "a]\n" + most + "a = 1\n", "f.toml"); }), "");
    EXPECT_NE(refusal_of([&] { parse_shapes_toml("a = " + std::string(10'000, '[') + "\n", "f.toml"); }), "");
}

// Any contents of a file give a sentence or a list of problems.
TEST(ShapesToml, AnyBytesAreASentence) {
    const std::string seed =
        "op = \"hgemm\"\n[[problem]]\nshape = \"8x8x8\"\nbatch = 4\nd = 1979-05-27T07:32:00Z\n[a.b]\nx = [1, 2]\n";
    const std::string letters = "[]{}=\"'.,#\n\t \\abc0123456789eE+-_:TZ\x01\x7f\xC2\x80\xFF";
    std::mt19937 random(7);
    for (int i = 0; i < 20'000; ++i) {
        std::string text = i % 2 == 0 ? seed : "";
        for (std::size_t changes = 1 + random() % 12; changes > 0; --changes) {
            const char letter = letters[random() % letters.size()];
            if (i % 2 == 0)
                text[random() % text.size()] = letter;
            else
                text += letter;
        }
        (void)refusal_of([&] { parse_shapes_toml(text, "f.toml"); });
        (void)refusal_of([&] { parse_shapes_text(text, "f.txt"); });
    }
}

TEST(Shapes, IntegersOfAFileAreNotCut) {
    const std::string where = "[[problem]]\nshape = \"8x8x8\"\nbatch = ";
    EXPECT_THAT(refusal_of([&] { parse_shapes_toml(where + "18446744073709551680\n", "f.toml"); }), HasSubstr("f.toml:3"));
    EXPECT_THAT(refusal_of([&] { parse_shapes_toml(where + "64.5\n", "f.toml"); }),
                HasSubstr("'batch' is neither a text nor an integer"));
    EXPECT_THAT(refusal_of([&] { parse_shapes_toml(where + "nan\n", "f.toml"); }),
                HasSubstr("'batch' is neither a text nor an integer"));
    EXPECT_THAT(refusal_of([&] { parse_shapes_toml(where + "1e300\n", "f.toml"); }), HasSubstr("neither a text nor an integer"));
}

}  // namespace
}  // namespace autotune::cli
