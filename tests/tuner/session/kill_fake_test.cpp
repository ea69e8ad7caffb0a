// F2: SIGKILL of the coordinator or of a worker at random moments of a tune on the scripted driver. Each time the database passes
// its checks, no process and no lock remains, and a continued run ends with the winner of an undisturbed tune.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "db/store/store.h"
#include "tests/tuner/session/fake_tune.h"

namespace autotune::kill_fake_test {
namespace {

using fake::Outcome;
using fake::Running;
using fake::Sandbox;
using test::Json;
using test::result_of;

// One config is clearly the fastest, so that there is one right winner.
const std::string kScript = "rule symbol=^gemm_simt_ block_m=64 thread_m=4 thread_n=8 do=slow factor=0.5\n";
const test::Words kTune = test::small_tune("2.5s", {"--strategy", "exhaustive", "--retune"});
constexpr int kKillsOfADatabase = 5;  // this many kills happen before the database is checked for its winner

// There are 20 kills in CI and 200 in the soak.
int kills_wanted() {
    const char* text = std::getenv("AUTOTUNE_KILLS");
    return text == nullptr ? 20 : std::atoi(text);
}

// The workers of this sandbox whose command line contains `kind`, which is "compile" or "gpu".
std::vector<pid_t> workers(const Sandbox& sandbox, const std::string& kind) {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream command(entry.path() / "cmdline", std::ios::binary);
        const std::string words((std::istreambuf_iterator<char>(command)), {});
        if (words.find("__worker") == std::string::npos || words.find(kind) == std::string::npos) continue;
        std::ifstream environment(entry.path() / "environ", std::ios::binary);
        const std::string text((std::istreambuf_iterator<char>(environment)), {});
        if (text.find(sandbox.folder().string()) != std::string::npos) found.push_back(std::stoi(entry.path().filename()));
    }
    return found;
}

bool locks_are_free(const Sandbox& sandbox) {
    const auto state = sandbox.folder() / "state/autotune";
    if (!std::filesystem::exists(state)) return true;
    bool free = true;
    for (const auto& entry : std::filesystem::directory_iterator(state)) {
        if (entry.path().extension() != ".lock") continue;
        const int file = ::open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
        free = free && ::flock(file, LOCK_EX | LOCK_NB) == 0;
        ::close(file);
    }
    return free;
}

void expect_sound(const Sandbox& sandbox) {
    EXPECT_TRUE(test::no_orphans_soon(sandbox));
    EXPECT_TRUE(locks_are_free(sandbox));
    const auto path = sandbox.folder() / "data/autotune/autotune.db";
    if (!std::filesystem::exists(path)) return;
    EXPECT_EQ(db::Store::open({.path = path}).verify_integrity(), "");
}

Json winner_of(const Outcome& outcome) {
    return result_of(outcome).at("winner").at("config");
}

enum class Victim { coordinator, bench, compile };

// Starts a tune, and after `delay` kills a process. The death of a worker must not end the tune.
void kill_somebody(const Sandbox& sandbox, Victim victim, std::chrono::milliseconds delay, const Json& winner) {
    Running running = sandbox.start_autotune(kTune);
    std::this_thread::sleep_for(delay);
    if (victim == Victim::coordinator) {
        running.signal(SIGKILL);
        running.wait();
    } else {
        for (const pid_t worker : workers(sandbox, victim == Victim::bench ? "gpu" : "compile")) ::kill(worker, SIGKILL);
        EXPECT_EQ(winner_of(running.wait()), winner);
    }
    expect_sound(sandbox);
}

TEST(Faults, F2KilledAtRandomMomentsATuneGoesOn) {
    Json winner;
    double whole_s = 0;
    {
        const Sandbox undisturbed(kScript);
        const Outcome outcome = undisturbed.autotune(kTune);
        winner = winner_of(outcome);
        whole_s = outcome.wall_s;
    }
    ASSERT_EQ(winner.at("thread_n"), 8);
    std::mt19937 random(20261121);
    const int wanted = kills_wanted();
    for (int killed = 0; killed < wanted;) {
        const Sandbox sandbox(kScript);
        for (int i = 0; i < kKillsOfADatabase && killed < wanted; ++i, ++killed) {
            const auto moment_ms = static_cast<long>(random() % static_cast<unsigned>(1e3 * whole_s));
            const unsigned dice = static_cast<unsigned>(random() % 8);
            const Victim victim = dice < 6 ? Victim::coordinator : dice == 6 ? Victim::bench : Victim::compile;
            SCOPED_TRACE("kill " + std::to_string(killed) + " after " + std::to_string(moment_ms) + " ms");
            kill_somebody(sandbox, victim, std::chrono::milliseconds(moment_ms), winner);
        }
        EXPECT_EQ(winner_of(sandbox.autotune(kTune)), winner);
        expect_sound(sandbox);
    }
}

}  // namespace
}  // namespace autotune::kill_fake_test
