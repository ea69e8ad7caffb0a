#include "tuner/session/lanes/lanes.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "src/core/error.h"
#include "src/core/system/processors.h"
#include "src/records/bad_record.h"
#include "tuner/compile/compile_pool.h"
#include "tuner/session/lanes/lane_messages.h"
#include "tuner/worker/protocol/wire.h"
#include "tuner/worker/run_folder.h"
#include "tuner/worker/worker_log.h"
#include "tuner/worker/worker_process.h"

namespace autotune::tuner {
namespace {

using std::chrono::milliseconds;
using Failure = WorkSource::Failure;

constexpr milliseconds kLongestTurn{100};  // the longest delay until a stop, or a new item of a source, is noticed
constexpr auto kStopLimit = std::chrono::seconds(10);
constexpr milliseconds kLookAgain{300};  // wait before looking again at a problem that another process was tuning
constexpr int kMostRestarts = 1;
constexpr std::size_t kMaxLogBytes = 64 * 1024;

// Slices of one card share its clock and power. A slice's UUID does not tell which card it belongs to.
bool may_share_a_card(const std::vector<LaneGpu>& gpus) {
    return std::count_if(gpus.begin(), gpus.end(), [](const LaneGpu& gpu) { return gpu.uuid.starts_with("MIG-"); }) > 1;
}

class Lanes {
  public:
    Lanes(const std::vector<LaneGpu>& gpus, WorkSource& source, const LanesOptions& options, TuneServices& services);
    std::vector<LaneReport> run();

  private:
    struct Lane {
        LaneGpu gpu;
        LaneReport report;
        std::unique_ptr<WorkerProcess> process;  // nullptr: the process has ended, or its GPU is no longer used
        std::deque<WorkSource::Item> in_hand;    // the first is being tuned, the others are prepared
        std::string class_key;                   // the class of the item that it received last
        // The lane's owner numbers in the pool, by the identity of the instance that each waits for
        std::map<std::string, int> owners;
        std::string fatal;   // its last words
        bool waits = false;  // for an item
        bool is_told_to_end = false;
        int tried = 0, failed = 0;
        std::optional<Clock::time_point> kill_at;  // set once the lane was told to leave its GPU
    };
    // An item that a lane lost, or that another process was tuning.
    struct Returned {
        WorkSource::Item item;
        std::size_t lane;
        bool is_lost;
        Clock::time_point not_before{};
    };

    void start(std::size_t index);
    void wait();
    void serve(std::size_t index);
    void handle(std::size_t index, const Message& message);
    void compile(std::size_t index, const Message& message);
    void take_result(Lane& lane, const Message& message);
    void hand_out();
    void give(Lane& lane, WorkSource::Item item, bool is_again = false);
    bool give_returned(Lane& lane, bool is_lost);
    bool nothing_is_left() const;
    void end(Lane& lane, const char* how);
    void lose(std::size_t index, const std::string& reason);
    void give_back_items(Lane& lane, const std::string& reason);
    void give_up_returned();
    void call_back();
    void renew(std::size_t index);
    void stop_all();
    void ask_quiet(std::size_t index);
    void drop_quiet(std::size_t index);
    void grant_quiet();
    void show_progress();
    bool runs() const;
    bool stopping() const { return services_.stop != nullptr && services_.stop->load(); }
    bool is_alike(const Lane& one, const Lane& other) const {
        return one.gpu.device.identity.key() == other.gpu.device.identity.key();
    }
    LaneView view(const Lane& lane) const {
        return {static_cast<std::size_t>(&lane - lanes_.data()), lane.gpu.uuid, lane.gpu.device, lane.class_key};
    }
    void warn(const std::string& text) {
        if (services_.observer != nullptr) services_.observer->on_warning(text);
    }
    static std::string name_of(const Lane& lane) {
        return "GPU " + std::to_string(lane.gpu.ordinal) + " (" + lane.gpu.uuid + ")";
    }

    WorkSource& source_;
    LanesOptions options_;
    TuneServices& services_;
    WorkerSettings workers_;
    RunFolder run_folder_;
    bool needs_quiet_;
    std::unique_ptr<CompilePool> pool_;
    std::vector<Lane> lanes_;
    std::vector<Returned> returned_;
    bool has_told_of_others_ = false;    // whether the user was told about problems that other processes tune
    std::map<std::size_t, int> losses_;  // by item id
    std::deque<std::size_t> quiet_;      // lanes that requested quiet; the first lane has it now
    int owners_ = 0;
    Clock::time_point begun_ = Clock::now(), told_at_{};
    std::optional<Clock::time_point> kill_at_;  // set once all lanes were asked to stop
};

Lanes::Lanes(const std::vector<LaneGpu>& gpus, WorkSource& source, const LanesOptions& options, TuneServices& services)
    : source_(source),
      options_(options),
      services_(services),
      workers_(services.workers),
      needs_quiet_(options.finals_in_turns.value_or(usable_processors() < 2 * static_cast<int>(gpus.size()) + 1 ||
                                                    may_share_a_card(gpus))) {
    workers_.cache_folder = run_folder_.or_named(workers_.cache_folder);
    workers_.lock_folder = run_folder_.or_named(workers_.lock_folder);
    if (workers_.compile_workers == 0) workers_.compile_workers = usable_compilers(static_cast<int>(gpus.size()) + 1);
    pool_ = std::make_unique<CompilePool>(CompilePool::Options{
        .workers = workers_, .cache_folder = workers_.cache_folder, .warn = [this](const std::string& text) { warn(text); }});
    lanes_.resize(gpus.size());
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        lanes_[i].gpu = gpus[i];
        lanes_[i].report.uuid = gpus[i].uuid;
        lanes_[i].report.name = gpus[i].device.identity.name;
        lanes_[i].report.ordinal = gpus[i].ordinal;
    }
}

std::vector<LaneReport> Lanes::run() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) start(i);
    while (runs()) {
        if (stopping() && !kill_at_) stop_all();
        if (kill_at_ && Clock::now() > *kill_at_) {
            for (Lane& lane : lanes_) {
                if (lane.process != nullptr) lane.process->kill();
            }
        }
        wait();
        pool_->serve();
        for (std::size_t i = 0; i < lanes_.size(); ++i) serve(i);
        if (!kill_at_) call_back();
        if (!kill_at_) hand_out();
        show_progress();
    }
    give_up_returned();
    std::vector<LaneReport> reports;
    for (Lane& lane : lanes_) reports.push_back(std::move(lane.report));
    return reports;
}

bool Lanes::runs() const {
    return std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.process != nullptr; });
}

// The variable for the GPU is set before the lane starts, because a driver reads it once.
void Lanes::start(std::size_t index) {
    Lane& lane = lanes_[index];
    std::vector<std::string> arguments{"__worker", "lane", "--parent", std::to_string(::getpid())};
    add_log_level(arguments, workers_.log);
    const bool has_uuid = lane.gpu.uuid.starts_with("GPU-") || lane.gpu.uuid.starts_with("MIG-");
    std::vector<std::string> variables;
    if (has_uuid) variables.push_back("CUDA_VISIBLE_DEVICES=" + lane.gpu.uuid);
    lane.process = std::make_unique<WorkerProcess>(
        workers_.binary, arguments, workers_.profiled ? WorkerProcess::Environment::whole : WorkerProcess::Environment::cleaned,
        std::move(variables));
    LaneBegin begin;
    begin.each = options_.each;
    begin.device = lane.gpu.device;
    begin.uuid = lane.gpu.uuid;
    begin.provenance = lane.gpu.provenance;
    begin.note = lane.gpu.note;
    begin.workers = workers_;
    begin.workers.device = has_uuid ? 0 : lane.gpu.ordinal;
    begin.store = options_.store;
    begin.families = services_.catalogue.definitions();
    begin.proves_first = options_.proves_first;
    begin.needs_quiet = needs_quiet_;
    begin.compilers = pool_->capacity();
    lane.process->send({write(begin), {}});
    lane.waits = false;
    lane.is_told_to_end = false;
}

void Lanes::wait() {
    std::vector<pollfd> fds;
    pool_->add_to(fds);
    for (const Lane& lane : lanes_) {
        if (lane.process == nullptr) continue;
        fds.push_back({lane.process->read_fd(), POLLIN, 0});
        if (lane.process->wants_write()) fds.push_back({lane.process->write_fd(), POLLOUT, 0});
    }
    milliseconds limit = kLongestTurn;
    if (const auto deadline = pool_->next_deadline())
        limit = std::clamp(std::chrono::ceil<milliseconds>(*deadline - Clock::now()), milliseconds(0), limit);
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(limit.count()));
    check(ready >= 0 || errno == EINTR, std::string("poll: ") + std::strerror(errno));
}

void Lanes::serve(std::size_t index) {
    Lane& lane = lanes_[index];
    if (lane.process == nullptr) return;
    lane.process->flush();
    std::string nonsense;
    try {
        for (const Message& message : lane.process->receive()) handle(index, message);
    } catch (const Json::exception& error) {
        nonsense = error.what();
    } catch (const records::BadRecord& error) {
        nonsense = error.what();
    } catch (const Error& error) {
        if (error.code() != ErrorCode::internal) throw;
        nonsense = error.what();
    }
    if (!nonsense.empty()) return lose(index, "its process sent a message that makes no sense: " + nonsense);
    if (!lane.process->closed()) return;
    if (lane.kill_at && !kill_at_) return renew(index);
    const std::string how = lane.process->how_it_ended();
    if (lane.is_told_to_end && lane.in_hand.empty()) {
        drop_quiet(index);
        lane.process.reset();
        return;
    }
    lose(index, lane.fatal.empty() ? "its process " + how : lane.fatal);
}

void Lanes::handle(std::size_t index, const Message& message) {
    Lane& lane = lanes_[index];
    if (take_log(message, workers_.log, "lane " + lane.gpu.uuid)) return;
    const std::string event = message.body.at("event").get<std::string>();
    if (event == "ready") {
        if (const std::string other = other_build(workers_, message.body.value("build", "")); !other.empty())
            throw Error(ErrorCode::system, other);
    } else if (event == "take") {
        lane.waits = true;
    } else if (event == "ahead") {
        if (lane.in_hand.size() > 1 || kill_at_) return;
        if (auto item = source_.take(view(lane), true)) give(lane, std::move(*item));
    } else if (event == "item") {
        take_result(lane, message);
    } else if (event == "compile") {
        compile(index, message);
    } else if (event == "cancel") {
        const auto found = lane.owners.find(message.body.at("identity").get<std::string>());
        if (found == lane.owners.end()) return;
        pool_->cancel(found->second);
        lane.owners.erase(found);
    } else if (event == "nvrtc") {
        const std::string& version = lane.gpu.provenance.nvrtc;
        lane.process->send({{{"do", "nvrtc"}, {"version", version}}, {}});
    } else if (event == "quiet") {
        ask_quiet(index);
    } else if (event == "loud") {
        drop_quiet(index);
    } else if (event == "progress") {
        lane.tried = message.body.at("tried").get<int>();
        lane.failed = message.body.at("failed").get<int>();
    } else if (event == "warning") {
        const bool is_of_gpu = message.body.at("is_of_gpu").get<bool>();
        warn((is_of_gpu ? name_of(lane) + ": " : "") + message.body.at("text").get<std::string>());
    } else if (event == "fatal") {
        lane.fatal = message.body.at("message").get<std::string>();
        const auto code = static_cast<ErrorCode>(message.body.at("code").get<int>());
        // Every lane would fail in the same way.
        if (code == ErrorCode::database || code == ErrorCode::no_compiler) throw Error(code, lane.fatal);
    }
}

void Lanes::compile(std::size_t index, const Message& message) {
    jit::Rendered rendered = wire::read_rendered(message.body.at("rendered"));
    const std::string identity = rendered.identity;
    const auto [owner, is_new] = lanes_[index].owners.try_emplace(identity, owners_ + 1);
    if (is_new) ++owners_;
    pool_->submit({.rendered = std::move(rendered),
                   .urgency = message.body.at("urgency").get<int>(),
                   .owner = owner->second,
                   .keep_folder = message.body.at("keep").get<std::string>(),
                   .client = static_cast<int>(index)},
                  [this, index, identity](const CompileOutcome& outcome) {
                      Lane& lane = lanes_[index];
                      if (lane.owners.erase(identity) == 0 || lane.process == nullptr) return;
                      Message reply{{{"do", "compiled"},
                                     {"identity", identity},
                                     {"failure", outcome.failure},
                                     {"by_circumstance", outcome.by_circumstance},
                                     {"rejected", outcome.rejected},
                                     {"log", outcome.log.substr(0, kMaxLogBytes)}},
                                    {}};
                      if (outcome.compiled != nullptr) {
                          reply.body["symbol"] = outcome.compiled->symbol;
                          reply.body["report"] = wire::write(outcome.compiled->report);
                          reply.payload = outcome.compiled->cubin;
                      }
                      lane.process->send(reply);
                  });
}

void Lanes::take_result(Lane& lane, const Message& message) {
    const auto id = message.body.at("id").get<std::size_t>();
    const auto place =
        std::find_if(lane.in_hand.begin(), lane.in_hand.end(), [&](const WorkSource::Item& item) { return item.id == id; });
    if (place == lane.in_hand.end()) return;
    SweepItem item = read_result(message.body, place->problem);
    item.gpu = lane.gpu.uuid;
    WorkSource::Item taken = std::move(*place);
    lane.in_hand.erase(place);
    if (item.state == SweepItem::State::in_work) {
        if (!std::exchange(has_told_of_others_, true))
            warn("another process is tuning some of these problems; they are looked up once it is done");
        if (kill_at_) return source_.failed(id, Failure::stopped, "");
        const auto index = static_cast<std::size_t>(&lane - lanes_.data());
        returned_.push_back({std::move(taken), index, false, Clock::now() + kLookAgain});
        return;
    }
    losses_.erase(id);
    ++lane.report.items;
    lane.report.seconds += item.seconds;
    source_.done(view(lane), id, std::move(item));
}

void Lanes::hand_out() {
    for (Lane& lane : lanes_) {
        if (!lane.waits || lane.process == nullptr || lane.is_told_to_end) continue;
        if (give_returned(lane, true)) continue;
        if (auto item = source_.take(view(lane), false)) {
            give(lane, std::move(*item));
        } else {
            give_returned(lane, false);
        }
    }
    if (!nothing_is_left()) return;
    // This also ends lanes that still wait for their GPU.
    for (Lane& lane : lanes_) end(lane, "end");
}

void Lanes::give(Lane& lane, WorkSource::Item item, bool is_again) {
    lane.waits = false;
    lane.class_key = item.problem.class_key();
    lane.process->send({{{"do", "tune"}, {"id", item.id}, {"problem", wire::write(item.problem)}, {"again", is_again}}, {}});
    lane.in_hand.push_back(std::move(item));
}

// A lost item does not go back to the lane that lost it while another lane with the same kind of card is running. An item that
// another process was tuning is checked again when there is nothing else to do.
bool Lanes::give_returned(Lane& lane, bool is_lost) {
    const auto may_have = [&](const Returned& returned) {
        const Lane& before = lanes_[returned.lane];
        if (returned.is_lost != is_lost || !is_alike(lane, before) || Clock::now() < returned.not_before) return false;
        return !is_lost || &lane != &before || std::none_of(lanes_.begin(), lanes_.end(), [&](const Lane& other) {
            return &other != &before && other.process != nullptr && !other.is_told_to_end && is_alike(other, before);
        });
    };
    const auto found = std::find_if(returned_.begin(), returned_.end(), may_have);
    if (found == returned_.end()) return false;
    WorkSource::Item item = std::move(found->item);
    returned_.erase(found);
    give(lane, std::move(item), !is_lost);
    return true;
}

bool Lanes::nothing_is_left() const {
    return source_.is_exhausted() && returned_.empty() &&
           std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.in_hand.empty(); });
}

void Lanes::end(Lane& lane, const char* how) {
    if (lane.process == nullptr || std::exchange(lane.is_told_to_end, true)) return;
    lane.process->send({{{"do", how}}, {}});
}

// A lane that must leave its GPU is asked to stop, and killed if it does not. serve() restarts it.
void Lanes::call_back() {
    for (Lane& lane : lanes_) {
        if (lane.process == nullptr) continue;
        if (lane.kill_at) {
            if (Clock::now() > *lane.kill_at) lane.process->kill();
        } else if (!lane.in_hand.empty() && !lane.is_told_to_end && source_.wants_back(view(lane))) {
            end(lane, "stop");
            lane.kill_at = Clock::now() + kStopLimit;
        }
    }
}

// Restarts a lane that was told to leave its GPU. Its prepared items go back too.
void Lanes::renew(std::size_t index) {
    Lane& lane = lanes_[index];
    drop_quiet(index);
    for (const auto& [identity, owner] : lane.owners) pool_->cancel(owner);
    lane.owners.clear();
    lane.fatal.clear();
    lane.process.reset();
    lane.kill_at.reset();
    for (const WorkSource::Item& item : std::exchange(lane.in_hand, {})) {
        losses_.erase(item.id);
        source_.failed(item.id, Failure::stopped, "others want its GPU");
    }
    if (source_.is_exhausted()) return;
    try {
        start(index);
    } catch (const Error& error) {
        lane.report.out_because = error.what();
        source_.lane_out(view(lane));
    }
}

void Lanes::stop_all() {
    kill_at_ = Clock::now() + kStopLimit;
    for (Lane& lane : lanes_) end(lane, "stop");
}

// Handles a lane that ended by itself or sent invalid messages.
void Lanes::lose(std::size_t index, const std::string& reason) {
    Lane& lane = lanes_[index];
    drop_quiet(index);
    for (const auto& [identity, owner] : lane.owners) pool_->cancel(owner);
    lane.owners.clear();
    const std::string last = std::exchange(lane.fatal, "");
    lane.process.reset();
    give_back_items(lane, reason);
    if (kill_at_) return;
    if (lane.report.restarts < kMostRestarts) {
        ++lane.report.restarts;
        log_to(workers_.log, LogLevel::warn, "lane " + lane.gpu.uuid, [&] { return reason + "; it is started again"; });
        try {
            return start(index);
        } catch (const Error&) {
            // Keeps the first reason why its GPU is no longer used.
        }
    }
    lane.report.out_because = reason;
    source_.lane_out(view(lane));
    warn(name_of(lane) + " takes no more problems: " + reason);
    if (!runs()) return;
    // Without another card of this kind, no lane can do these items.
    std::erase_if(returned_, [&](const Returned& returned) {
        const Lane& loser = lanes_[returned.lane];
        const bool somebody_can = std::any_of(
            lanes_.begin(), lanes_.end(), [&](const Lane& other) { return other.process != nullptr && is_alike(other, loser); });
        if (!somebody_can) source_.failed(returned.item.id, Failure::no_lane, reason);
        return !somebody_can;
    });
}

// The running item goes back to the source at most once. Items that were only prepared go back without being counted.
void Lanes::give_back_items(Lane& lane, const std::string& reason) {
    const auto index = static_cast<std::size_t>(&lane - lanes_.data());
    bool is_at_work = !lane.waits;
    for (WorkSource::Item& item : std::exchange(lane.in_hand, {})) {
        if (kill_at_) {
            source_.failed(item.id, Failure::stopped, reason);
        } else if (is_at_work && ++losses_[item.id] > 1) {
            losses_.erase(item.id);
            source_.failed(item.id, Failure::lost_twice, reason);
        } else {
            returned_.push_back({std::move(item), index, true});
        }
        is_at_work = false;
    }
}

void Lanes::give_up_returned() {
    for (const Returned& returned : std::exchange(returned_, {}))
        source_.failed(returned.item.id, kill_at_ ? Failure::stopped : Failure::no_lane, "no GPU is left");
}

// ---- one final race at a time, with stopped compilers, if there are too few processors for both ----

void Lanes::ask_quiet(std::size_t index) {
    quiet_.push_back(index);
    if (quiet_.size() == 1) grant_quiet();
}

void Lanes::grant_quiet() {
    pool_->pause();
    lanes_[quiet_.front()].process->send({{{"do", "quiet"}}, {}});
}

void Lanes::drop_quiet(std::size_t index) {
    const bool had_it = !quiet_.empty() && quiet_.front() == index;
    std::erase(quiet_, index);
    if (!had_it) return;
    if (quiet_.empty()) {
        pool_->resume();
    } else {
        grant_quiet();
    }
}

void Lanes::show_progress() {
    if (services_.observer == nullptr || Clock::now() - told_at_ < kLongestTurn) return;
    told_at_ = Clock::now();
    Progress now;
    now.phase = Phase::trial;
    now.compiled = pool_->compiled();
    for (const Lane& lane : lanes_) {
        now.tried += lane.tried;
        now.failed += lane.failed;
    }
    now.elapsed_s = seconds_since(begun_);
    services_.observer->on_progress(now);
}

}  // namespace

std::vector<LaneReport> run_lanes(const std::vector<LaneGpu>& gpus, WorkSource& source, const LanesOptions& options,
                                  TuneServices& services) {
    Lanes lanes(gpus, source, options, services);
    return lanes.run();
}

}  // namespace autotune::tuner
