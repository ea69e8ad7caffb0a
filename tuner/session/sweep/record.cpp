#include <algorithm>
#include <deque>

#include "src/core/error.h"
#include "src/core/statistics/statistics.h"
#include "tuner/session/engine/run_shared.h"
#include "tuner/session/tune.h"
#include "tuner/session/tune/candidates.h"

namespace autotune::tuner {
namespace {

constexpr int kSlot = 0;
constexpr int kRefiningTurns = 4;

class Recorder {
  public:
    Recorder(const Problem& problem, const RecordOptions& options, TuneServices& services);
    RecordedSpace run();

  private:
    struct Point {
        Instance instance;
        std::vector<double> samples_us;
        std::string failure;
    };
    struct Ready {
        std::size_t point;
        CompileOutcome outcome;
    };

    void set_up();
    void submit_more();
    void measure_all();
    void try_one(const Ready& ready);
    RunOutcome measure(std::size_t point, const Instance& instance, bool verify);
    void refine();
    void tell(std::size_t point);
    RecordedSpace space() const;

    Problem problem_;
    RecordOptions options_;
    TuneServices& services_;
    Candidates candidates_;
    Engine engine_;
    GpuWorkerHost host_;
    RunShared shared_;
    std::optional<GpuWorkerSession> session_;
    std::vector<Point> points_;
    std::deque<Ready> ready_;
    std::size_t submitted_ = 0, tried_ = 0, failed_ = 0;
    std::optional<double> best_us_;
};

Recorder::Recorder(const Problem& problem, const RecordOptions& options, TuneServices& services)
    : problem_(problem),
      options_(options),
      services_(services),
      candidates_(services.catalogue, problem, services.device, options.choice),
      engine_(services),
      host_(engine_),
      shared_{engine_, host_, {}, {}},
      points_(candidates_.size()) {
    if (candidates_.parts().size() > 1) throw Error(ErrorCode::usage, "a recorded space is of one family: choose it");
    if (candidates_.size() > options.most_points) {
        throw Error(ErrorCode::usage, std::to_string(candidates_.size()) + " legal configs are more than " +
                                          std::to_string(options.most_points) +
                                          "; hold more parameters at a value (--param) or allow more (--points)");
    }
}

void Recorder::set_up() {
    engine_.gpu_worker().start();
    const Instance reference = compile_judges(shared_, problem_);
    engine_.acquire_gpu();
    GpuWorkerSession::Options options = session_options(problem_, services_);
    options.method = options_.method;
    options.seed = options_.seed;
    session_.emplace(host_, problem_, reference, options);
    session_->ensure();
}

// Submits a few more than there are compilers. Submitting all at once would keep every cubin in memory.
void Recorder::submit_more() {
    const jit::Target target = engine_.target();
    const Candidates::Part& part = candidates_.parts().front();
    while (submitted_ < candidates_.size() && submitted_ - tried_ < 4 * engine_.pool().capacity()) {
        const std::size_t point = submitted_++;
        const Config config = candidates_.at(point).config;
        engine_.pool().submit(
            {jit::render(services_.catalogue, *part.family, problem_, part.space, config, target), 1, engine_.new_owner(), ""},
            [this, point](const CompileOutcome& outcome) {
                ready_.push_back({point, outcome});
            });
    }
}

void Recorder::measure_all() {
    while (tried_ < candidates_.size()) {
        submit_more();
        engine_.wait_for([&] { return !ready_.empty(); });
        const Ready next = std::move(ready_.front());
        ready_.pop_front();
        try_one(next);
        ++tried_;
        tell(next.point);
    }
}

void Recorder::try_one(const Ready& ready) {
    Point& point = points_[ready.point];
    if (!ready.outcome.failure.empty()) {
        point.failure = to_string(TrialStatus::compile_failed);
    } else if (!ready.outcome.rejected.empty()) {
        point.failure = to_string(TrialStatus::rejected);
    } else {
        const RunOutcome outcome = measure(ready.point, ready.outcome.compiled, true);
        if (!outcome.ok()) point.failure = to_string(outcome.status);
        point.instance = ready.outcome.compiled;
    }
    failed_ += point.failure.empty() ? 0 : 1;
}

RunOutcome Recorder::measure(std::size_t point, const Instance& instance, bool verify) {
    const RungOptions probe;
    RunOutcome outcome = session_->open(kSlot, candidates_.at(point), instance, verify);
    if (!outcome.ok()) return outcome;
    outcome = session_->sample(kSlot,
                               {.samples = probe.probe_samples, .time_us = options_.time_us, .most_samples = probe.most_samples});
    std::vector<double>& samples_us = points_[point].samples_us;
    samples_us.insert(samples_us.end(), outcome.samples_us.begin(), outcome.samples_us.end());
    return outcome;
}

// Alternates between the best points, so that a drift of the card favours none.
void Recorder::refine() {
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < points_.size(); ++i) {
        if (points_[i].failure.empty()) order.emplace_back(stats::median(points_[i].samples_us), i);
    }
    std::sort(order.begin(), order.end());
    if (order.size() > options_.refined) order.resize(options_.refined);
    for (const auto& [time_us, point] : order) points_[point].samples_us.clear();
    for (int turn = 0; turn <= kRefiningTurns; ++turn) {
        for (const auto& [time_us, i] : order) {
            if (points_[i].failure.empty() && !measure(i, points_[i].instance, false).ok()) points_[i].failure = "unstable";
        }
    }
}

void Recorder::tell(std::size_t point) {
    const Point& tried = points_[point];
    if (tried.failure.empty()) {
        const double time_us = stats::median(tried.samples_us);
        best_us_ = std::min(best_us_.value_or(time_us), time_us);
    }
    if (services_.observer == nullptr) return;
    Progress progress;
    progress.phase = Phase::trial;
    progress.compiled = engine_.pool().compiled();
    progress.tried = static_cast<int>(tried_);
    progress.failed = static_cast<int>(failed_);
    progress.waiting = static_cast<int>(candidates_.size() - tried_);
    progress.best_us = best_us_;
    services_.observer->on_progress(progress);
}

RecordedSpace Recorder::space() const {
    const Candidates::Part& part = candidates_.parts().front();
    RecordedSpace space;
    space.name = std::string(part.family->name()) + " " + problem_.shape() + " on " + services_.device.identity.name;
    space.parameters = part.space.parameters;
    space.words.resize(space.parameters.size());
    for (std::size_t i = 0; i < points_.size(); ++i) {
        RecordedSpace::Row row;
        row.config = part.points[i];
        row.failure = points_[i].failure;
        if (row.failure.empty()) row.time_us = stats::median(points_[i].samples_us);
        row.prior = candidates_.predict_us(i);
        space.rows.push_back(std::move(row));
    }
    return space;
}

RecordedSpace Recorder::run() {
    set_up();
    measure_all();
    refine();
    return space();
}

}  // namespace

RecordedSpace record(const Problem& problem, const RecordOptions& options, TuneServices& services) {
    try {
        return Recorder(problem, options, services).run();
    } catch (const Interrupted&) {
        throw Error(ErrorCode::interrupted, "stopped before every point was tried; nothing was written");
    }
}

}  // namespace autotune::tuner
