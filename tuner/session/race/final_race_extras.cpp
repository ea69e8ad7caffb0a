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
// After shorter blocks a second turn follows only if the lead in the first turn was larger, up to this many tie gaps. Second
// turns took 0.9 s of nine tunes of twenty, and changed two winners (H200).
constexpr double kSteadyBlock_s = 0.6, kMostNoticed = 2;

Conditions median_conditions(const std::vector<GpuWorkerSession::Block>& blocks) {
    std::vector<Conditions> seen;
    for (const GpuWorkerSession::Block& block : blocks) seen.push_back(block.conditions);
    return summary_of(seen);
}

// The mean over blocks, because all have the same length.
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

std::optional<Outlasting> outlasting(const std::vector<std::size_t>& near, std::optional<std::size_t> previous, double first_lead,
                                     double tie_gap, const std::function<std::optional<double>(std::size_t)>& play) {
    std::map<std::size_t, double> first_us;
    for (const std::size_t contestant : near) {
        const std::optional<double> played = play(contestant);
        if (!played) return std::nullopt;
        first_us[contestant] = *played;
    }
    const std::size_t leader = near.front();
    const double limit_us = first_us.at(leader) / (1 + first_lead);
    const auto fastest = std::min_element(first_us.begin(), first_us.end(),
                                          [](const auto& left, const auto& right) { return left.second < right.second; });
    if (fastest->second >= limit_us) return std::nullopt;
    const double previous_us = previous && first_us.contains(*previous) ? first_us.at(*previous) : limit_us;
    const bool keeps = previous_us < limit_us && previous_us <= fastest->second * (1 + tie_gap);
    const std::size_t challenger = keeps ? *previous : fastest->first;
    const std::optional<double> again_us = play(challenger);
    const std::optional<double> leader_us = again_us ? play(leader) : std::nullopt;
    if (!leader_us || *again_us * (1 + tie_gap) >= *leader_us) return std::nullopt;
    return Outlasting{.winner = challenger,
                      .winner_us = (first_us.at(challenger) + *again_us) / 2,
                      .leader_us = (first_us.at(leader) + *leader_us) / 2};
}

// In rounds of milliseconds all contestants share one clock, which the power limit sets by their average power, so a kernel's own
// energy does not show: one that was 1 % faster in rounds took 6 % longer on its own (8192x28672x4096, H200).
Verdict FinalRace::verdict(double seconds) {
    Verdict of_rounds = rounds_->verdict();
    if ((of_rounds.conditions.throttle_reasons.value_or(0) & kPowerCap) == 0) return of_rounds;
    const double affordable = std::max(0.0, seconds / kLeastJudgingBlock_s - blocks_to_judge(0));
    const std::vector<std::size_t> near = rounds_->near_to(
        of_rounds.winner, kNearWinner, std::clamp(static_cast<std::size_t>(affordable + 1e-6), std::size_t{2}, kMostJudged));
    if (near.size() < 2) return of_rounds;
    const double block_s = std::clamp(seconds / blocks_to_judge(static_cast<int>(near.size())), kLeastJudgingBlock_s, kBlock_s);
    const auto play = [&](std::size_t contestant) -> std::optional<double> {
        const auto block = session_.lost() ? std::nullopt : session_.block(static_cast<int>(contestant), block_s);
        return block ? std::optional(block->launch_us) : std::nullopt;
    };
    if (!settle(near.front(), kSettlingToJudge * block_s)) return of_rounds;
    const auto previous =
        std::find_if(near.begin(), near.end(), [&](std::size_t one) { return contestants_[one].info.is_previous_winner; });
    const double first_lead = options_.rounds.tie_gap * std::clamp(kSteadyBlock_s / block_s, 1.0, kMostNoticed);
    const std::optional<Outlasting> found = outlasting(near, previous != near.end() ? std::optional(*previous) : std::nullopt,
                                                       first_lead, options_.rounds.tie_gap, play);
    if (!found) return of_rounds;
    return rounds_->verdict_for(found->winner,
                                "faster for long at the power limit: " + std::to_string(std::lround(found->winner_us)) + " us, " +
                                    std::to_string(std::lround(found->leader_us)) + " us of the winner of the rounds");
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
