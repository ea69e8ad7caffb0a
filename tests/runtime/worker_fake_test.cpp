// `autotune worker` together with a program that uses the library.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "db/store/store.h"
#include "tests/runtime/fake_session.h"

extern char** environ;

namespace autotune::runtime::worker_fake_test {
namespace {

const fake::RunOptions kLooksOften{.timeout_s = 110, .environment = {{"AUTOTUNE_TEST_LOOK_MS", "50"}}};

bool comes_true(const std::function<bool()>& condition, double within_s = 60) {
    const auto begun = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begun < std::chrono::duration<double>(within_s)) {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return condition();
}

// The worker in a process of its own, which ends with this object.
class Worker {
  public:
    explicit Worker(std::vector<std::string> words) {
        said_ = std::string(std::getenv("XDG_DATA_HOME")) + "/worker.txt";
        words.insert(words.begin(), {fake::autotune_binary(), "worker"});
        std::vector<char*> argv;
        for (std::string& word : words) argv.push_back(word.data());
        argv.push_back(nullptr);
        posix_spawn_file_actions_t files;
        ::posix_spawn_file_actions_init(&files);
        ::posix_spawn_file_actions_addopen(&files, 1, said_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
        ::posix_spawn_file_actions_adddup2(&files, 1, 2);
        if (::posix_spawn(&pid_, argv[0], &files, nullptr, argv.data(), environ) != 0) pid_ = -1;
        ::posix_spawn_file_actions_destroy(&files);
    }
    ~Worker() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        wait();
    }
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    void terminate() const { ::kill(pid_, SIGTERM); }
    // Returns its exit code, or 128 + signal if a signal ended it.
    int wait() {
        int status = 0;
        ::waitpid(pid_, &status, 0);
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    std::string said() const {
        std::ostringstream text;
        text << std::ifstream(said_).rdbuf();
        return text.str();
    }

  private:
    pid_t pid_ = -1;
    std::string said_;
};

Options that_record() {
    Options options;
    options.record_misses = 1;
    return options;
}

autotune_gemm_problem product(int i) {
    autotune_gemm_problem problem = gemm(16 + 8 * (i % 6), 32 + 8 * (i / 6), 32);
    problem.beta = AUTOTUNE_BETA_ZERO;
    return problem;
}

void set_load(const std::string& words) {
    std::ofstream(std::string(std::getenv("AUTOTUNE_FAKE_SCRIPT")) + ".nvml") << words << "\n";
}

std::int64_t winners_of(const Session& session) {
    return db::Store::open({.path = session.database()}).count({});
}
void miss(const Session& session, int i, std::int64_t calls) {
    const autotune_gemm_problem at = product(i);
    const std::string shape = std::to_string(at.m) + "x" + std::to_string(at.n) + "x" + std::to_string(at.k);
    const Problem problem = session.catalogue.problem({"hgemm", shape, {{"beta", "zero"}}});
    const std::vector<db::Miss> misses{{problem, session.driver->device(0).identity, "default", calls}};
    db::Store::open({.path = session.database()}).record_misses(misses);
}

std::size_t trials_of_first(const Session& session) {
    const Problem problem = session.catalogue.problem({"hgemm", "16x32x32", {{"beta", "zero"}}});
    return db::Store::open({.path = session.database()}).trials(problem, session.driver->device(0).identity).size();
}

TEST(Worker, TunesWhatAProgramMissesAndTheProgramPicksItUp) {
    if (fake::autotune_binary().empty()) GTEST_SKIP() << "this build has no autotune command";
    const char* const number = std::getenv("AUTOTUNE_WORKER_PROBLEMS");
    const int problems = number == nullptr ? 8 : std::atoi(number);  // 30 in the soak
    fake_test({"", kLooksOften}, [&] {
        Session session;
        const Handle handle(that_record());
        std::vector<GemmData> data;
        for (int i = 0; i < problems; ++i) {
            data.emplace_back(session.driver, product(i));
            run_tuned(session, handle, product(i), data.back());
        }
        Worker worker({"--idle", "100ms", "--budget", "2s,1t", "--exit-when-idle", "2s"});
        const auto begun = std::chrono::steady_clock::now();
        int wrong = 0, picked_up = 0;
        const bool all_picked_up = comes_true(
            [&] {
                picked_up = 0;
                for (int i = 0; i < problems; ++i) {
                    run_tuned(session, handle, product(i), data[static_cast<std::size_t>(i)]);
                    picked_up += GemmPlan(handle, product(i)).origin() == AUTOTUNE_ORIGIN_EXACT ? 1 : 0;
                }
                return picked_up == problems;
            },
            90);
        std::printf("%.1f s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
        EXPECT_TRUE(all_picked_up) << picked_up << "\n" << worker.said();
        for (int i = 0; i < problems; ++i)
            wrong += wrong_when_tuned(handle, product(i), data[static_cast<std::size_t>(i)], session.stream);
        EXPECT_EQ(wrong, 0);
        EXPECT_EQ(worker.wait(), 0) << worker.said();
        EXPECT_THAT(worker.said(), HasSubstr(std::to_string(problems) + " tuned, 0 tuned before, 0 failed, 0 given back\n"));
    });
}

TEST(Worker, WaitsForAnIdleCardAndLeavesWhenOthersComeBack) {
    if (fake::autotune_binary().empty()) GTEST_SKIP() << "this build has no autotune command";
    fake_test({"nvrtc delay_ms=20\n", kLooksOften}, [&] {
        Session session;
        miss(session, 0, 5);
        set_load("utilisation=80 processes=1 busy_percent=80");
        Worker worker({"--idle", "300ms", "--budget", "20s,4000t"});
        std::this_thread::sleep_for(std::chrono::seconds(2));
        EXPECT_EQ(trials_of_first(session), 0U) << "a busy card is not touched";
        set_load("utilisation=0 processes=1 busy_percent=0 others_mib=40000");
        ASSERT_TRUE(comes_true([&] { return trials_of_first(session) > 2; })) << worker.said();
        set_load("utilisation=100 processes=1 busy_percent=50 others_mib=40000");
        EXPECT_TRUE(comes_true([&] { return worker.said().find("given back") != std::string::npos; }, 15)) << worker.said();
        set_load("utilisation=0");
        std::this_thread::sleep_for(std::chrono::seconds(1));
        worker.terminate();
        EXPECT_EQ(worker.wait(), 130) << worker.said();
    });
}

TEST(Worker, OnSigtermEndsItsItemAndTakesNoOther) {
    if (fake::autotune_binary().empty()) GTEST_SKIP() << "this build has no autotune command";
    fake_test({"", kLooksOften}, [&] {
        Session session;
        for (int i = 0; i < 20; ++i) miss(session, i, 20 - i);
        Worker worker({"--idle", "0", "--budget", "5s,2t"});
        ASSERT_TRUE(comes_true([&] { return winners_of(session) > 0; })) << worker.said();
        worker.terminate();
        EXPECT_EQ(worker.wait(), 130) << worker.said();
        EXPECT_LT(winners_of(session), 20);
        EXPECT_THAT(worker.said(), HasSubstr(" tuned, 0 tuned before, 0 failed, 0 given back\n"));
        EXPECT_THAT(worker.said(), HasSubstr("autotune: stopped; winners are kept, and problems that are left stay recorded\n"));
        const auto left = db::Store::open({.path = session.database()}).misses();
        EXPECT_EQ(static_cast<std::int64_t>(left.size()) + winners_of(session), 20);
        EXPECT_EQ(left.back().count, 1) << "the most called are tuned first";
    });
}

TEST(Worker, TriesAProblemThatFailedNotAgainWhenItIsStartedAgain) {
    if (fake::autotune_binary().empty()) GTEST_SKIP() << "this build has no autotune command";
    fake_test({"rule on=launch symbol=^gemm do=wrong how=zeros\n", kLooksOften}, [&] {
        Session session;
        miss(session, 0, 5);
        {
            Worker worker({"--idle", "0", "--budget", "5s,2t", "--exit-when-idle", "500ms"});
            EXPECT_EQ(worker.wait(), 7) << worker.said();
            EXPECT_THAT(worker.said(), HasSubstr("(5 calls): failed, to be tried again in a day"));
        }
        {
            Worker again({"--idle", "0", "--budget", "5s,2t", "--exit-when-idle", "500ms"});
            EXPECT_EQ(again.wait(), 0);
            EXPECT_THAT(again.said(), HasSubstr("0 tuned, 0 tuned before, 0 failed, 0 given back\n"));
        }
        miss(session, 1, 2);
        Worker third({"--idle", "0", "--budget", "5s,2t", "--exit-when-idle", "500ms", "--json"});
        EXPECT_EQ(third.wait(), 7);
        EXPECT_THAT(third.said(), HasSubstr("\"calls\":2,"));
        EXPECT_THAT(third.said(), HasSubstr("\"state\":\"failed\","));
        EXPECT_THAT(third.said(), HasSubstr("{\"summary\":{\"tuned\":0,\"fresh\":0,\"failed\":1,\"given_back\":0}}\n"));
    });
}

// This is the command line of the systemd unit, with a limit on its duration.
TEST(Worker, RunsByTheLineOfTheSystemdUnit) {
    if (fake::autotune_binary().empty()) GTEST_SKIP() << "this build has no autotune command";
    fake_test({"", kLooksOften}, [&] {
        Session session;
        std::ifstream unit(AUTOTUNE_FLEET_EXAMPLES "/autotune-worker.service");
        std::vector<std::string> words;
        const std::string key = "ExecStart=";
        for (std::string line; std::getline(unit, line);) {
            if (!line.starts_with(key)) continue;
            std::istringstream text(line.substr(key.size()));
            for (std::string word; text >> word;) words.push_back(word);
        }
        ASSERT_GT(words.size(), 1U);
        ASSERT_EQ(words[1], "worker");
        words.erase(words.begin(), words.begin() + 2);
        words.insert(words.end(), {"--exit-when-idle", "500ms"});
        Worker worker(words);
        EXPECT_EQ(worker.wait(), 0) << worker.said();
        EXPECT_EQ(worker.said(), "0 tuned, 0 tuned before, 0 failed, 0 given back\n");
    });
}

TEST(Worker, NeedsNvmlToSeeThatACardIsIdle) {
    if (fake::autotune_binary().empty()) GTEST_SKIP() << "this build has no autotune command";
    fake_test({"nvml init=9\n", kLooksOften}, [&] {
        Session session;
        {
            Worker worker({"--exit-when-idle", "200ms"});
            EXPECT_EQ(worker.wait(), 3);
            EXPECT_THAT(worker.said(),
                        HasSubstr("autotune: autotune worker sees by NVML whether a GPU is idle, and it cannot be used: "
                                  "nvmlInit returned 9; --idle 0 takes GPUs as they are\n"));
        }
        Worker worker({"--exit-when-idle", "200ms", "--idle", "0"});
        EXPECT_EQ(worker.wait(), 0) << worker.said();
    });
}

}  // namespace
}  // namespace autotune::runtime::worker_fake_test
