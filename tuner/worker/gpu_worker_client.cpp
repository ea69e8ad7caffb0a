#include "tuner/worker/gpu_worker_client.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "src/core/error.h"
#include "tuner/worker/protocol/wire.h"
#include "tuner/worker/worker_log.h"

namespace autotune::tuner {
namespace {

constexpr auto kReapLimit = std::chrono::seconds(5);
constexpr int kMostRestarts = 2;  // a worker that dies before it has a context is restarted this many times

double limit_of(const StageLimits& limits, const std::string& stage) {
    if (stage == "start") return limits.start_s;
    if (stage == "load") return limits.load_s;
    if (stage == "launch") return limits.launch_s;
    if (stage == "verify") return limits.verify_s;
    if (stage == "reference") return limits.reference_s;
    return limits.time_s;
}

std::chrono::microseconds as_duration(double seconds) {
    return std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

// The error code for a worker that cannot start. If the driver is missing for a later worker, it was there for the first, so the
// GPU is unhealthy.
ErrorCode code_of(const std::string& word, int generation) {
    if (word == "internal") return ErrorCode::internal;
    if (word == "gpu_in_use") return ErrorCode::gpu_in_use;
    if (word == "system") return ErrorCode::system;
    return word == "no_gpu" && generation == 1 ? ErrorCode::no_gpu : ErrorCode::gpu_unhealthy;
}

std::string limit_text(double seconds) {
    std::ostringstream text;
    text.precision(3);
    text << seconds << " s";
    return text.str();
}

// A stage's limit may be extended up to this many times its length while other processes use the processors.
constexpr double kMostGranted = 20;

// Whether a stage ends when a kernel of the candidate ends.
bool runs_a_kernel(const std::string& stage) {
    return stage == "launch" || stage == "verify" || stage == "time";
}

}  // namespace

GpuWorkerClient::~GpuWorkerClient() {
    if (process_ == nullptr) return;
    process_->kill();
    if (!process_->reap(kReapLimit)) process_->abandon();
}

void GpuWorkerClient::start() {
    if (process_ != nullptr) return;
    ++generation_;
    start_process();
}

void GpuWorkerClient::start_process() {
    std::vector<std::string> arguments{
        "__worker", "gpu", "--parent", std::to_string(::getpid()), "--device", std::to_string(settings_.device)};
    if (!settings_.templates_folder.empty()) {
        arguments.insert(arguments.end(), {"--templates", settings_.templates_folder});
    }
    for (const std::string& folder : settings_.library_folders) arguments.insert(arguments.end(), {"--libraries", folder});
    if (settings_.profiled) arguments.insert(arguments.end(), {"--profiled", "1"});
    add_log_level(arguments, settings_.log);
    process_ = std::make_unique<WorkerProcess>(
        settings_.binary, arguments,
        settings_.profiled ? WorkerProcess::Environment::whole : WorkerProcess::Environment::cleaned);
    ready_ = false;
    note(LogLevel::debug, "started for device " + std::to_string(settings_.device));
    if (!families_.empty()) {
        Message message{{{"do", "define"}, {"families", Json::array()}}, {}};
        for (const FamilyDefinition& family : families_) message.body["families"].push_back(wire::write(family));
        process_->send(message);
    }
    enter_stage("start", -1);
}

void GpuWorkerClient::send(const Message& request, const StageLimits& limits) {
    check(!busy_, "a request to a GPU worker that is busy");
    limits_ = limits;
    start();
    busy_ = true;
    if (!ready_) early_request_ = request;
    process_->send(request);
    if (ready_) enter_stage(request.body.value("stage", "time"), request.body.value("slot", -1));
}

std::optional<GpuWorkerReply> GpuWorkerClient::take_reply() {
    return std::exchange(reply_, std::nullopt);
}

void GpuWorkerClient::add_to(std::vector<pollfd>& fds) const {
    if (process_ == nullptr) return;
    fds.push_back({process_->read_fd(), POLLIN, 0});
    if (process_->wants_write()) fds.push_back({process_->write_fd(), POLLOUT, 0});
}

std::optional<Clock::time_point> GpuWorkerClient::next_deadline() const {
    return process_ != nullptr && (busy_ || !ready_) ? deadline_ : std::nullopt;
}

void GpuWorkerClient::serve() {
    if (process_ == nullptr) return;
    process_->flush();
    for (const Message& message : process_->receive()) {
        try {
            handle(message);
        } catch (const Json::exception&) {
            put_down();
            finish({GpuWorkerReply::Kind::crashed,
                    {},
                    stage_,
                    slot_,
                    "the GPU worker sent a message that makes no sense during " + stage_});
        }
        if (process_ == nullptr) return;
    }
    if (process_->closed()) {
        const std::string how = process_->how_it_ended();
        const bool by_others = process_->was_ended_by_others();
        note(LogLevel::warn, how + " during " + stage_);
        put_down();
        if (!ready_ && by_others) return restart(how);
        if (!ready_) throw Error(ErrorCode::gpu_unhealthy, "the GPU worker " + how + " before it had a GPU context");
        finish({GpuWorkerReply::Kind::crashed, {}, stage_, slot_, "the GPU worker " + how + " during " + stage_, by_others});
    } else if (const auto deadline = next_deadline(); deadline && Clock::now() > *deadline && !grant_waiting()) {
        const std::string limit = limit_text(limit_of(limits_, stage_));
        const bool process_was_served =
            process_->waited_for_processor_s() && granted_s_ < kMostGranted * limit_of(limits_, stage_);
        note(LogLevel::warn, "ended: stage " + stage_ + " took longer than " + limit);
        put_down();
        if (!ready_) throw Error(ErrorCode::gpu_unhealthy, "the GPU gave no context in " + limit);
        const bool by_kernel = runs_a_kernel(stage_) && process_was_served;
        finish({GpuWorkerReply::Kind::timed_out,
                {},
                stage_,
                slot_,
                "stage " + stage_ + " did not end in " + limit + (by_kernel ? std::string(" ") + kOfItsOwnTime : ""),
                !by_kernel});
    }
}

// Others may kill a worker at any moment: the kernel for lack of memory, a person, a batch system. Before it has a context it has
// no state, so another process of the same generation takes its place and its request. REQUIRES: there is no process.
void GpuWorkerClient::restart(const std::string& how) {
    if (restarts_ == kMostRestarts) {
        restarts_ = 0;
        throw Error(ErrorCode::system, "the GPU worker " + how + " before it had a GPU context, " +
                                           std::to_string(kMostRestarts + 1) +
                                           " times in a row; signal 9 often means that host memory ran out: free memory or raise "
                                           "the memory limit, and run the same command again");
    }
    ++restarts_;
    start_process();
    if (busy_) process_->send(early_request_);
}

void GpuWorkerClient::stop() {
    if (process_ != nullptr) put_down();
    restarts_ = 0;
    busy_ = false;
    reply_.reset();
}

void GpuWorkerClient::handle(const Message& message) {
    if (take_log(message, settings_.log, source())) return;
    const std::string event = message.body.value("event", "");
    if (event == "ready") {
        if (const std::string other = other_build(settings_, message.body.value("build", "")); !other.empty()) {
            put_down();
            throw Error(ErrorCode::system, other);
        }
        ready_ = true;
        restarts_ = 0;
        early_request_ = {};
        hello_ = message.body;
        deadline_.reset();
        if (busy_) enter_stage("time", -1);
    } else if (event == "fatal") {
        note(LogLevel::error, message.body.value("message", ""));
        const std::string why = message.body.value("message", "the GPU worker could not start");
        const ErrorCode code = code_of(message.body.value("code", ""), generation_);
        put_down();
        throw Error(code, why);
    } else if (event == "stage") {
        enter_stage(message.body.value("stage", ""), message.body.value("slot", -1));
    } else if (event == "sticky") {
        note(LogLevel::warn, "lost its context during " + stage_ + ": " + message.body.value("detail", ""));
        put_down();
        const bool is_candidates = message.body.value("is_candidates", true);
        finish({GpuWorkerReply::Kind::crashed,
                {},
                stage_,
                slot_,
                message.body.value("detail", "") + " during " + stage_,
                !is_candidates});
    } else if (event == "reply") {
        busy_seconds_ += message.body.value("seconds", 0.0);
        finish({GpuWorkerReply::Kind::answered, message.body, stage_, slot_, ""});
    }
}

void GpuWorkerClient::enter_stage(const std::string& stage, int slot) {
    stage_ = stage;
    slot_ = slot;
    deadline_ = Clock::now() + as_duration(limit_of(limits_, stage));
    waited_before_s_ = process_->waited_for_processor_s().value_or(0);
    granted_s_ = 0;
}

// The limit has passed. Extends it by the time for which the worker waited for a processor since the stage began, because a busy
// machine is not the candidate's fault. Returns whether there was such time that was not granted yet.
bool GpuWorkerClient::grant_waiting() {
    constexpr double kLeast_s = 0.05;
    const double waited_s = process_->waited_for_processor_s().value_or(waited_before_s_) - waited_before_s_;
    const double more_s = std::min(waited_s, kMostGranted * limit_of(limits_, stage_)) - granted_s_;
    if (more_s < kLeast_s) return false;
    granted_s_ += more_s;
    deadline_ = *deadline_ + as_duration(more_s);
    return true;
}

void GpuWorkerClient::finish(GpuWorkerReply reply) {
    if (!busy_) return;
    busy_ = false;
    reply_ = std::move(reply);
}

std::string GpuWorkerClient::source() const {
    return "GPU worker " + std::to_string(process_->pid());
}

// REQUIRES: there is a process.
void GpuWorkerClient::note(LogLevel level, const std::string& text) {
    log_to(settings_.log, level, source(), [&] { return text; });
}

void GpuWorkerClient::put_down() {
    process_->kill();
    if (process_->reap(kReapLimit)) {
        process_.reset();
        return;
    }
    const pid_t stuck = process_->pid();
    process_->abandon();
    process_.reset();
    throw Error(ErrorCode::gpu_unhealthy,
                "the GPU worker (process " + std::to_string(stuck) +
                    ") cannot be ended: the GPU or its driver is stuck; nothing more can be timed on it");
}

}  // namespace autotune::tuner
