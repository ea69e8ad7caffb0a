#include "tuner/session/lanes/lane_compilers.h"

#include <algorithm>
#include <utility>

#include "tuner/worker/protocol/wire.h"

namespace autotune::tuner {

LaneCompilers::LaneCompilers(WorkerChannel& channel, Options options)
    : channel_(channel), options_(std::move(options)), cache_(options_.cache_folder) {}

void LaneCompilers::submit(Job job, Callback done) {
    const std::string identity = job.rendered.identity;
    const auto known = jobs_.find(identity);
    if (known == jobs_.end() && job.keep_folder.empty()) {
        if (auto found = cache_.find(identity)) {
            done(outcome_from_cache(std::move(*found)));
            return;
        }
    }
    Pending& pending = known == jobs_.end() ? jobs_[identity] : known->second;
    const bool is_new = pending.waiters.empty();
    pending.waiters.push_back({job.owner, std::move(done)});
    if (!is_new && job.urgency >= pending.urgency) return;
    pending.urgency = job.urgency;
    channel_.send(
        {{{"event", "compile"}, {"rendered", wire::write(job.rendered)}, {"urgency", job.urgency}, {"keep", job.keep_folder}},
         {}});
}

void LaneCompilers::cancel(int owner) {
    for (auto job = jobs_.begin(); job != jobs_.end();) {
        std::erase_if(job->second.waiters, [&](const Waiter& waiter) { return waiter.owner == owner; });
        if (!job->second.waiters.empty()) {
            ++job;
            continue;
        }
        channel_.send({{{"event", "cancel"}, {"identity", job->first}}, {}});
        job = jobs_.erase(job);
    }
}

void LaneCompilers::add_to(std::vector<pollfd>& fds) const {
    fds.push_back({channel_.read_fd(), POLLIN, 0});
}

void LaneCompilers::serve() {
    while (const auto message = channel_.receive_now()) handle(*message);
}

void LaneCompilers::handle(const Message& message) {
    const std::string what = message.body.value("do", "");
    if (what == "compiled") return finish(message);
    if (what == "nvrtc") {
        nvrtc_ = message.body.at("version").get<std::string>();
    } else if (what == "quiet") {
        has_quiet_ = true;
    } else {
        ends_ = ends_ || what == "stop" || what == "end";
        options_.other(message);
    }
}

void LaneCompilers::finish(const Message& message) {
    const auto found = jobs_.find(message.body.at("identity").get<std::string>());
    if (found == jobs_.end()) return;  // cancelled meanwhile
    CompileOutcome outcome;
    outcome.failure = message.body.value("failure", "");
    outcome.by_circumstance = message.body.value("by_circumstance", false);
    outcome.rejected = message.body.value("rejected", "");
    outcome.log = message.body.value("log", "");
    if (message.body.contains("report")) {
        jit::Compiled compiled{message.body.at("symbol").get<std::string>(), found->first, message.payload,
                               wire::read_report(message.body.at("report"))};
        outcome.report = compiled.report;
        outcome.compiled = std::make_shared<const jit::Compiled>(std::move(compiled));
        if (!outcome.report.from_cache) {
            ++compiled_;
            busy_seconds_ += outcome.report.compile_ms / 1e3;
        }
    }
    const std::vector<Waiter> waiters = std::move(found->second.waiters);
    jobs_.erase(found);
    for (const Waiter& waiter : waiters) waiter.done(outcome);
}

void LaneCompilers::pause() {
    if (!options_.needs_quiet || has_quiet_ || ends_) return;
    channel_.send({{{"event", "quiet"}}, {}});
    while (!has_quiet_ && !ends_) {
        const auto message = channel_.receive();
        if (!message) return;  // the parent is gone, so the next wait ends this process
        handle(*message);
    }
}

void LaneCompilers::resume() {
    if (!std::exchange(has_quiet_, false)) return;
    channel_.send({{{"event", "loud"}}, {}});
}

std::optional<std::string> LaneCompilers::nvrtc_version() {
    if (nvrtc_.empty()) {
        if (!std::exchange(has_asked_nvrtc_, true)) channel_.send({{{"event", "nvrtc"}}, {}});
        return std::nullopt;
    }
    return nvrtc_;
}

}  // namespace autotune::tuner
