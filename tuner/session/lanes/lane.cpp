#include "tuner/session/lanes/lane.h"

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "src/catalogue/former_templates.h"
#include "src/core/error.h"
#include "tuner/session/lanes/lane_compilers.h"
#include "tuner/session/lanes/lane_messages.h"
#include "tuner/session/sweep/item_loop.h"
#include "tuner/worker/build_id.h"
#include "tuner/worker/protocol/wire.h"
#include "tuner/worker/worker_log.h"

namespace autotune::tuner {
namespace {

using std::chrono::milliseconds;

constexpr double kRestAfter_s = 1;  // seconds without an item, after which the GPU is released for others
constexpr double kTellEvery_s = 0.5;

Catalogue catalogue_of(const LaneBegin& begin) {
    const std::string& folder = begin.workers.templates_folder;
    Catalogue catalogue = folder.empty() ? Catalogue::embedded() : Catalogue::from_directory(folder);
    for (const FamilyDefinition& family : begin.families) catalogue.add(family);
    return catalogue;
}

class Lane : public TuneObserver {
  public:
    Lane(WorkerChannel& channel, LaneBegin begin, LogSink* log);
    void run();

    void on_progress(const Progress& progress) override;
    void on_warning(const std::string& text) override { warn(text, true); }

  private:
    struct Item {
        std::size_t id;
        Problem problem;
        bool is_again;  // another process was tuning it
    };
    void warn(const std::string& text, bool is_of_gpu) {
        channel_.send({{{"event", "warning"}, {"text", text}, {"is_of_gpu", is_of_gpu}}, {}});
    }
    void hear(const Message& message);
    TuneServices services(LogSink* log);
    std::unique_ptr<db::WinnerStore> open_store();
    std::optional<Item> next_item();
    const Problem* following();

    WorkerChannel& channel_;
    LaneBegin begin_;
    Catalogue catalogue_;
    std::unique_ptr<db::WinnerStore> store_;
    LaneCompilers compilers_;
    std::atomic<bool> stop_{false};
    TuneServices services_;
    ItemLoop loop_;
    std::deque<Item> items_;  // received and not begun
    bool has_asked_ahead_ = false;
    int tried_before_ = 0, failed_before_ = 0;  // numbers for the items that are done
    Progress now_;
    Clock::time_point told_at_{};
};

Lane::Lane(WorkerChannel& channel, LaneBegin begin, LogSink* log)
    : channel_(channel),
      begin_(std::move(begin)),
      catalogue_(catalogue_of(begin_)),
      store_(open_store()),
      compilers_(channel, {.cache_folder = begin_.workers.cache_folder,
                           .capacity = begin_.compilers,
                           .needs_quiet = begin_.needs_quiet,
                           .other = [this](const Message& message) { hear(message); }}),
      services_(services(log)),
      loop_(begin_.each, services_) {}

TuneServices Lane::services(LogSink* log) {
    begin_.workers.log = log;
    return {.catalogue = catalogue_,
            .store = store_.get(),
            .device = begin_.device,
            .device_uuid = begin_.uuid,
            .provenance = begin_.provenance,
            .workers = begin_.workers,
            .observer = this,
            .stop = &stop_,
            .compilers = &compilers_,
            .note = begin_.note};
}

std::unique_ptr<db::WinnerStore> Lane::open_store() {
    if (begin_.store.path.empty()) return nullptr;
    db::OpenOptions options = begin_.store;
    options.former = former_templates(catalogue_);
    options.on_warning = [this](const db::Warning& warning) {
        if (warning.kind != db::WarningKind::missing) warn(warning.text, false);
    };
    return db::open_store(options);
}

void Lane::run() {
    try {
        if (begin_.proves_first) {
            loop_.engine().acquire_gpu();
            loop_.prove_gpu();
        }
        while (const std::optional<Item> item = next_item()) {
            SweepItem swept;
            swept.problem = item->problem;
            loop_.tune(
                swept, [this] { return following(); }, item->is_again);
            tried_before_ += std::exchange(now_.tried, 0);
            failed_before_ += std::exchange(now_.failed, 0);
            Json body = write_result(swept);
            body.update({{"event", "item"}, {"id", item->id}});
            channel_.send({std::move(body), {}});
            if (loop_.stopped()) return;
        }
    } catch (const Interrupted&) {
        // The lane was told to end while it was waiting.
    }
}

// "end" arrives when the lane has no item, so both end its wait.
void Lane::hear(const Message& message) {
    const std::string what = message.body.at("do").get<std::string>();
    if (what == "tune") {
        items_.push_back({message.body.at("id").get<std::size_t>(), wire::read_problem(message.body.at("problem")),
                          message.body.at("again").get<bool>()});
    } else if (what == "stop" || what == "end") {
        stop_.store(true);
    } else {
        internal_error(unknown_request("lane", what));
    }
}

std::optional<Lane::Item> Lane::next_item() {
    has_asked_ahead_ = false;
    if (items_.empty()) channel_.send({{{"event", "take"}}, {}});
    const auto since = Clock::now();
    bool rests = false;
    while (items_.empty()) {
        loop_.engine().pump(milliseconds(100));
        if (rests || seconds_since(since) < kRestAfter_s) continue;
        loop_.engine().gpu_worker().stop();
        loop_.engine().release_gpu();
        rests = true;
    }
    Item first = std::move(items_.front());
    items_.pop_front();
    return first;
}

const Problem* Lane::following() {
    if (!items_.empty()) return &items_.front().problem;
    if (!std::exchange(has_asked_ahead_, true)) channel_.send({{{"event", "ahead"}}, {}});
    return nullptr;
}

void Lane::on_progress(const Progress& progress) {
    now_ = progress;
    if (seconds_since(told_at_) < kTellEvery_s) return;
    told_at_ = Clock::now();
    channel_.send(
        {{{"event", "progress"}, {"tried", tried_before_ + progress.tried}, {"failed", failed_before_ + progress.failed}}, {}});
}

}  // namespace

int run_lane(const std::string& log_level) {
    WorkerChannel channel;
    WorkerLog log(channel, log_level);
    try {
        const auto first = channel.receive();
        if (!first) return 1;
        check(first->body.value("do", "") == "begin", unknown_request("lane", first->body.value("do", "")));
        channel.send({{{"event", "ready"}, {"build", build_id()}}, {}});
        Lane lane(channel, read_begin(first->body), log.sink());
        lane.run();
        return 0;
    } catch (const Error& error) {
        channel.send({{{"event", "fatal"}, {"code", static_cast<int>(error.code())}, {"message", error.what()}}, {}});
    }
    return 1;
}

}  // namespace autotune::tuner
