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

// Decides how long each candidate is measured, and which one wins. Callers take the samples, on a GPU or from a generator of
// noise.
namespace autotune::tuner {

// ---- rungs: from many candidates to few ----

struct RungOptions {
    int probe_samples = 3;          // rung 0
    double drop_ratio = 2.0;        // rung 0 drops candidates slower than this times the best
    double rung1_us = 20'000;       // measured time
    double rung1_piece_us = 4'000;  // the first piece of rung 1; a candidate that is clearly behind after it stops
    double behind_ratio = 1.08;     // a candidate is clearly behind if the low end of its interval is above this times the best
    double rung2_us = 30'000;
    double keep_fraction = 0.25;  // this share of the candidates that finished rung 1 goes on to rung 2, best first,
    std::size_t keep_least = 8;   // at least this many go on to rung 2
    std::size_t keep_most = 16;   // at most this many, or twice the number of finalists, go on to rung 2
    // Candidates slower than this times the best could not win, so they enter neither rung 2 nor the final rounds. The best two
    // always enter.
    double chance_ratio = std::numeric_limits<double>::infinity();
    std::size_t finalists = 8;  // this many candidates that finished rung 2 go on to the final rounds
    int most_samples = 2'000;   // for each measurement, for kernels of a few microseconds
};

// The next measurement of a candidate: until both `samples` and `time_us` are reached, at most `most_samples`.
struct Measurement {
    int rung = 0;
    int samples = 0;
    double time_us = 0;
    int most_samples = 0;
};

// A measurement, and the time above which the measurement after it is not worth its cost.
struct Step {
    Measurement measurement;
    std::optional<double> enough_above_us = {};  // a time above this ends the measuring
    // Whether that time is compared with the low end of the median's interval, or else with the median
    bool by_interval = false;
};
// REQUIRES: samples.
bool is_enough(const Step& step, std::span<const double> samples_us);

// Measures candidates that come one after another, in any order, while others are still being compiled. The caller chooses the
// ids.
class Rungs {
  public:
    explicit Rungs(const RungOptions& options = {});

    // The next measurement of a candidate in rungs 0 and 1; nullopt when it is dropped or finished.
    std::optional<Measurement> next(std::size_t candidate) const;
    // The next measurements of a new candidate, all steps at once, for callers that cannot ask in between. Samples are reported
    // step by step.
    std::vector<Step> climb() const;
    // Times of single launches in microseconds, in the order taken. REQUIRES: not empty, positive.
    void report(std::size_t candidate, std::span<const double> samples_us);
    // Removes a candidate that crashed or gave a wrong result. It can no longer be promoted.
    void fail(std::size_t candidate);

    // The best estimate of its time, from the longest rung that it was in. It is nullopt if there is none or the candidate
    // failed.
    std::optional<double> estimate_us(std::size_t candidate) const;
    std::optional<Timing> timing(std::size_t candidate) const;
    // The best estimate of all candidates that were in rung 1, or in rung 0 while there are none. So one wrong probe has no
    // lasting effect.
    std::optional<double> best_us() const;
    bool dropped(std::size_t candidate) const;

    // After the search: the candidates for the rung 2 measurement (rung2_measurement(), then report()), best first.
    std::vector<std::size_t> rung2() const;
    Measurement rung2_measurement() const;
    // The candidates for the final rounds, best first. The caller adds the previous winner, the default and rivals.
    std::vector<std::size_t> finalists() const;

  private:
    struct Entry {
        int rung = -1;  // the rung of the samples; a longer rung replaces the samples of a shorter one
        std::vector<double> samples_us;
        double estimate_us = 0;
        bool finished = false;  // whether rung 1 has all samples that it needs
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

// ---- final rounds: from few to one ----

// Decides ties: fewer resources are preferred, compared in this order.
struct Resources {
    std::int64_t dynamic_smem_bytes = 0;
    std::int64_t registers = 0;
    std::int64_t tile = 0;  // elements or threads of a block; smaller blocks leave more room for others
    auto operator<=>(const Resources&) const = default;
};

struct FinalistInfo {
    std::string name;  // decides remaining ties, by alphabetical order
    Resources resources = {};
    bool is_previous_winner = false;
    bool is_default = false;  // its family's
    bool may_win = true;      // false for a rival such as a vendor library, which is timed and shown but never chosen
};

struct FinalOptions {
    int least_rounds = 30;      // rounds before a decided race may end
    int most_rounds = 90;       // rounds that count; an undecided race ends here and the tie rule decides
    int most_void_rounds = 30;  // after this many throttled rounds, they count too, and the verdict says so
    double tie_gap = 0.005;     // a smaller gap between medians is a tie
    double confidence = 0.95;
    // The confidence before `usual_rounds` rounds: few rounds are evaluated several times.
    double early_confidence = 0.99;
    int usual_rounds = 30;
    int eliminate_after = 10;  // after this many rounds finalists may be eliminated; 0: never
    // A finalist whose 99.9 % interval lies above this is eliminated.
    double eliminate_ratio() const { return 1 + 3 * tie_gap; }
    // An interval of this width decides on which side of the tie gap a rival is.
    double narrow() const { return tie_gap / 2; }
    std::uint64_t voiding_throttle_reasons = 0x8 | 0x20 | 0x40 | 0x80;  // hardware slowdown, thermal (both), power brake
    std::uint64_t seed = 1;
};

struct FinalRow {
    std::size_t finalist = 0;  // the index given to the constructor
    Timing timing;             // over its rounds
    double ratio = 1;          // the time / the baseline's, in the median of paired rounds
    double ratio_low = 1;      // bootstrap interval
    double ratio_high = 1;
    bool tie = false;       // whether it ties with the baseline: the interval contains 1, or the gap is below tie_gap
    int rounds = 0;         // fewer than for others if it was eliminated or failed
    Conditions conditions;  // conditions during its own measurements: medians, and all throttle reasons that occurred
};

struct Verdict {
    std::size_t winner = 0;
    std::string decided_by;  // such as "faster", "only candidate", "tie: previous winner", "tie: lower median"
    // Rows relative to the winner, which comes first. The others follow by ascending ratio; failed finalists are left out.
    std::vector<FinalRow> rows;
    int rounds = 0;
    int void_rounds = 0;
    bool throttled = false;  // throttled rounds had to be counted
    Conditions conditions;   // the conditions over all finalists' measurements
};

// Medians of the readings; throttle reasons: the union.
Conditions summary_of(std::span<const Conditions> seen);

// Times finalists in interleaved rounds. Each round: order = next_round(); time each of `order` in that order; report_round().
class FinalRounds {
  public:
    // REQUIRES: at least one finalist, and at least one that may win.
    explicit FinalRounds(std::vector<FinalistInfo> finalists, const FinalOptions& options = {});

    // The indices to time, in this order; empty when the race is over. Unchanged until the round is reported.
    const std::vector<std::size_t>& next_round() const { return order_; }
    bool done() const { return order_.empty(); }
    // One time per entry of next_round(), in its order: the median of this round's samples. `conditions`: one per entry, as read
    // during its samples, or none. Returns whether the round counts.
    bool report_round(std::span<const double> times_us, std::span<const Conditions> conditions = {});
    // A finalist that crashed leaves the race; the caller repeats the round with the new next_round().
    void fail(std::size_t finalist);
    // Ends the race because time is over: the verdict uses the rounds measured so far.
    void stop() { order_.clear(); }

    int rounds() const { return rounds_; }
    int void_rounds() const { return void_rounds_; }

    // REQUIRES: at least one counted round, and one finalist that may win and has not failed.
    Verdict verdict() const;
    // A verdict over the same rounds with a winner that was decided by other means.
    Verdict verdict_for(std::size_t winner, std::string decided_by) const;
    // The given finalist, and at most `most - 1` others that take at most `ratio` times as long: a previous winner and defaults
    // first, then the fastest, whether or not they stayed to the end.
    std::vector<std::size_t> near_to(std::size_t finalist, double ratio, std::size_t most) const;
    // Every finalist relative to a given one, in the order of the constructor, without failed ones. For side-by-side tables.
    std::vector<FinalRow> rows_against(std::size_t baseline) const;
    // A finalist's row with its own times and readings; its ratio is to itself.
    FinalRow row_of(std::size_t finalist) const { return row(finalist, finalist, options_.confidence); }
    Conditions conditions() const;

  private:
    struct Lane {
        FinalistInfo info;
        std::vector<double> times_us;  // by round; NaN for rounds without it
        std::vector<Conditions> seen;  // in its own rounds
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
