// Measurements of contestants in addition to the rounds; they decide only at the power limit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "src/core/statistics/statistics.h"
#include "tuner/session/race/final_race.h"

namespace autotune::tuner {
namespace {

constexpr int kOtherRounds = 5;
constexpr double kOtherTurn_us = 1'500;

constexpr std::uint64_t kPowerCap = 0x4;  // NVML: the clock is lowered to keep the power limit
constexpr double kNearWinner = 1.03;      // in rounds: no block has outweighed a larger lead
constexpr std::size_t kMostJudged = 5;
constexpr double kOutOfBlocks = 1.015;  // after one block: blocks of one kernel differ by less than half of that

Conditions median_conditions(const std::vector<GpuWorkerSession::Block>& blocks) {
    std::vector<Conditions> seen;
    for (const GpuWorkerSession::Block& block : blocks) seen.push_back(block.conditions);
    return summary_of(seen);
}

double mean_us(const std::vector<GpuWorkerSession::Block>& blocks) {
    double sum_us = 0;
    for (const GpuWorkerSession::Block& block : blocks) sum_us += block.launch_us;
    return sum_us / static_cast<double>(blocks.size());
}

// Blocks have the same length, so this is their mean.
std::optional<double> joules_per_launch(const std::vector<GpuWorkerSession::Block>& blocks) {
    double joules = 0;
    for (const GpuWorkerSession::Block& block : blocks) {
        if (!block.joules_per_launch) return std::nullopt;
        joules += *block.joules_per_launch;
    }
    return joules / static_cast<double>(blocks.size());
}

}  // namespace

std::vector<std::size_t> FinalRace::all_left() const {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < contestants_.size(); ++i) {
        if (outcomes_[i].ok()) left.push_back(i);
    }
    return left;
}

std::vector<std::size_t> FinalRace::winner_and_rivals(std::size_t winner) const {
    std::vector<std::size_t> chosen = all_left();
    std::erase_if(chosen, [&](std::size_t i) { return i != winner && contestants_[i].candidate.has_value(); });
    return chosen;
}

// Each round also times the deciding predecessor, and only the ratio to it counts, because clocks and power have changed since
// the deciding rounds.
void FinalRace::time_after_others(const std::vector<std::size_t>& contestants) {
    std::vector<int> slots;
    for (const std::size_t contestant : contestants) slots.push_back(static_cast<int>(contestant));
    std::vector<std::map<Predecessor, std::vector<double>>> times_us(slots.size());
    for (int round = 0; round < kOtherRounds; ++round) {
        for (const Predecessor which : {Predecessor::filler, Predecessor::itself, Predecessor::trigger}) {
            if (session_.lost()) return;
            const GpuWorkerSession::Round seen = session_.round(slots, {.time_us = kOtherTurn_us, .after = which});
            if (!seen.ok) return;
            for (std::size_t i = 0; i < slots.size(); ++i) times_us[i][which].push_back(seen.times_us[i]);
        }
    }
    for (std::size_t i = 0; i < slots.size(); ++i) {
        const FinalRow row = rounds_->row_of(contestants[i]);
        const std::vector<double>& deciding = times_us[i].at(options_.turn.after);
        for (const auto& [which, times] : times_us[i]) {
            const double ratio = stats::median(stats::paired_ratios(times, deciding));
            if (row.rounds > 0) after_us_[contestants[i]][which] = row.timing.median_us * ratio;
        }
    }
}

std::optional<double> FinalRace::time_after_us(std::size_t contestant, Predecessor which) const {
    const auto known = after_us_[contestant].find(which);
    return known == after_us_[contestant].end() ? std::nullopt : std::optional(known->second);
}

std::map<std::size_t, FinalRace::Blocks> FinalRace::blocks_in_turns(std::vector<std::size_t> order, int turns, double seconds,
                                                                    double out_ratio) {
    std::map<std::size_t, Blocks> blocks;
    if (session_.lost() || !session_.block(static_cast<int>(order.front()), kSettlingBlocks * seconds)) return {};
    for (int turn = 0; turn < turns; ++turn) {
        for (const std::size_t contestant : order) {
            const auto block = session_.lost() ? std::nullopt : session_.block(static_cast<int>(contestant), seconds);
            if (!block) return {};
            blocks[contestant].push_back(*block);
        }
        double best_us = std::numeric_limits<double>::infinity();
        for (const auto& [contestant, played] : blocks) best_us = std::min(best_us, mean_us(played));
        std::erase_if(order, [&](std::size_t one) { return mean_us(blocks.at(one)) > out_ratio * best_us; });
        std::reverse(order.begin(), order.end());  // so that no contestant always follows the same one
    }
    return blocks;
}

// In rounds of milliseconds all contestants share one clock, which the power limit sets by their average power, so a kernel's own
// energy does not show: one that was 1 % faster in rounds took 6 % longer on its own (8192x28672x4096, H200).
Verdict FinalRace::verdict(double seconds) {
    Verdict of_rounds = rounds_->verdict();
    if ((of_rounds.conditions.throttle_reasons.value_or(0) & kPowerCap) == 0) return of_rounds;
    const double affordable = std::max(0.0, (seconds / kLeastBlock_s - kSettlingBlocks) / kJudgingTurns);
    const std::vector<std::size_t> near = rounds_->near_to(
        of_rounds.winner, kNearWinner, std::clamp(static_cast<std::size_t>(affordable), std::size_t{2}, kMostJudged));
    if (near.size() < 2) return of_rounds;
    const auto blocks_played = static_cast<double>(kJudgingTurns * near.size() + kSettlingBlocks);
    const double block_s = std::clamp(seconds / blocks_played, kLeastBlock_s, kBlock_s);
    std::map<std::size_t, double> times_us;
    for (const auto& [contestant, blocks] : blocks_in_turns(near, kJudgingTurns, block_s, kOutOfBlocks))
        times_us[contestant] = mean_us(blocks);
    if (times_us.empty()) return of_rounds;
    const auto fastest = std::min_element(
        near.begin(), near.end(), [&](std::size_t left, std::size_t right) { return times_us.at(left) < times_us.at(right); });
    const auto is_close = [&](std::size_t contestant) {
        return times_us.at(contestant) <= times_us.at(*fastest) * (1 + options_.rounds.tie_gap);
    };
    if (is_close(of_rounds.winner)) return of_rounds;
    const auto previous = std::find_if(near.begin(), near.end(), [&](std::size_t contestant) {
        return contestants_[contestant].info.is_previous_winner && is_close(contestant);
    });
    const std::size_t winner = previous != near.end() ? *previous : *fastest;
    const auto rounded = [&](std::size_t contestant) { return std::to_string(std::lround(times_us.at(contestant))); };
    return rounds_->verdict_for(winner, "faster for long at the power limit: " + rounded(winner) + " us, " +
                                            rounded(of_rounds.winner) + " us of the winner of the rounds");
}

void FinalRace::play_blocks(int count) {
    const std::vector<std::size_t> order = all_left();
    const auto fillers = session_.lost() ? std::nullopt : session_.filler_block(kBlock_s);
    if (!fillers || order.empty()) return;
    for (const auto& [contestant, blocks] : blocks_in_turns(order, count, kBlock_s, std::numeric_limits<double>::infinity())) {
        std::vector<double> times_us;
        for (const GpuWorkerSession::Block& block : blocks) times_us.push_back(block.launch_us);
        Sustained& sustained = sustained_[contestant].emplace();
        sustained.timing = stats::summarize(times_us);
        const std::optional<double> pair_j = joules_per_launch(blocks);
        if (pair_j && fillers->joules_per_launch)
            sustained.joules_per_launch = std::max(0.0, *pair_j - *fillers->joules_per_launch);
        sustained.conditions = median_conditions(blocks);
    }
}

}  // namespace autotune::tuner
