#include "tuner/worker/worker_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "src/core/error.h"
#include "tests/support/sanitizer.h"
#include "tuner/worker/protocol/worker_channel.h"

namespace autotune::tuner::worker_process_test {
namespace {

using std::chrono::milliseconds;

void wait_until_closed(WorkerProcess& process) {
    for (int i = 0; i < 500 && !process.closed(); ++i) {
        pollfd fd{process.read_fd(), POLLIN, 0};
        ::poll(&fd, 1, 20);
        process.receive();
    }
}

// The processes of the group that are alive. A dead grandchild stays in the table until its new parent waits for it.
int living_in_group(pid_t group) {
    int living = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream stat(entry.path() / "stat");
        std::string line;
        if (!std::getline(stat, line) || line.rfind(')') == std::string::npos) continue;
        std::istringstream fields(line.substr(line.rfind(')') + 1));
        char state = 0;
        pid_t parent = 0, of_group = 0;
        fields >> state >> parent >> of_group;
        if (of_group == group && state != 'Z' && state != 'X') ++living;
    }
    return living;
}

TEST(WorkerProcess, EchoesWhatItIsSent) {
    WorkerProcess echo("/bin/cat", {});
    Message message{{{"hello", 1}}, std::vector<std::byte>(300'000, std::byte{9})};  // more than fits into a pipe
    echo.send(message);
    std::vector<Message> got;
    for (int i = 0; i < 500 && got.empty(); ++i) {
        pollfd fds[2] = {{echo.read_fd(), POLLIN, 0}, {echo.write_fd(), POLLOUT, 0}};
        ::poll(fds, echo.wants_write() ? 2 : 1, 20);
        echo.flush();
        got = echo.receive();
    }
    ASSERT_EQ(got.size(), 1u);
    EXPECT_EQ(got[0].payload, message.payload);
}

TEST(WorkerProcess, TellsHowAProcessEnded) {
    WorkerProcess exits("/bin/sh", {"-c", "exit 7"});
    wait_until_closed(exits);
    EXPECT_EQ(exits.how_it_ended(), "exited with 7");
    WorkerProcess crashes("/bin/sh", {"-c", "kill -SEGV $$"});
    wait_until_closed(crashes);
    EXPECT_NE(crashes.how_it_ended().find("signal 11"), std::string::npos);
}

TEST(WorkerProcess, AStreamThatIsNotFramesClosesIt) {
    WorkerProcess chatter("/bin/sh", {"-c", "echo this is a line of text, not a frame; sleep 5"});
    wait_until_closed(chatter);
    EXPECT_TRUE(chatter.closed());
    EXPECT_EQ(chatter.how_it_ended(), "sent not a frame");
}

TEST(WorkerProcess, KillEndsItsWholeGroupEvenWhenPaused) {
    WorkerProcess sleeper("/bin/sh", {"-c", "sleep 60"});
    sleeper.pause();
    sleeper.kill();
    EXPECT_TRUE(sleeper.reap(milliseconds(2000)));
    const auto deadline = Clock::now() + std::chrono::seconds(10);
    while (living_in_group(sleeper.pid()) > 0 && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_EQ(living_in_group(sleeper.pid()), 0);
}

TEST(WorkerProcess, InheritsNoPipeOfAnotherWorker) {
    WorkerProcess other("/bin/cat", {});
    const std::string theirs = std::to_string(other.write_fd());
    WorkerProcess looks("/bin/sh", {"-c", "test -e /proc/$$/fd/" + theirs + " && exit 5; exit 4"});
    wait_until_closed(looks);
    EXPECT_EQ(looks.how_it_ended(), "exited with 4");
}

TEST(WorkerProcess, PreloadedLibrariesStayBehind) {
    ::setenv("AUTOTUNE_TEST_PASSES", "1", 1);
    ::setenv("SECRET_TEST_VARIABLE", "1", 1);
    WorkerProcess shows("/bin/sh",
                        {"-c", "test -n \"$AUTOTUNE_TEST_PASSES\" && test -z \"$SECRET_TEST_VARIABLE\" && exit 4; exit 5"});
    wait_until_closed(shows);
    EXPECT_EQ(shows.how_it_ended(), "exited with 4");
}

TEST(WorkerProcess, TheWholeEnvironmentIsPassedWhereAProfilerNeedsIt) {
    ::setenv("SECRET_TEST_VARIABLE", "1", 1);
    WorkerProcess shows("/bin/sh", {"-c", "test -n \"$SECRET_TEST_VARIABLE\" && exit 4; exit 5"},
                        WorkerProcess::Environment::whole);
    wait_until_closed(shows);
    EXPECT_EQ(shows.how_it_ended(), "exited with 4");
}

TEST(WorkerProcess, ABinaryThatIsNotThereIsAnError) {
    EXPECT_THROW(WorkerProcess("/nonexistent/autotune", {}), Error);
}

// Allocates many blocks of all sizes and frees all, as a compile does. Returns how many pages were faulted in.
long pages_of_a_compile() {
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    std::vector<std::vector<char>> blocks;
    for (std::size_t i = 0; i < 400; ++i) blocks.emplace_back((i % 40 + 1) * 4'000, 'x');
    blocks.clear();
    ::getrusage(RUSAGE_SELF, &after);
    return after.ru_minflt - before.ru_minflt;
}

TEST(CompilerProcess, KeepsWhatACompileFreesForTheNextOne) {
    if (test::kIsSanitized) GTEST_SKIP() << "the sanitizer's allocator keeps and returns memory by rules of its own";
    const pid_t child = ::fork();
    if (child == 0) {
        keep_freed_memory();
        const long first = pages_of_a_compile();
        ::_exit(pages_of_a_compile() * 10 < first ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace autotune::tuner::worker_process_test
