// The program with a shell and a terminal: signals, pipes and the width of a window.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/fake/fake_run.h"

namespace autotune::terminal_fake_test {
namespace {

using fake::Outcome;
using fake::RunOptions;
using fake::Sandbox;
using testing::HasSubstr;
using testing::Not;

constexpr double kPatience_s = 110;

RunOptions patient(int terminal_columns = 0) {
    RunOptions options;
    options.timeout_s = kPatience_s;
    options.terminal_columns = terminal_columns;
    return options;
}

void pause_ms(int time_ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(time_ms));
}

// ---- signals ----

// Waits until the process blocks in a read or write: by then it has set up its signals.
void wait_until_it_sleeps(pid_t pid) {
    for (int quiet = 0, i = 0; quiet < 5 && i < 1000; ++i) {
        std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
        const std::string text((std::istreambuf_iterator<char>(stat)), {});
        const std::size_t name_end = text.rfind(')');
        quiet = name_end != std::string::npos && text.compare(name_end, 3, ") S") == 0 ? quiet + 1 : 0;
        pause_ms(20);
    }
}

TEST(Signals, TheFirstOneEndsACommandThatHasNothingToSave) {
    Sandbox machine;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        fake::Running running = machine.start_autotune({"families", "--json"}, patient());  // more than fits into a pipe
        wait_until_it_sleeps(running.pid());
        running.signal(signal);
        pause_ms(200);
        const Outcome ended = running.wait();
        EXPECT_EQ(ended.signal, signal) << ended.err;
    }
}

TEST(Signals, TheFirstOneEndsAnImportThatWaits) {
    Sandbox machine;
    const std::string pipe = (machine.folder() / "rows").string();
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        fake::Running running = machine.start_autotune({"import", pipe}, patient());
        wait_until_it_sleeps(running.pid());
        running.signal(signal);
        const Outcome ended = running.wait();
        EXPECT_EQ(ended.exit_code, 130) << ended.err;
        EXPECT_EQ(ended.signal, 0) << "it saves and returns";
        EXPECT_LT(ended.wall_s, 60);
        EXPECT_THAT(ended.err, HasSubstr("taken so far"));
    }
}

TEST(Signals, AnImportOfAFileWithoutAnEndEnds) {
    Sandbox machine;
    const Outcome ended = machine.autotune({"import", "/dev/zero"}, patient());
    EXPECT_EQ(ended.exit_code, 7) << ended.err;
    EXPECT_FALSE(ended.timed_out);
}

TEST(Signals, ALostTerminalSavesWhatATuneMeasured) {
    Sandbox machine("rule symbol=^gemm_simt from=3 do=hang seconds=0.2\n");
    fake::Running running = machine.start_autotune(
        {"--op", "hgemm", "--shape", "128x128x64", "--family", "gemm/simt", "--budget", "100s"}, patient());
    for (int i = 0; i < 1200 && machine.count_calls("execute gemm_simt") < 4; ++i) pause_ms(50);
    running.signal(SIGHUP);
    const Outcome ended = running.wait();
    EXPECT_EQ(ended.exit_code, 130) << ended.err;
    EXPECT_EQ(ended.signal, 0);
    EXPECT_THAT(ended.err, HasSubstr("run the same command again"));
}

// ---- pipes ----

Outcome in_a_shell(const Sandbox& machine, const std::string& line) {
    return machine.run({"/bin/bash", "-c", line, fake::autotune_binary()}, patient());
}

TEST(Pipes, AReaderThatLeavesIsNoError) {
    Sandbox machine;
    for (const std::string words : {"families", "families --json", "--help", "manual", "show", "export", "completion bash"}) {
        const Outcome said = in_a_shell(machine, "\"$0\" " + words + " | head -c 1 >/dev/null; echo ${PIPESTATUS[0]}; \"$0\" " +
                                                     words + " | true; echo ${PIPESTATUS[0]}");
        EXPECT_EQ(said.out, "0\n0\n") << words;
        EXPECT_THAT(said.err, Not(HasSubstr("autotune: "))) << words;
    }
    const Outcome full = in_a_shell(machine, "\"$0\" families >/dev/full");
    EXPECT_EQ(full.exit_code, 1);
    EXPECT_THAT(full.err, HasSubstr("No space left on device")) << "a full disk is an error";
}

TEST(Pipes, AClosedOutputIsAnErrorAndAClosedErrorStreamIsNone) {
    Sandbox machine;
    const Outcome out = in_a_shell(machine, "\"$0\" show >&-");
    EXPECT_EQ(out.exit_code, 1);
    EXPECT_THAT(out.err, HasSubstr("standard output cannot be written: Bad file descriptor"));
    EXPECT_EQ(in_a_shell(machine, "\"$0\" --op nosuch --shape 1x1x1 2>&-").exit_code, 2);
    EXPECT_EQ(in_a_shell(machine, "\"$0\" --version <&- 2>&-").out.substr(0, 9), "autotune ");
}

TEST(Pipes, TheSurroundingsOfAShellDoNotChangeWhatIsPrinted) {
    Sandbox machine;
    const std::string words = "\"$0\" --op HGEMM --shape 64X64X64 --layout NT --family SIMT --dry-run";
    const Outcome usual = in_a_shell(machine, words);
    EXPECT_EQ(usual.exit_code, 0) << usual.err;
    EXPECT_THAT(usual.out, HasSubstr("layout=nt"));
    for (const std::string setting :
         {"COLUMNS=20", "TERM=dumb", "TERM=", "LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8", "LC_ALL=C", "NO_COLOR=1"})
        EXPECT_EQ(in_a_shell(machine, setting + " " + words).out, usual.out) << setting;
}

// ---- the terminal ----

// Each text that overwrites the one before it. Lines that end with a newline stay.
std::vector<std::string> progress_lines(const std::string& text) {
    const std::string begin = "\r\x1b[K";
    std::vector<std::string> lines;
    for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
        const std::size_t from = at + begin.size();
        const std::size_t end = std::min(text.find('\r', from), text.size());
        if (end > from && text.compare(end, 2, "\r\n") != 0) lines.push_back(text.substr(from, end - from));
    }
    return lines;
}

std::size_t longest(const std::vector<std::string>& lines) {
    std::size_t length = 0;
    for (const std::string& line : lines) length = std::max(length, line.size());
    return length;
}

const std::vector<std::string> kSweep = {"sweep",    "--op",      "hgemm",    "--shapes", "16,32x32x32",
                                         "--family", "gemm/simt", "--trials", "3"};

// A line as wide as the window would wrap, so that overwriting it would leave another line each time.
TEST(Terminal, ProgressIsNarrowerThanTheWindow) {
    for (const int columns : {80, 40, 20}) {
        Sandbox machine;
        const Outcome swept = machine.autotune(kSweep, patient(columns));
        ASSERT_EQ(swept.exit_code, 0) << swept.err;
        const std::vector<std::string> lines = progress_lines(swept.err);
        ASSERT_GT(lines.size(), 2u) << swept.err;
        EXPECT_LT(longest(lines), static_cast<std::size_t>(columns)) << swept.err;
        EXPECT_THAT(swept.err, HasSubstr("1/2"));
    }
}

TEST(Terminal, ProgressFollowsTheWindowAsItIsResized) {
    Sandbox machine;
    std::vector<std::string> sweep = kSweep;
    sweep[4] = "16,32,48,64x32x32";
    fake::Running running = machine.start_autotune(sweep, patient(20));
    for (int i = 0; i < 1200 && machine.count_calls("execute gemm_simt") < 4; ++i) pause_ms(20);
    running.resize_terminal(100);
    const Outcome swept = running.wait();
    ASSERT_EQ(swept.exit_code, 0) << swept.err;
    const std::vector<std::string> lines = progress_lines(swept.err);
    ASSERT_GT(lines.size(), 4u) << swept.err;
    EXPECT_LT(lines.front().size(), 20u) << swept.err;
    EXPECT_GE(longest(lines), 20u) << "what was written after the window became wide";
    EXPECT_LT(longest(lines), 100u);
}

TEST(Terminal, ACompileSaysHowManyOfHowManyAndHowLong) {
    Sandbox machine;
    const Outcome said =
        machine.autotune({"compile", "--op", "hgemm", "--shape", "256x256x256", "--arch", "sm_80", "--count", "3"}, patient(100));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_THAT(said.err, HasSubstr("compiled 0 of 3, "));
}

// ---- a database that cannot be written ----

TEST(Product, AWinnerThatCannotBeStoredIsPrintedAndImportedLater) {
    Sandbox machine;
    const std::string database = (machine.folder() / "winners.db").string();
    const std::vector<std::string> tune = {"--op",  "hgemm",  "--family", "gemm/simt", "--budget",
                                           "4s,4t", "--json", "--db",     database,    "--shape"};
    const auto tuned = [&](const char* shape) {
        std::vector<std::string> words = tune;
        words.emplace_back(shape);
        return machine.autotune(words, patient());
    };
    ASSERT_EQ(tuned("64x64x32").exit_code, 0);
    std::fstream file(database, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(18).put('\3').flush();  // SQLite reads this format but does not write it.
    const Outcome said = tuned("32x64x32");
    EXPECT_EQ(said.exit_code, 5) << said.err;
    const nlohmann::json answer = nlohmann::json::parse(said.out);
    EXPECT_EQ(answer["stored"], false);
    EXPECT_GT(answer["winner"]["median_us"].get<double>(), 0);
    EXPECT_THAT(said.err, HasSubstr("autotune import"));
    const Outcome known = tuned("64x64x32");
    EXPECT_EQ(known.exit_code, 0) << known.err;
    EXPECT_EQ(nlohmann::json::parse(known.out)["tuned"], false);
    file.seekp(18).put('\1').flush();
    const Outcome taken = machine.autotune({"import", answer["import_file"], "--db", database}, patient());
    EXPECT_EQ(taken.exit_code, 0) << taken.err;
    EXPECT_EQ(nlohmann::json::parse(tuned("32x64x32").out)["tuned"], false);
}

}  // namespace
}  // namespace autotune::terminal_fake_test
