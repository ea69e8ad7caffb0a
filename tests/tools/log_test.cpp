#include "tools/cli/log.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/core/error.h"
#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

Arguments asking(const std::string& level, const std::string& file = "") {
    Arguments arguments;
    if (!level.empty()) arguments.add("log-level", level);
    if (!file.empty()) arguments.add("log-file", file);
    return arguments;
}

class TemporaryFile {
  public:
    TemporaryFile() : path_(testing::TempDir() + "/log." + std::to_string(::getpid())) { std::filesystem::remove(path_); }
    ~TemporaryFile() { std::filesystem::remove(path_); }
    const std::string& path() const { return path_; }
    std::vector<std::string> lines() const {
        std::ifstream in(path_);
        std::vector<std::string> all;
        for (std::string line; std::getline(in, line);) all.push_back(line);
        return all;
    }

  private:
    std::string path_;
};

TEST(Log, IsKeptOnlyWhereItIsAskedFor) {
    std::ostringstream err;
    EXPECT_EQ(open_log({}, err), nullptr);
    EXPECT_NE(open_log(asking("debug"), err), nullptr);
}

TEST(Log, WritesALineWithTimeLevelAndSource) {
    std::ostringstream err;
    open_log(asking("info"), err)->write(LogLevel::warn, "GPU worker 7", "lost its context");
    EXPECT_THAT(
        err.str(),
        MatchesRegex(
            "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z warning GPU worker 7: lost its context\n"));
}

TEST(Log, AnEntryIsOnePrintableLineWhateverItHolds) {
    std::ostringstream err;
    open_log(asking("info"), err)->write(LogLevel::error, "a\nb", "two\nlines \x1b[31m {} \xff");
    EXPECT_THAT(err.str(), HasSubstr("a\\nb: two\\nlines \\x1b[31m {} \\xff\n"));
    const std::string text = err.str();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

TEST(Log, LeavesOutWhatIsLessImportant) {
    std::ostringstream err;
    const auto log = open_log(asking("warn"), err);
    log_to(log.get(), LogLevel::info, "x", [] { return "not this"; });
    log_to(log.get(), LogLevel::warn, "x", [] { return "this"; });
    EXPECT_THAT(err.str(), HasSubstr(": this\n"));
    EXPECT_THAT(err.str(), Not(HasSubstr("not this")));
}

TEST(Log, DoesNotAskForATextThatNobodyReads) {
    bool asked = false;
    log_to(nullptr, LogLevel::error, "x", [&] {
        asked = true;
        return "";
    });
    EXPECT_FALSE(asked);
}

TEST(Log, AppendsToAFile) {
    TemporaryFile file;
    std::ostringstream err;
    open_log(asking("", file.path()), err)->write(LogLevel::info, "x", "first");
    open_log(asking("", file.path()), err)->write(LogLevel::info, "x", "second");
    ASSERT_EQ(file.lines().size(), 2u);
    EXPECT_THAT(file.lines()[0], HasSubstr("info    x: first"));
    EXPECT_THAT(file.lines()[1], HasSubstr("info    x: second"));
    EXPECT_EQ(err.str(), "");
}

TEST(Log, AMistakeIsTheUsers) {
    CliBench autotune;
    EXPECT_THAT(autotune({"families", "--log-level", "loud"}).err,
                AllOf(HasSubstr("--log-level"), HasSubstr("trace, debug, info, warn")));
    EXPECT_THAT(autotune({"families", "--log-file", "/nonexistent/folder/log"}).err, HasSubstr("--log-file"));
    EXPECT_FALSE(std::filesystem::exists("/nonexistent"));
}

TEST(Log, HoldsWhatIsSaidOnStandardError) {
    TemporaryFile file;
    CliBench autotune;
    const auto outcome = autotune({"tune", "--op", "nothing", "--shape", "1", "--log-file", file.path()});
    EXPECT_THAT(outcome.err, HasSubstr("autotune: "));
    ASSERT_GE(file.lines().size(), 2u);
    EXPECT_THAT(file.lines().front(), HasSubstr("command tune"));
    EXPECT_THAT(file.lines().back(), AllOf(HasSubstr(" error   autotune: "), HasSubstr("nothing")));
}

TEST(Log, ThatCannotBeWrittenIsSaidOnceAndCostsNothing) {
    CliBench autotune;
    const auto outcome = autotune({"doctor", "--log-level", "trace", "--log-file", "/dev/full"});
    EXPECT_EQ(outcome.code, ExitCode::done);
    const std::string begins = "warning: the log is not complete: ";
    ASSERT_THAT(outcome.err, testing::StartsWith(begins));
    EXPECT_EQ(outcome.err.find(begins, 1), std::string::npos) << outcome.err;
    ASSERT_EQ(::mkfifo((autotune.folder + "/pipe").c_str(), 0600), 0);
    EXPECT_EQ(autotune({"doctor", "--log-file", autotune.folder + "/pipe"}).err,
              "autotune: --log-file " + autotune.folder + "/pipe cannot be written: No such device or address\n");
}

}  // namespace
}  // namespace autotune::cli
