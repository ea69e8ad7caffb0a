#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/embedded_catalogue.h"
#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::SizeIs;

// The words of an example in the help, with its output in the bench's folder.
std::vector<std::string> words_of_example(const CliBench& autotune, const std::string& example) {
    std::vector<std::string> words = split(example, ' ');
    words.erase(words.begin());  // the program's name
    for (std::size_t i = 1; i < words.size(); ++i) {
        if (words[i - 1] == "--out") words[i] = autotune.folder + "/" + words[i];
    }
    return words;
}

TEST(Record, TheExampleOfItsHelpIsASpaceThatIsSmallEnough) {
    CliBench autotune;
    const std::vector<std::string> words = words_of_example(autotune, record_command().examples.at(0));
    EXPECT_EQ(autotune(words).code, ExitCode::done);
    const tuner::RecordOptions& options = autotune.services.record_options;
    ASSERT_THAT(options.choice.families, SizeIs(1));
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({.op = "hgemm", .shape = "2048x2048x2048", .options = {}});
    for (const std::string& arch : known_archs()) {
        const SearchSpace space = catalogue.find_family(options.choice.families[0])->space(problem, *reference_device(arch));
        const std::size_t points = space.enumerate(options.choice.pins).size();
        EXPECT_GT(points, 100u) << arch;
        EXPECT_LE(points, options.most_points) << arch;
    }
}

TEST(Record, ARefusedOneLeavesNoFileAndAnExistingOneAsItIs) {
    CliBench autotune;
    const std::string out = autotune.folder + "/space.json";
    EXPECT_EQ(autotune({"record", "--op", "hgemm", "--shape", "64x64x64,32x32x32", "--out", out}).code, ExitCode::usage);
    EXPECT_FALSE(std::filesystem::exists(out));
    autotune.file("space.json", "kept");
    EXPECT_EQ(autotune({"record", "--op", "hgemm", "--shape", "64x64x64,32x32x32", "--out", out}).code, ExitCode::usage);
    EXPECT_EQ(text_of(out), "kept");
}

}  // namespace
}  // namespace autotune::cli
