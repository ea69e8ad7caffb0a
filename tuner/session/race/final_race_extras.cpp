// Measurements of contestants in addition to the rounds; they decide only at the power limit.
#include <algorithm>
#include <cmath>

#include "src/core/statistics/statistics.h"
#include "tuner/session/race/final_race.h"

namespace autotune::tuner {
namespace {

constexpr int kOtherRounds = 5;
constexpr double kOtherTurn_us = 1'500;

constexpr std::uint64_t kPowerCap = 0x4;  // NVML sets this bit if the clock is lowered to keep the power limit
constexpr double kNearWinner = 1.03;      // A larger lead in rounds than this was never reversed by blocks.
constexpr std::size_t kMostJudged = 5;

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

std::map<std::size_t, FinalRace::Blocks> FinalRace::blocks_in_turns(std::vector<std::size_t> order, int turns, double seconds) {
    std::map<std::size_t, Blocks> blocks;
    if (!settle(order.front(), kSettlingBlocks * seconds)) return {};
    for (int turn = 0; turn < turns; ++turn) {
        if (!play_turn(order, seconds, blocks)) return {};
        std::reverse(order.begin(), order.end());  // The order is reversed so that no contestant always follows the same one.
    }
    return blocks;
}

bool FinalRace::settle(std::size_t contestant, double seconds) {
    return !session_.lost() && session_.block(static_cast<int>(contestant), seconds).has_value();
}

bool FinalRace::play_turn(const std::vector<std::size_t>& order, double seconds, std::map<std::size_t, Blocks>& blocks) {
    for (const std::size_t contestant : order) {
        const auto block = session_.lost() ? std::nullopt : session_.block(static_cast<int>(contestant), seconds);
        if (!block) return false;
        blocks[contestant].push_back(*block);
    }
    return true;
}

// The winner of the rounds comes first, so that a card that is still cool favours it; in the second turn the others come before
// it. A lead below the tie gap in one of the turns may be noise. So there is no second turn if nothing leads in the first.
std::map<std::size_t, FinalRace::Blocks> FinalRace::those_that_last(const std::vector<std::size_t>& near, double block_s) {
    std::map<std::size_t, Blocks> blocks;
    if (!settle(near.front(), kSettlingToJudge * block_s) || !play_turn(near, block_s, blocks)) return {};
    const std::size_t leader = near.front();
    for (int turn = 1; turn <= kJudgingTurns && blocks.size() > 1; ++turn) {
        const auto at = static_cast<std::size_t>(turn - 1);
        const double leader_us = blocks.at(leader)[at].launch_us;
        std::erase_if(blocks, [&](const auto& one) {
            return one.first != leader && one.second[at].launch_us * (1 + options_.rounds.tie_gap) >= leader_us;
        });
        if (turn == kJudgingTurns || blocks.size() == 1) break;
        std::vector<std::size_t> order;
        for (const auto& [contestant, played] : blocks)
            if (contestant != leader) order.push_back(contestant);
        order.push_back(leader);
        if (!play_turn(order, block_s, blocks)) return {};
    }
    return blocks;
}

// In rounds of milliseconds all contestants share one clock, which the power limit sets by their average power, so a kernel's own
// energy does not show: one that was 1 % faster in rounds took 6 % longer on its own (8192x28672x4096, H200).
Verdict FinalRace::verdict(double seconds) {
    Verdict of_rounds = rounds_->verdict();
    if ((of_rounds.conditions.throttle_reasons.value_or(0) & kPowerCap) == 0) return of_rounds;
    const double affordable = std::max(0.0, (seconds / kLeastBlock_s - kSettlingToJudge) / kJudgingTurns);
    const std::vector<std::size_t> near = rounds_->near_to(
        of_rounds.winner, kNearWinner, std::clamp(static_cast<std::size_t>(affordable + 1e-6), std::size_t{2}, kMostJudged));
    if (near.size() < 2) return of_rounds;
    const auto blocks_played = static_cast<double>(kJudgingTurns * near.size() + kSettlingToJudge);
    const double block_s = std::clamp(seconds / blocks_played, kLeastBlock_s, kBlock_s);
    std::map<std::size_t, double> times_us;
    for (const auto& [contestant, blocks] : those_that_last(near, block_s)) times_us[contestant] = mean_us(blocks);
    if (times_us.size() < 2) return of_rounds;
    const auto fastest = std::min_element(times_us.begin(), times_us.end(),
                                          [](const auto& left, const auto& right) { return left.second < right.second; });
    const auto previous = std::find_if(times_us.begin(), times_us.end(), [&](const auto& one) {
        return contestants_[one.first].info.is_previous_winner && one.second <= fastest->second * (1 + options_.rounds.tie_gap);
    });
    const std::size_t winner = previous != times_us.end() ? previous->first : fastest->first;
    const auto rounded = [&](std::size_t contestant) { return std::to_string(std::lround(times_us.at(contestant))); };
    return rounds_->verdict_for(winner, "faster for long at the power limit: " + rounded(winner) + " us, " +
                                            rounded(of_rounds.winner) + " us of the winner of the rounds");
}

void FinalRace::play_blocks(int count) {
    const std::vector<std::size_t> order = all_left();
    const auto fillers = session_.lost() ? std::nullopt : session_.filler_block(kBlock_s);
    if (!fillers || order.empty()) return;
    for (const auto& [contestant, blocks] : blocks_in_turns(order, count, kBlock_s)) {
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
