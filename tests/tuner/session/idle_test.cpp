// The worker for idle time without a GPU: which problem it takes, when, and with what result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "db/store/store.h"
#include "tests/support/embedded_catalogue.h"
#include "tuner/session/idle/miss_source.h"

namespace autotune::tuner::idle_test {
namespace {

using autotune::test::embedded_catalogue;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Processes = std::vector<gpu::CardLoad::Process>;

class TempFolder {
  public:
    TempFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "autotune-idle-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

// ---- cards ----

class CardWatchTest : public ::testing::Test {
  protected:
    CardWatch watch(double idle_s) {
        return {"GPU-a", [this](const std::string&, unsigned long long&) { return load_; }, idle_s};
    }
    // Checks repeatedly for `for_s`.
    static void look_for(CardWatch& watch, double for_s, bool at_work = false) {
        const auto begun = Clock::now();
        while (seconds_since(begun) < for_s) {
            watch.look(at_work);
            std::this_thread::sleep_for(milliseconds(20));
        }
    }
    static gpu::CardLoad idle_card() { return {.percent = 0, .used_gib = 0.5, .processes = Processes{}}; }

    gpu::CardLoad load_ = idle_card();
};

TEST_F(CardWatchTest, AnIdleCardIsTakenAfterTheTime) {
    CardWatch card = watch(0.5);
    card.look(false);
    EXPECT_FALSE(card.is_idle());
    look_for(card, 0.6);
    EXPECT_TRUE(card.is_idle());
    EXPECT_EQ(card.why_busy(), "");
}

TEST_F(CardWatchTest, ComputingDelaysIt) {
    CardWatch card = watch(0.5);
    load_.percent = 37;
    look_for(card, 0.6);
    EXPECT_FALSE(card.is_idle());
    EXPECT_EQ(card.why_busy(), "it computes (37 %)");
    load_.percent = 0;
    look_for(card, 0.8);
    EXPECT_TRUE(card.is_idle());
}

TEST_F(CardWatchTest, AProgramThatPausesMayKeepItsMemory) {
    CardWatch card = watch(0.3);
    load_.used_gib = 60;
    load_.processes = Processes{{.pid = 100000001, .percent = 0}};
    look_for(card, 0.6);
    EXPECT_TRUE(card.is_idle());
}

TEST_F(CardWatchTest, MemoryOfOthersThatCannotBeWatchedIsInUse) {
    CardWatch card = watch(0.3);
    load_.used_gib = 60;
    look_for(card, 0.6);
    EXPECT_FALSE(card.is_idle());
    EXPECT_EQ(card.why_busy(), "others hold 60.0 GiB of its memory, and NVML does not tell when they compute");
    load_.processes = Processes{{.pid = 100000001}};
    look_for(card, 0.6);
    EXPECT_FALSE(card.is_idle());
}

TEST_F(CardWatchTest, ACardThatTellsNothingIsNeverIdle) {
    CardWatch card = watch(0.3);
    load_ = {};
    look_for(card, 0.6);
    EXPECT_FALSE(card.is_idle());
    EXPECT_EQ(card.why_busy(), "NVML does not tell its load; --idle 0 takes it as it is");
}

TEST_F(CardWatchTest, WithoutATimeEveryCardIsIdleAndNothingIsRead) {
    CardWatch card("GPU-a", {}, 0);
    card.look(false);
    EXPECT_TRUE(card.is_idle());
    card.look(true);
    EXPECT_FALSE(card.is_others());
}

TEST_F(CardWatchTest, OursIsNoLoadOfOthers) {
    CardWatch card = watch(0.3);
    look_for(card, 0.5);
    load_.percent = 100;
    load_.used_gib = 40;
    load_.processes = Processes{{.pid = static_cast<unsigned>(::getpid()), .percent = 100}};
    look_for(card, 0.5, true);
    EXPECT_FALSE(card.is_others());
    load_.percent = 100;  // there was load in the second before
    look_for(card, 0.3);
    EXPECT_TRUE(card.is_idle());
}

TEST_F(CardWatchTest, AProgramThatComesBackInTheMiddleIsSeen) {
    CardWatch card = watch(0.3);
    load_.processes = Processes{{.pid = 100000001, .percent = 0}};
    look_for(card, 0.5);
    load_.percent = 100;
    load_.processes = Processes{{.pid = static_cast<unsigned>(::getpid()), .percent = 60}, {.pid = 100000001, .percent = 40}};
    look_for(card, 0.3, true);
    EXPECT_TRUE(card.is_others());
    EXPECT_EQ(card.why_busy(), "process 100000001 computes on it (40 %)");
    EXPECT_FALSE(card.is_idle());
}

// In a container NVML may return the host's pids: then our own is unknown, but those from before us are known.
TEST_F(CardWatchTest, WithTheHostsNumbersOnlyThoseBeforeUsAreOthers) {
    CardWatch card = watch(0.3);
    load_.processes = Processes{{.pid = 100000001, .percent = 0}};
    look_for(card, 0.5);
    load_.processes = Processes{{.pid = 100000001, .percent = 0}, {.pid = 100000002, .percent = 90}};
    look_for(card, 0.3, true);
    EXPECT_FALSE(card.is_others());
    load_.processes = Processes{{.pid = 100000001, .percent = 5}, {.pid = 100000002, .percent = 90}};
    look_for(card, 0.3, true);
    EXPECT_TRUE(card.is_others());
}

// ---- failures ----

TEST(FailedProblems, AreTriedAgainAfterADay) {
    const TempFolder folder;
    const std::string path = folder / "failed_problems.jsonl";
    auto now = std::chrono::system_clock::now();
    const auto clock = [&] { return now; };
    {
        FailedProblems failed(path, clock);
        failed.add("gemm x 64x64x64", "sm_90 a", "no \"config\"\nis right");
        EXPECT_EQ(failed.why("gemm x 64x64x64", "sm_90 b"), "");
    }
    now += std::chrono::hours(23);
    EXPECT_EQ(FailedProblems(path, clock).why("gemm x 64x64x64", "sm_90 a"), "no \"config\"\nis right");
    now += std::chrono::hours(1);
    EXPECT_EQ(FailedProblems(path, clock).why("gemm x 64x64x64", "sm_90 a"), "");
    EXPECT_EQ(std::filesystem::file_size(path), 0U) << "old lines leave the file";
}

TEST(FailedProblems, OfADamagedOrMissingFileAreNone) {
    const TempFolder folder;
    const std::string path = folder / "failed_problems.jsonl";
    {
        FailedProblems failed(path);
        failed.add("a", "b", "c");
    }
    std::ofstream(path, std::ios::app) << "{\"problem\": 3}\nnonsense\n"
                                       << R"({"problem": "a b", "at_s": 9223372036854775807, "why": "never"})"
                                       << "\n{\"problem\": \"half";
    EXPECT_EQ(FailedProblems(path).why("a", "b"), "c");
    // No process has the FIFO's other end, and neither reading nor writing may wait for one.
    const std::string pipe = folder / "pipe";
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    FailedProblems piped(pipe);
    piped.add("a", "b", "c");
    EXPECT_EQ(piped.why("a", "b"), "c");
    FailedProblems nowhere(folder / "missing" + "/file");
    nowhere.add("a", "b", "");
    EXPECT_EQ(nowhere.why("a", "b"), "unknown");
    FailedProblems in_memory("");
    in_memory.add("a", "b", "c");
    EXPECT_EQ(in_memory.why("a", "b"), "c");
}

// ---- misses ----

struct Heard : IdleObserver {
    void on_item(const SweepItem& item, std::int64_t calls, std::size_t waiting) override {
        items.push_back(item.problem.shape() + " " + std::to_string(calls) + " " + std::to_string(waiting));
    }
    void on_remark(const std::string& text) override { remarks.push_back(text); }
    std::vector<std::string> items, remarks;
};

class MissSourceTest : public ::testing::Test {
  protected:
    static constexpr double kSoon_s = 0.4;

    Problem problem(const std::string& shape) const { return embedded_catalogue().problem({"hgemm", shape, {{"beta", "zero"}}}); }
    void miss(db::Store& store, const std::string& shape, std::int64_t count, const Device& device) {
        const std::vector<db::Miss> misses{{problem(shape), device.identity, "default", count}};
        store.record_misses(misses);
    }
    void miss(const std::string& shape, std::int64_t count) { miss(first_, shape, count, device_); }
    MissSource source(const IdleOptions& options) {
        return {{&first_, &second_},
                gpus_,
                embedded_catalogue(),
                failed_,
                [this](const std::string&, unsigned long long&) { return load_; },
                options,
                &stop_,
                heard_};
    }
    MissSource source() { return source({.idle_s = 0}); }
    std::vector<std::string> takes(MissSource& source, std::size_t count) {
        std::vector<std::string> shapes;
        for (std::size_t i = 0; i < count; ++i) {
            const auto item = source.take(lane_, false);
            if (!item) break;
            ids_.push_back(item->id);
            shapes.push_back(item->problem.shape());
        }
        return shapes;
    }
    SweepItem ended(const std::string& shape, SweepItem::State state, const std::string& detail = "") const {
        SweepItem item;
        item.problem = problem(shape);
        item.state = state;
        item.detail = detail;
        return item;
    }
    db::Winner winner(const std::string& shape) const {
        const Problem at = problem(shape);
        const Family* const family = embedded_catalogue().find_family("gemm/mma");
        db::Winner winner;
        winner.op = at.op;
        winner.class_key = at.class_key();
        winner.extents = at.extents;
        winner.device = device_.identity;
        winner.candidate = {"gemm/mma", family->default_config(at, device_)};
        winner.template_identity = embedded_catalogue().template_identity(*family);
        winner.timing = {.median_us = 10, .low_us = 9, .high_us = 11, .min_us = 9, .samples = 30};
        winner.provenance = {.driver = "580.1",
                             .nvrtc = "13.0",
                             .device_name = "NVIDIA H200",
                             .power_limit_w = 700,
                             .method = "final-rounds-1",
                             .tool_version = "0.1.0",
                             .date = "2026-11-21T01:30:00Z"};
        winner.evidence.rounds = 30;
        winner.evidence.decided_by = "faster";
        winner.evidence.stopped_by = "budget";
        return winner;
    }

    TempFolder folder_;
    db::Store first_ = db::Store::open({.path = folder_ / "first.db"}),
              second_ = db::Store::open({.path = folder_ / "second.db"});
    Device device_ = *reference_device("sm_90a");
    std::vector<LaneGpu> gpus_{{.device = device_, .uuid = "GPU-a", .provenance = {}, .note = {}}};
    std::string class_key_;
    LaneView lane_{0, gpus_[0].uuid, gpus_[0].device, class_key_};
    FailedProblems failed_{""};
    std::atomic<bool> stop_{false};
    gpu::CardLoad load_{.percent = 0};
    Heard heard_;
    std::vector<std::size_t> ids_;
};

TEST_F(MissSourceTest, GivesTheMostCalledFirstOverAllDatabases) {
    miss("64x64x64", 5);
    miss("32x64x64", 9);
    miss(second_, "64x64x64", 7, device_);
    miss(second_, "16x64x64", 1, device_);
    MissSource misses = source();
    EXPECT_THAT(takes(misses, 9), ElementsAre("64x64x64", "32x64x64", "16x64x64"));
    EXPECT_EQ(misses.waiting(), 0U);
}

TEST_F(MissSourceTest, GivesNoMissOfAnotherCard) {
    Device other = *reference_device("sm_80");
    miss(first_, "64x64x64", 5, other);
    MissSource misses = source();
    EXPECT_THAT(takes(misses, 1), IsEmpty());
    EXPECT_THAT(heard_.remarks, ElementsAre("misses of " + other.identity.key() + " are left to a worker with such a card"));
}

TEST_F(MissSourceTest, SeesMissesThatAreRecordedLater) {
    MissSource misses = source();
    EXPECT_THAT(takes(misses, 1), IsEmpty());
    miss("64x64x64", 5);
    std::this_thread::sleep_for(milliseconds(1100));
    EXPECT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
}

TEST_F(MissSourceTest, GivesAFailedProblemNotAgain) {
    miss("64x64x64", 5);
    MissSource misses = source();
    ASSERT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
    misses.done(lane_, ids_[0], ended("64x64x64", SweepItem::State::failed, "every candidate failed"));
    EXPECT_THAT(takes(misses, 1), IsEmpty());
    EXPECT_EQ(failed_.why(problem("64x64x64").key(), device_.identity.key()), "every candidate failed");
    EXPECT_EQ(misses.counts().failed, 1);
    EXPECT_THAT(heard_.items, ElementsAre("64x64x64 5 0"));
}

TEST_F(MissSourceTest, GivesAnItemThatWasGivenBackAgain) {
    miss("64x64x64", 5);
    MissSource misses = source();
    ASSERT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
    misses.done(lane_, ids_[0], ended("64x64x64", SweepItem::State::interrupted));
    ASSERT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
    misses.failed(ids_[1], WorkSource::Failure::no_lane, "no GPU is left");
    ASSERT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
    misses.failed(ids_[2], WorkSource::Failure::lost_twice, "its process was killed");
    EXPECT_THAT(takes(misses, 1), IsEmpty());
    EXPECT_EQ(misses.counts().given_back, 2);
    EXPECT_EQ(misses.counts().failed, 1);
}

TEST_F(MissSourceTest, CopiesTheWinnerIntoEveryDatabaseThatMissedTheProblem) {
    miss("64x64x64", 5);
    miss(second_, "64x64x64", 7, device_);
    MissSource misses = source();
    ASSERT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
    first_.put(winner("64x64x64"));  // as the lane does
    SweepItem item = ended("64x64x64", SweepItem::State::tuned);
    item.result.emplace();
    item.result->winner = winner("64x64x64");
    item.result->tuned = true;
    misses.done(lane_, ids_[0], item);
    EXPECT_EQ(second_.find(problem("64x64x64"), device_.identity).size(), 1U);
    EXPECT_EQ(first_.count_misses() + second_.count_misses(), 0);
    EXPECT_EQ(misses.counts().tuned, 1);
}

TEST_F(MissSourceTest, ForgetsTheMissOfAProblemThatHasItsWinner) {
    miss("64x64x64", 5);
    MissSource misses = source();
    ASSERT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
    misses.done(lane_, ids_[0], ended("64x64x64", SweepItem::State::fresh));
    EXPECT_EQ(first_.count_misses(), 0);
    miss("64x64x64", 1);  // a program that still has its old plan records this miss
    std::this_thread::sleep_for(milliseconds(1100));
    EXPECT_THAT(takes(misses, 1), IsEmpty());
}

TEST_F(MissSourceTest, CountsAWinnerThatIsNotStoredAsAFailure) {
    miss("64x64x64", 5);
    MissSource misses = source();
    ASSERT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
    SweepItem item = ended("64x64x64", SweepItem::State::tuned);
    item.result.emplace();
    item.result->not_stored = "the disk is full";
    misses.done(lane_, ids_[0], item);
    EXPECT_EQ(failed_.why(problem("64x64x64").key(), device_.identity.key()), "its winner is not stored: the disk is full");
    EXPECT_THAT(takes(misses, 1), IsEmpty());
}

TEST_F(MissSourceTest, WaitsForAnIdleCardAndGivesBackWhereOthersCompute) {
    miss("64x64x64", 5);
    MissSource misses = source({.idle_s = kSoon_s});
    load_.percent = 20;
    EXPECT_THAT(takes(misses, 1), IsEmpty());
    load_.percent = 0;
    EXPECT_THAT(takes(misses, 1), IsEmpty());
    for (int i = 0; i < 40 && ids_.empty(); ++i) {
        takes(misses, 1);
        std::this_thread::sleep_for(milliseconds(50));
    }
    ASSERT_EQ(ids_.size(), 1U);
    EXPECT_FALSE(misses.wants_back(lane_));
    load_.processes = Processes{{.pid = static_cast<unsigned>(::getpid()), .percent = 9}, {.pid = 100000001, .percent = 40}};
    std::this_thread::sleep_for(milliseconds(250));
    EXPECT_TRUE(misses.wants_back(lane_));
}

TEST_F(MissSourceTest, ACardThatCannotBeUsedWaitsAsABusyOne) {
    miss("64x64x64", 5);
    MissSource misses = source({.idle_s = kSoon_s});
    for (int i = 0; i < 40 && takes(misses, 1).empty(); ++i) std::this_thread::sleep_for(milliseconds(50));
    ASSERT_EQ(ids_.size(), 1U);
    misses.failed(ids_[0], WorkSource::Failure::no_lane, "process 7 tunes on it");
    misses.card_failed(lane_, "process 7 tunes on it");
    EXPECT_THAT(takes(misses, 1), IsEmpty());
    EXPECT_THAT(heard_.remarks, ElementsAre("GPU-a cannot be used now: process 7 tunes on it"));
}

TEST_F(MissSourceTest, EndsWhenItHadNothingToDoForTheTime) {
    miss("64x64x64", 5);
    MissSource misses = source({.idle_s = 0, .exit_when_idle_s = 0.3});
    ASSERT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
    std::this_thread::sleep_for(milliseconds(400));
    EXPECT_FALSE(misses.is_exhausted()) << "an item is in hand";
    misses.done(lane_, ids_[0], ended("64x64x64", SweepItem::State::failed));
    EXPECT_FALSE(misses.is_exhausted());
    std::this_thread::sleep_for(milliseconds(400));
    EXPECT_TRUE(misses.is_exhausted());
    EXPECT_FALSE(source().is_exhausted()) << "by default it goes on";
}

TEST_F(MissSourceTest, TakesNothingThatWouldNotEndInTime) {
    miss("64x64x64", 5);
    const auto now = std::chrono::system_clock::now();
    MissSource late = source({.idle_s = 0, .until = now + std::chrono::seconds(8), .item_s = 10});
    EXPECT_TRUE(late.is_exhausted());
    EXPECT_THAT(takes(late, 1), IsEmpty());
    MissSource early = source({.idle_s = 0, .until = now + std::chrono::seconds(60), .item_s = 10});
    EXPECT_FALSE(early.is_exhausted());
    EXPECT_THAT(takes(early, 1), ElementsAre("64x64x64"));
}

TEST_F(MissSourceTest, OnASignalTheItemInHandHasSomeTime) {
    miss("64x64x64", 5);
    MissSource misses = source({.idle_s = 0, .give_back_after_s = 0.3});
    ASSERT_THAT(takes(misses, 1), ElementsAre("64x64x64"));
    stop_ = true;
    EXPECT_TRUE(misses.is_exhausted());
    EXPECT_FALSE(misses.gives_all_back());
    std::this_thread::sleep_for(milliseconds(400));
    EXPECT_TRUE(misses.is_exhausted());
    EXPECT_TRUE(misses.gives_all_back());
}

}  // namespace
}  // namespace autotune::tuner::idle_test
