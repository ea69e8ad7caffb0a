// Output besides the result: messages that are safe for a terminal, one JSON document, warnings, and pipes whose reader goes
// away.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "tests/tools/cli_bench.h"
#include "tools/cli/input/input_file.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/terminal/output_stream.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// During its lifetime no file may grow beyond 16 bytes, as on a full disk.
class FullDisk {
  public:
    FullDisk() : before_(::signal(SIGXFSZ, SIG_IGN)) {
        ::getrlimit(RLIMIT_FSIZE, &limit_);
        const rlimit small{16, limit_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &small);
    }
    ~FullDisk() {
        ::setrlimit(RLIMIT_FSIZE, &limit_);
        ::signal(SIGXFSZ, before_);
    }
    FullDisk(const FullDisk&) = delete;
    FullDisk& operator=(const FullDisk&) = delete;

  private:
    rlimit limit_{};
    void (*before_)(int);
};

const std::vector<std::string> kTuned = {"--op", "hgemm", "--shape", "512x512x512"};

// ---- messages ----

TEST(Printable, KeepsTextOfAnyLanguage) {
    EXPECT_EQ(printable("größe 尺寸 4096x4096 'a b'"), "größe 尺寸 4096x4096 'a b'");
}

TEST(Printable, EscapesWhatATerminalObeys) {
    EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
    EXPECT_EQ(printable("\x1b[2J\x7f"), "\\x1b[2J\\x7f");
    EXPECT_EQ(printable("\xc2\x9b"
                        "2J"),
              "\\xc2\\x9b2J")
        << "U+009B begins a control sequence as ESC [ does";
    EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
    EXPECT_EQ(printable("a\xff\xc3"), "a\\xff\\xc3");
    EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82") << "cut in the middle of a character";
}

TEST(Messages, ControlCharactersOfArgumentsNeverReachTheTerminal) {
    CliBench autotune;
    const std::string evil = "x\x1b]0;title\a\nautotune: all is well";
    const std::vector<std::vector<std::string>> lines = {{evil},
                                                         {"--op", evil, "--shape", "1x1x1"},
                                                         {"--op", "hgemm", "--shape", evil},
                                                         {"--op", "hgemm", "--shape", "1x1x1", "--" + evil},
                                                         {"show", "--db", autotune.folder + "/" + evil},
                                                         {"import", evil},
                                                         {"export", "--out", "/nonexistent/" + evil},
                                                         {"families", "--op", evil},
                                                         {"completion", evil},
                                                         {"sweep", "--op", "hgemm", "--shapes", evil}};
    for (const std::vector<std::string>& words : lines) {
        const Said said = autotune(words);
        EXPECT_THAT(said.err, AllOf(HasSubstr("\\x1b]0;title\\x07\\nautotune"), Not(HasSubstr("\x1b")))) << words.front();
        // An export first warns that there is no database yet.
        EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), words.front() == "export" ? 2 : 1) << said.err;
    }
}

TEST(Messages, FileNamesInResultsAreEscapedToo) {
    CliBench autotune;
    const std::string path = autotune.folder + "/a\x1b[2Jb";
    EXPECT_THAT(autotune({"export", "--out", path}).out, AllOf(HasSubstr("a\\x1b[2Jb"), Not(HasSubstr("\x1b"))));
    EXPECT_THAT(autotune({"import", path}).out, Not(HasSubstr("\x1b")));
    EXPECT_THAT(autotune({"doctor", "--db", path}).out, Not(HasSubstr("\x1b")));
}

TEST(Export, ThatCannotWriteLeavesTheFileBeforeWhole) {
    CliBench autotune;
    autotune(kTuned);
    const std::string path = autotune.file("rows.jsonl", "an earlier export");
    {
        const FullDisk full;
        const Said said = autotune({"export", "--out", path});
        EXPECT_EQ(said.code, ExitCode::error);
        EXPECT_EQ(said.err, "autotune: cannot write all of '" + path + "': File too large; what it held before is intact\n");
    }
    EXPECT_EQ(text_of(path), "an earlier export");
    EXPECT_EQ(autotune({"export", "--out", "/dev/full"}).err,
              "autotune: cannot write all of '/dev/full': No space left on device\n");
    EXPECT_EQ(autotune({"export", "--out", path}).code, ExitCode::done);
    EXPECT_THAT(text_of(path), HasSubstr("\"op\""));
}

TEST(Pages, OnAFullDiskDoNotCostThePageThatWasThere) {
    CliBench autotune;
    autotune(kTuned);
    const std::string path = autotune.file("page.html", "an earlier page");
    {
        const FullDisk full;
        const Said said = autotune({"report", "--html", path});
        EXPECT_EQ(said.code, ExitCode::usage);
        EXPECT_EQ(said.err, "autotune: cannot write '" + path +
                                "': File too large, what it held before is intact; choose another --html\n");
    }
    EXPECT_EQ(text_of(path), "an earlier page");
    EXPECT_EQ(autotune({"report", "--html", path}).code, ExitCode::done);
    EXPECT_NE(text_of(path), "an earlier page");
    ASSERT_EQ(::mkfifo((autotune.folder + "/pipe").c_str(), 0600), 0);
    EXPECT_EQ(autotune({"report", "--html", autotune.folder + "/pipe"}).err,
              "autotune: cannot write '" + autotune.folder + "/pipe': No such device or address; choose another --html\n");
}

// Names from files, databases or drivers are shown but not interpreted, in text and in JSON.
TEST(Printed, NamesFromOutsideNeverReachTheTerminalRaw) {
    CliBench autotune;
    autotune.services.space_name =
        "evil\x1b]0;title\a\x7f \xc2\x9b"
        "2J";
    const std::string text = autotune({"simulate", "space.json"}).out;
    EXPECT_THAT(text, AllOf(HasSubstr("evil\\x1b]0;title\\x07\\x7f \\xc2\\x9b2J: "), Not(HasSubstr("\x1b"))));
    const std::string json = autotune({"simulate", "space.json", "--json"}).out;
    EXPECT_THAT(json, AllOf(HasSubstr("evil\\u001b]0;title\\u0007\\u007f \\u009b2J"), Not(HasSubstr("\x7f"))));
    EXPECT_EQ(nlohmann::json::parse(json)["space"], autotune.services.space_name);
    const std::string csv = autotune({"simulate", "space.json", "--csv"}).out;
    EXPECT_THAT(csv, AllOf(HasSubstr("evil\\x1b]0;title\\x07"), Not(HasSubstr("\x1b"))));
}

TEST(Printed, LinesTabsAndBoldStay) {
    EXPECT_EQ(printable_lines("a\n\tb\x1b[1mc\x1b[0m\x1b[2Jd\r"), "a\n\tb\x1b[1mc\x1b[0m\\x1b[2Jd\\r");
    EXPECT_EQ(printable_json("\"\xc2\x9b\x7f\xc3\xa4\""), "\"\\u009b\\u007f\xc3\xa4\"");
    // The output is the same wherever the text is cut.
    const std::string text = "a\n\xe2\x82\xac \x1b[1mb\x1b[0m \x1b \xc2\x9b\xff \xf0\x9f\x98\x80";
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        const std::size_t whole = whole_characters(std::string_view(text).substr(0, cut));
        EXPECT_LE(cut - whole, 3U);
        EXPECT_EQ(printable_lines(text.substr(0, whole)) + printable_lines(text.substr(whole)), printable_lines(text)) << cut;
    }
}

// ---- JSON ----

TEST(Json, EveryCommandPrintsOneDocument) {
    CliBench autotune;
    autotune(kTuned);
    const std::string rows = autotune.file("rows.jsonl", autotune({"export"}).out);
    const std::vector<std::vector<std::string>> lines = {
        {"tune", "--op", "hgemm", "--shape", "8,16x8x8", "--dry-run"},
        {"sweep", "--op", "hgemm", "--shapes", "8,16x8x8"},
        {"sweep", "--op", "hgemm", "--shapes", "8,16x8x8", "--dry-run"},
        {"bench", "--op", "hgemm", "--shape", "8,16x8x8"},
        {"compile", "--op", "hgemm", "--shape", "8,16x8x8", "--arch", "sm_80,sm_90a"},
        {"compile", "--op", "hgemm", "--shape", "8,16x8x8", "--arch", "sm_80,sm_90a", "--dry-run"},
        {"explain", "--op", "hgemm", "--shape", "16,8x8x8", "--arch", "sm_80,sm_90a"},
        {"show"},
        {"show", "--misses"},
        {"show", "--verdicts"},
        {"verify"},
        {"verify", "--database-only"},
        {"export"},
        {"export", "--out", autotune.folder + "/out.jsonl"},
        {"import", rows, "--dry-run"},
        {"report", "--html", autotune.folder + "/page.html"},
        {"families", "--op", "add"},
        {"simulate", "a.json", "b.json"},
        {"doctor"},
        {"completion", "bash"},
        {"completion", "zsh"},
        {"manual"}};
    for (std::vector<std::string> words : lines) {
        words.push_back("--json");
        const Said said = autotune(words);
        EXPECT_TRUE(nlohmann::json::accept(said.out)) << testing::PrintToString(words) << "\n" << said.out << said.err;
    }
}

TEST(Json, VerifyOfTheDatabaseAloneSaysWhatItFound) {
    CliBench autotune;
    autotune(kTuned);
    const auto json = autotune({"verify", "--database-only", "--json"}).json();
    EXPECT_EQ(json["winners"], 1);
    EXPECT_EQ(json["unusable"], 0);
    EXPECT_TRUE(json["rows"].empty());
}

TEST(Json, ExportedRowsAreElements) {
    CliBench autotune;
    autotune({"--op", "hgemm", "--shape", "8,16x8x8"});
    const auto json = autotune({"export", "--json"}).json();
    ASSERT_THAT(json["winners"], SizeIs(2));
    EXPECT_EQ(json["winners"][0]["op"], "gemm");
    EXPECT_EQ(json["written"], 2);
}

TEST(Json, TheCompletionIsAMember) {
    CliBench autotune;
    EXPECT_EQ(autotune({"completion", "bash", "--json"}).json()["script"], autotune({"completion", "bash"}).out);
}

// ---- warnings ----

// A database to which other users may write.
std::string open_to_others(CliBench& autotune) {
    std::string path = autotune.folder + "/open.db";
    EXPECT_EQ(autotune({"--op", "hgemm", "--shape", "512x512x512", "--db", path}).code, ExitCode::done);
    chmod(path.c_str(), 0666);
    return path;
}

TEST(Warnings, OfADatabaseAreToldOnceByEveryCommandThatOpensIt) {
    CliBench autotune;
    const std::string path = open_to_others(autotune);
    const std::string rows = autotune.file("rows.jsonl", "");
    const std::string other = autotune.folder + "/other.db";
    autotune({"--op", "hgemm", "--shape", "8x8x8", "--db", other});
    const std::vector<std::vector<std::string>> lines = {{"tune", "--op", "hgemm", "--shape", "8,16x8x8"},
                                                         {"sweep", "--op", "hgemm", "--shapes", "8x8x8"},
                                                         {"bench", "--op", "hgemm", "--shape", "8x8x8"},
                                                         {"compile", "--op", "hgemm", "--shape", "8x8x8"},
                                                         {"explain", "--op", "hgemm", "--shape", "8x8x8"},
                                                         {"show"},
                                                         {"verify"},
                                                         {"verify", "--database-only"},
                                                         {"export"},
                                                         {"import", rows},
                                                         {"merge", other},
                                                         {"doctor"},
                                                         {"report", "--html", autotune.folder + "/r.html"}};
    for (std::vector<std::string> words : lines) {
        words.insert(words.end(), {"--db", path});
        const Said said = autotune(words);
        const auto first = said.err.find("warning: ");
        ASSERT_NE(first, std::string::npos) << words.front();
        EXPECT_THAT(said.err.substr(first), HasSubstr("open.db")) << words.front();
        EXPECT_EQ(said.err.find("warning: ", first + 1), std::string::npos) << words.front() << "\n" << said.err;
    }
}

TEST(Warnings, AreAMemberOfTheDocument) {
    CliBench autotune;
    const std::string path = open_to_others(autotune);
    const auto shown = autotune({"show", "--json", "--db", path}).json();
    ASSERT_THAT(shown["warnings"], SizeIs(1));
    EXPECT_THAT(shown["warnings"][0].get<std::string>(), HasSubstr("open.db"));
    const auto swept = autotune({"sweep", "--op", "hgemm", "--shapes", "8x8x8", "--json", "--db", path}).json();
    EXPECT_THAT(swept["warnings"], SizeIs(1));
    const auto tuned = autotune({"--op", "hgemm", "--shape", "8,16x8x8", "--json", "--db", path}).json();
    EXPECT_TRUE(tuned[0].contains("warnings"));
    EXPECT_FALSE(tuned[1].contains("warnings")) << "each once";
    chmod(path.c_str(), 0600);
    EXPECT_FALSE(autotune({"show", "--json", "--db", path}).json().contains("warnings")) << "nothing to warn of";
}

TEST(Warnings, AreToldBeforeTheErrorThatEndsTheRun) {
    CliBench autotune;
    const std::string path = open_to_others(autotune);
    autotune.services.on_tune = [](const Problem&) { throw Error(ErrorCode::no_valid_config, "nothing fits"); };
    const Said said = autotune({"--op", "hgemm", "--shape", "8x8x8", "--db", path});
    EXPECT_LT(said.err.find("warning: "), said.err.find("nothing fits")) << said.err;
}

// ---- pipes and files ----

struct Pipe {
    Pipe() { EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0); }
    ~Pipe() {
        close(ends[0]);
        close(ends[1]);
    }
    std::array<int, 2> ends{};
};

TEST(Output, AReaderThatLeftIsToldFromADiskThatIsFull) {
    signal(SIGPIPE, SIG_IGN);
    Pipe pipe;
    close(std::exchange(pipe.ends[0], -1));
    OutputBuffer left(pipe.ends[1]);
    std::ostream out(&left);
    out << "text" << std::flush;
    EXPECT_EQ(left.failure(), EPIPE);

    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    OutputBuffer buffer(full);
    std::ostream(&buffer) << "text" << std::flush;
    EXPECT_EQ(buffer.failure(), ENOSPC);
    close(full);
}

TEST(Output, EveryByteIsWrittenWhateverTheSizes) {
    Pipe pipe;
    std::string text;
    for (int i = 0; i < 30'000; ++i) text += std::to_string(i) + "\n";
    std::string got;
    std::thread reader([&] {
        std::array<char, 4096> chunk{};
        for (ssize_t n = 0; (n = read(pipe.ends[0], chunk.data(), chunk.size())) > 0;)
            got.append(chunk.data(), static_cast<std::size_t>(n));
    });
    {
        OutputBuffer buffer(pipe.ends[1]);
        std::ostream out(&buffer);
        out << text.substr(0, 70'000) << 'x' << text.substr(70'000);
    }
    close(std::exchange(pipe.ends[1], -1));
    reader.join();
    EXPECT_EQ(got, text.substr(0, 70'000) + 'x' + text.substr(70'000));
}

// Runs the command with a standard output without a reader.
Said without_reader(CliBench& autotune, const std::vector<std::string>& words) {
    signal(SIGPIPE, SIG_IGN);
    Pipe pipe;
    close(std::exchange(pipe.ends[0], -1));
    OutputBuffer buffer(pipe.ends[1]);
    std::ostream out(&buffer);
    std::ostringstream err;
    Cli cli({.out = out, .err = err, .out_failure = [&buffer] { return buffer.failure(); }}, Environment(autotune.variables),
            autotune.services, {.binary = "", .version = "1", .shipped_folders = {}, .stop = &autotune.stop});
    const ExitCode code = cli.run(words);
    return {code, "", err.str()};
}

TEST(Output, WithoutAReaderTheCommandEndsQuietly) {
    CliBench autotune;
    autotune(kTuned);
    for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"show"},
                                                                                       {"show", "--json"},
                                                                                       {"export"},
                                                                                       {"export", "--json"},
                                                                                       {"families", "--op", "add"},
                                                                                       {"--help"},
                                                                                       {"completion", "bash"}}) {
        const Said said = without_reader(autotune, words);
        EXPECT_EQ(said.code, ExitCode::done) << words.front();
        EXPECT_EQ(said.err, "") << words.front();
    }
}

TEST(Output, WithoutAReaderNoMoreShapesAreTimed) {
    CliBench autotune;
    without_reader(autotune, {"bench", "--op", "hgemm", "--shape", "8,16,24x8x8", "--json"});
    EXPECT_THAT(autotune.services.benched, SizeIs(1));
}

TEST(Import, EndsAtALineThatHasNoEnd) {
    CliBench autotune;
    const Said said = autotune({"import", "/dev/zero"});
    EXPECT_EQ(said.code, ExitCode::some_failed);
    EXPECT_THAT(said.err, HasSubstr("16 MiB"));
}

TEST(Import, ADirectoryIsRefusedInOneSentence) {
    CliBench autotune;
    const Said said = autotune({"import", autotune.folder});
    EXPECT_EQ(said.code, ExitCode::usage);
    EXPECT_THAT(said.err, AllOf(HasSubstr("Is a directory"), HasSubstr("export")));
}

TEST(Import, AStopKeepsTheRowsTakenSoFar) {
    CliBench here, there;
    here({"--op", "hgemm", "--shape", "8,16,24x8x8"});
    const std::string path = there.file("rows.jsonl", here({"export"}).out);
    there.stop = true;
    const Said said = there({"import", path});
    EXPECT_EQ(said.code, ExitCode::interrupted);
    EXPECT_THAT(said.err, HasSubstr("taken so far"));
    there.stop = false;
    EXPECT_EQ(there({"import", path}).code, ExitCode::done);
    EXPECT_EQ(there({"show", "--json"}).json()["total"], 3);
}

TEST(Merge, AStopEndsIt) {
    CliBench here, there;
    here({"--op", "hgemm", "--shape", "8,16x8x8", "--db", here.folder + "/here.db"});
    there.stop = true;
    EXPECT_EQ(there({"merge", here.folder + "/here.db"}).code, ExitCode::interrupted);
}

TEST(InputFile, AStopEndsAWaitForAPipeThatNobodyWritesTo) {
    CliBench autotune;
    const std::string path = autotune.folder + "/pipe";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    std::atomic<bool> stop{false};
    InputFile buffer(path, [&stop] { return stop.load(); });
    std::thread stopper([&stop] {
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        stop = true;
    });
    std::istream in(&buffer);
    std::string line;
    EXPECT_FALSE(std::getline(in, line));
    stopper.join();
}

}  // namespace
}  // namespace autotune::cli
