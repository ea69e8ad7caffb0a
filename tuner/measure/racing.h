#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/core/statistics/trial.h"

// Who is measured how long, and who won: decisions alone. Callers take the samples, on a GPU or from a generator of noise.
namespace autotune::tuner {

// ---- from many to few ----

struct RungOptions {
    int probe_samples = 3;          // rung 0
    double drop_ratio = 2.0;        // rung 0 ends a candidate slower than this times the best
    double rung1_us = 20'000;       // measured time
    double rung1_piece_us = 4'000;  // first piece of it, after which a candidate that is clearly behind stops
    double behind_ratio = 1.08;     // "clearly behind": the low end of its interval is above this times the best
    double rung2_us = 30'000;
    double keep_fraction = 0.25;  // of those that finished rung 1, how many rung 2 takes, best first ...
    std::size_t keep_least = 8;   // ... but never fewer than this
    std::size_t keep_most = 16;   // ... nor more, or than twice as many as go on
    // Slower than this times the best: goes neither into rung 2 nor into the final rounds, as it would not win. Two always do.
    double chance_ratio = std::numeric_limits<double>::infinity();
    std::size_t finalists = 8;  // of those that finished rung 2, how many go on to the final rounds
    int most_samples = 2'000;   // of one measurement, for kernels of a few microseconds
};

// What to measure next of a candidate: until both `samples` and `time_us` are reached, at most `most_samples`.
struct Measurement {
    int rung = 0;
    int samples = 0;
    double time_us = 0;
    int most_samples = 0;
};

// A measurement, and what makes the next one not worth its time.
struct Step {
    Measurement measurement;
    std::optional<double> enough_above_us = {};  // slower than this is slow enough to know ...
    bool by_interval = false;                    // ... by the low end of the median's interval, else by the median
};
// REQUIRES: samples.
bool is_enough(const Step& step, std::span<const double> samples_us);

// Candidates come one after another, in any order, while others are still being compiled. Ids are the caller's.
class Rungs {
  public:
    explicit Rungs(const RungOptions& options = {});

    // The next measurement of a candidate in rungs 0 and 1; nullopt when it has had its share (dropped or finished).
    std::optional<Measurement> next(std::size_t candidate) const;
    // The same for a new candidate, all at once: for who cannot ask in between. What is taken is reported piece by piece.
    std::vector<Step> climb() const;
    // Times of single launches in microseconds, in the order taken. REQUIRES: not empty, positive.
    void report(std::size_t candidate, std::span<const double> samples_us);
    // It crashed or gave a wrong answer: it can no longer be promoted.
    void fail(std::size_t candidate);

    // Best estimate of its time from the longest rung it has been in; nullopt if it has none or failed.
    std::optional<double> estimate_us(std::size_t candidate) const;
    std::optional<Timing> timing(std::size_t candidate) const;
    // The best estimate of all that have been in rung 1, or in rung 0 while there is none: a glitch in a probe does not last.
    std::optional<double> best_us() const;
    bool dropped(std::size_t candidate) const;

    // When the search is over: who gets the rung 2 measurement (rung2_measurement(), then report()), best first.
    std::vector<std::size_t> rung2() const;
    Measurement rung2_measurement() const;
    // Who goes to the final rounds, best first. The caller adds the previous winner, the default and rivals.
    std::vector<std::size_t> finalists() const;

  private:
    struct Entry {
        int rung = -1;  // of the samples held; a longer rung replaces the samples of a shorter one
        std::vector<double> samples_us;
        double estimate_us = 0;
        bool finished = false;  // rung 1 has all it needs
        bool dropped = false;
        bool failed = false;
    };
    bool behind(const Entry& entry, std::optional<double> best) const;
    std::vector<std::size_t> ranked(int least_rung) const;
    void leave_out_hopeless(std::vector<std::size_t>& order) const;
    Measurement measurement(int rung, double time_us) const;

    RungOptions options_;
    std::map<std::size_t, Entry> entries_;
};

// ---- from few to one ----

// What breaks a tie: less of everything is preferred, in this order.
struct Resources {
    std::int64_t dynamic_smem_bytes = 0;
    std::int64_t registers = 0;
    std::int64_t tile = 0;  // elements or threads of a block: the smaller one leaves more room for others
    auto operator<=>(const Resources&) const = default;
};

struct FinalistInfo {
    std::string name;  // fixed order of last resort among ties
    Resources resources = {};
    bool is_previous_winner = false;
    bool is_default = false;  // its family's
    bool may_win = true;      // false for a rival such as a vendor library: timed and shown, never chosen
};

struct FinalOptions {
    int least_rounds = 30;      // a race of fewer is looked at with early_confidence
    int most_rounds = 90;       // of rounds that count; an undecided race ends here and the tie rule speaks
    int most_void_rounds = 30;  // after so many, throttled rounds count too and the verdict says so
    double tie_gap = 0.005;     // a smaller gap between medians is a tie
    double confidence = 0.95;
    // The same before `usual_rounds`: few rounds are looked at, and several times.
    double early_confidence = 0.99;
    int usual_rounds = 30;
    int eliminate_after = 10;  // rounds; 0: never. From then on ...
    // ... a finalist whose 99.9 % interval is above this leaves the race.
    double eliminate_ratio() const { return 1 + 3 * tie_gap; }
    // An interval of this width settles on which side of the tie gap a rival is.
    double narrow() const { return tie_gap / 2; }
    std::uint64_t voiding_throttle_reasons = 0x8 | 0x20 | 0x40 | 0x80;  // hardware slowdown, thermal (both), power brake
    std::uint64_t seed = 1;
};

struct FinalRow {
    std::size_t finalist = 0;  // index given to the constructor
    Timing timing;             // over its rounds
    double ratio = 1;          // its time over the baseline's: median of paired rounds
    double ratio_low = 1;      // bootstrap interval
    double ratio_high = 1;
    bool tie = false;       // with the baseline: the interval spans 1, or the gap is below tie_gap
    int rounds = 0;         // fewer than the others' if it was eliminated or failed
    Conditions conditions;  // during its turns: medians; throttle reasons: all that were seen
};

struct Verdict {
    std::size_t winner = 0;
    std::string decided_by;      // "faster", "only candidate", "tie: previous winner", "tie: lower median", ...
    std::vector<FinalRow> rows;  // against the winner: itself first, then ascending ratio; failed finalists left out
    int rounds = 0;
    int void_rounds = 0;
    bool throttled = false;  // void rounds had to be counted
    Conditions conditions;   // the same over all finalists' turns
};

// Medians of what was read; throttle reasons: all that were seen.
Conditions summary_of(std::span<const Conditions> seen);

// Finalists in interleaved rounds. Each round: order = next_round(); time each of `order` in that order; report_round().
class FinalRounds {
  public:
    // REQUIRES: at least one finalist, and one that may win.
    explicit FinalRounds(std::vector<FinalistInfo> finalists, const FinalOptions& options = {});

    // The indices to time, in this order; empty when the race is over. The same until the round is reported.
    const std::vector<std::size_t>& next_round() const { return order_; }
    bool done() const { return order_.empty(); }
    // One time per entry of next_round(), in its order: each the median of the samples of this turn. `conditions`: one per entry,
    // as read during the turn, or none. Returns whether the round counts.
    bool report_round(std::span<const double> times_us, std::span<const Conditions> conditions = {});
    // A finalist that crashed leaves the race; the round it happened in is to be repeated by the caller with the new
    // next_round().
    void fail(std::size_t finalist);
    // No more time: the verdict is made from the rounds there are.
    void stop() { order_.clear(); }

    int rounds() const { return rounds_; }
    int void_rounds() const { return void_rounds_; }

    // REQUIRES: one counted round at least, and one finalist that may win and has not failed.
    Verdict verdict() const;
    // The same rounds with a winner that something else decided.
    Verdict verdict_for(std::size_t winner, std::string decided_by) const;
    // A finalist, and of those that take at most `ratio` of its time `most - 1`: a previous winner and defaults first, then the
    // fastest, whether they stayed to the end or not.
    std::vector<std::size_t> near_to(std::size_t finalist, double ratio, std::size_t most) const;
    // Every finalist against a given one, in the order of the constructor; failed ones left out. For side by side tables.
    std::vector<FinalRow> rows_against(std::size_t baseline) const;
    // One finalist against itself: its own times and readings.
    FinalRow row_of(std::size_t finalist) const { return row(finalist, finalist, options_.confidence); }
    Conditions conditions() const;

  private:
    struct Lane {
        FinalistInfo info;
        std::vector<double> times_us;  // by round; NaN where it did not run
        std::vector<Conditions> seen;  // in the rounds that it ran in
        bool running = true;
        bool failed = false;
    };
    void advance();
    void eliminate();
    void shuffle_order();
    bool decided() const;
    std::vector<std::size_t> contenders() const;
    std::size_t fastest(const std::vector<std::size_t>& among) const;
    std::size_t first_of_ties(std::vector<std::size_t> ties, std::string& decided_by) const;
    FinalRow row(std::size_t finalist, std::size_t baseline, double confidence) const;

    std::vector<Lane> lanes_;
    FinalOptions options_;
    std::vector<std::size_t> order_;
    int rounds_ = 0;
    int void_rounds_ = 0;
    std::uint64_t shuffles_ = 0;
};

}  // namespace autotune::tuner
