#include "tuner/compile/compile_pool.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include "src/core/error.h"
#include "src/core/system/processors.h"
#include "src/core/system/write_file.h"
#include "src/records/bad_record.h"
#include "tuner/worker/protocol/wire.h"
#include "tuner/worker/worker_log.h"

namespace autotune::tuner {
namespace {

constexpr int kMaxDeathsInARow = 12;  // If this many workers in a row die before saying "ready", the machine cannot run them.

std::size_t worker_count(const WorkerSettings& settings) {
    return static_cast<std::size_t>(settings.compile_workers > 0 ? settings.compile_workers : usable_compilers(1));
}

// Writes the files of an instance for people to read. Returns what could not be written and why, or "".
std::string keep_files(const std::string& folder, const jit::Rendered& rendered, const CompileOutcome& outcome) {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed) return folder + " cannot be made (" + failed.message() + ")";
    const auto keep = [&](const std::string& ending, std::string_view text) -> std::string {
        const std::string path = folder + "/" + rendered.symbol + ending;
        const std::error_code why = replace_file(path, text, FileWriter::Durable::no);
        return why ? path + " cannot be written (" + why.message() + ")" : "";
    };
    std::string trouble = keep(".cu", rendered.source);
    const std::string log = outcome.failure.empty() ? outcome.log : outcome.failure + "\n" + outcome.log;
    if (trouble.empty()) trouble = keep(".log", log);
    if (!trouble.empty() || !outcome.compiled) return trouble;
    const auto& cubin = outcome.compiled->cubin;
    return keep(".cubin", {reinterpret_cast<const char*>(cubin.data()), cubin.size()});
}

std::chrono::microseconds as_duration(double seconds) {
    return std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

// Whether this command runs under a memory limit that makes a working compiler fail (`ulimit -v`).
bool has_little_address_space() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_max != RLIM_INFINITY && limit.rlim_max < (rlim_t{4} << 30);
}

std::string seconds_text(double seconds) {
    std::ostringstream text;
    text << seconds << " s";
    return text.str();
}

}  // namespace

CompilePool::CompilePool(Options options)
    : options_(std::move(options)), cache_(options_.cache_folder), capacity_(worker_count(options_.workers)) {
    cache_.clean();
}

// If the folder cannot be written, the files are lost but the tune goes on. It warns once.
void CompilePool::keep(const Job& job, const CompileOutcome& outcome) {
    if (job.keep_folder.empty() || has_warned_) return;
    const std::string trouble = keep_files(job.keep_folder, job.rendered, outcome);
    if (trouble.empty()) return;
    has_warned_ = true;
    if (options_.warn) options_.warn("--keep: " + trouble + "; no more is kept there, the command goes on without it");
}

CompilePool::~CompilePool() {
    for (auto& slot : slots_) slot->process->kill();  // all are killed first, so that waiting for one does not delay the next
}

void CompilePool::submit(Job job, Callback done) {
    const std::string identity = job.rendered.identity;
    if (auto known = jobs_.find(identity); known != jobs_.end()) {
        known->second.waiters.push_back({job.owner, std::move(done)});
        if (job.urgency < known->second.job.urgency) raise_priority(identity, job.urgency);
        return;
    }
    if (auto found = cache_.find(identity)) {
        const CompileOutcome outcome = outcome_from_cache(std::move(*found));
        keep(job, outcome);
        done(outcome);
        return;
    }
    const int urgency = job.urgency;
    const int owner = job.owner;
    jobs_[identity] = {std::move(job), {{owner, std::move(done)}}};
    enqueue(identity, urgency);
    dispatch();
}

// A client's next job is queued after the job that was begun last and after the client's own last job, so that clients alternate.
void CompilePool::enqueue(const std::string& identity, int urgency) {
    Pending& pending = jobs_.at(identity);
    Turns& turns = turns_[urgency];
    std::uint64_t& given = turns.given[pending.job.client];
    pending.turn = given = std::max(turns.begun, given) + 1;
    const auto place = std::find_if(waiting_.begin(), waiting_.end(), [&](const std::string& other) {
        const Pending& theirs = jobs_.at(other);
        return theirs.job.urgency > urgency || (theirs.job.urgency == urgency && theirs.turn > pending.turn);
    });
    waiting_.insert(place, identity);
}

void CompilePool::raise_priority(const std::string& identity, int urgency) {
    jobs_.at(identity).job.urgency = urgency;
    if (std::erase(waiting_, identity) > 0) enqueue(identity, urgency);
}

void CompilePool::cancel(int owner) {
    for (auto& [identity, pending] : jobs_) {
        std::erase_if(pending.waiters, [&](const Waiter& waiter) { return waiter.owner == owner; });
    }
    std::erase_if(waiting_, [&](const std::string& identity) {
        const bool unwanted = jobs_.at(identity).waiters.empty();
        if (unwanted) jobs_.erase(identity);
        return unwanted;
    });
}

void CompilePool::add_to(std::vector<pollfd>& fds) const {
    for (const auto& slot : slots_) {
        if (slot->process->read_fd() >= 0) fds.push_back({slot->process->read_fd(), POLLIN, 0});
        if (slot->process->wants_write()) fds.push_back({slot->process->write_fd(), POLLOUT, 0});
    }
}

void CompilePool::serve() {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
        const std::size_t before = slots_.size();
        Slot& slot = *slots_[i];
        slot.process->flush();
        if (!take_messages(slot)) {
            discard_worker(slot, "the compiler process sent a message that makes no sense");
        } else if (slot.process->closed()) {
            discard_worker(slot, "the compiler process " + slot.process->how_it_ended());
        } else if (!paused_ && !slot.identity.empty() && has_used_its_time(slot)) {
            discard_worker(slot,
                           "compiling took more than " + seconds_text(options_.workers.compile_cpu_s) + " of processor time",
                           End::too_long);
        } else if (!paused_ && !slot.identity.empty() && Clock::now() > slot.deadline) {
            discard_worker(slot,
                           "compiling did not end in " + seconds_text(options_.workers.compile_guard_s) +
                               ", and used less than its processor time: the machine is at a standstill",
                           End::at_a_standstill);
        }
        if (slots_.size() < before) --i;  // the worker could not be replaced
    }
    dispatch();
}

bool CompilePool::has_used_its_time(Slot& slot) {
    if (Clock::now() < slot.look_at) return false;
    const double left_s = options_.workers.compile_cpu_s - (slot.process->cpu_seconds() - slot.cpu_before_s);
    slot.look_at = Clock::now() + as_duration(std::max(left_s, 0.05));  // its processor time cannot run out before this
    return left_s <= 0;
}

bool CompilePool::take_messages(Slot& slot) {
    try {
        for (const Message& message : slot.process->receive()) handle(slot, message);
    } catch (const Json::exception&) {
        return false;
    } catch (const records::BadRecord&) {
        return false;
    }
    return true;
}

std::optional<Clock::time_point> CompilePool::next_deadline() const {
    std::optional<Clock::time_point> first;
    for (const auto& slot : slots_) {
        const Clock::time_point next = std::min(slot->deadline, slot->look_at);
        if (!slot->identity.empty() && (!first || next < *first)) first = next;
    }
    return paused_ ? std::nullopt : first;
}

void CompilePool::pause() {
    if (paused_) return;
    paused_ = true;
    paused_at_ = Clock::now();
    for (auto& slot : slots_) slot->process->pause();
}

void CompilePool::resume() {
    if (!paused_) return;
    paused_ = false;
    for (auto& slot : slots_) {
        slot->process->resume();
        slot->deadline += Clock::now() - paused_at_;
        slot->look_at += Clock::now() - paused_at_;
    }
    dispatch();
}

std::optional<std::string> CompilePool::nvrtc_version() {
    if (!nvrtc_.empty()) return nvrtc_;
    if (slots_.empty()) (void)start_worker();
    return std::nullopt;
}

std::size_t CompilePool::running() const {
    return static_cast<std::size_t>(
        std::count_if(slots_.begin(), slots_.end(), [](const auto& s) { return !s->identity.empty(); }));
}

std::vector<std::string> CompilePool::worker_arguments() const {
    const WorkerSettings& settings = options_.workers;
    std::vector<std::string> arguments{"__worker",       "compile",
                                       "--parent",       std::to_string(::getpid()),
                                       "--driver-major", std::to_string(settings.driver_major),
                                       "--nvrtc",        settings.nvrtc_path};
    for (const std::string& folder : settings.library_folders) arguments.insert(arguments.end(), {"--libraries", folder});
    add_log_level(arguments, settings.log);
    return arguments;
}

// Returns false if the system refuses another process and others are running. Throws Error{system} if none is running.
bool CompilePool::start_worker() {
    auto slot = std::make_unique<Slot>();
    try {
        slot->process = std::make_unique<WorkerProcess>(options_.workers.binary, worker_arguments());
    } catch (const Error& error) {
        if (slots_.empty() || error.code() != ErrorCode::system) throw;
        capacity_ = slots_.size();
        warn(std::to_string(capacity_) + (capacity_ == 1 ? " compiler runs" : " compilers run") +
             " at once and no more: " + error.what());
        return false;
    }
    slots_.push_back(std::move(slot));
    return true;
}

void CompilePool::warn(const std::string& text) {
    if (options_.warn) options_.warn(text);
}

// A worker may receive its first job before it has reported "ready", because the pipe holds it.
void CompilePool::dispatch() {
    if (paused_) return;
    while (!waiting_.empty()) {
        auto idle = std::find_if(slots_.begin(), slots_.end(),
                                 [](const auto& slot) { return slot->identity.empty() && !slot->process->closed(); });
        if (idle == slots_.end()) {
            if (slots_.size() >= capacity_ || !start_worker()) return;
            idle = slots_.end() - 1;
        }
        const std::string identity = waiting_.front();
        waiting_.pop_front();
        const Pending& next = jobs_.at(identity);
        turns_[next.job.urgency].begun = next.turn;
        give(**idle, identity);
    }
}

void CompilePool::give(Slot& slot, const std::string& identity) {
    const double limit_s = options_.workers.compile_cpu_s;
    slot.identity = identity;
    slot.since = Clock::now();
    slot.deadline = slot.since + as_duration(options_.workers.compile_guard_s);
    slot.look_at = slot.since + as_duration(limit_s);
    slot.cpu_before_s = slot.process->cpu_seconds();
    Message message;
    message.body = {{"do", "compile"},
                    {"rendered", wire::write(jobs_.at(identity).job.rendered)},
                    // The kernel enforces this limit if this process does not check
                    {"cpu_seconds", static_cast<int>(limit_s) + 2}};
    slot.process->send(message);
}

void CompilePool::handle(Slot& slot, const Message& message) {
    if (take_log(message, options_.workers.log, source_of(slot))) return;
    const std::string event = message.body.value("event", "");
    if (event == "fatal") throw Error(ErrorCode::no_compiler, message.body.value("message", "a compile worker could not start"));
    if (event == "ready") {
        if (const std::string other = other_build(options_.workers, message.body.value("build", "")); !other.empty())
            throw Error(ErrorCode::system, other);
        nvrtc_ = message.body.value("nvrtc", "");
        slot.ready = true;
        deaths_in_a_row_ = 0;
        return;
    }
    if (slot.identity.empty() || message.body.value("identity", "") != slot.identity) return;
    CompileOutcome outcome;
    outcome.failure = message.body.value("failure", "");
    outcome.by_circumstance = message.body.value("by_circumstance", false);
    outcome.rejected = message.body.value("rejected", "");
    outcome.log = message.body.value("log", "");
    if (message.body.contains("report")) {
        jit::Compiled compiled{message.body.at("symbol").get<std::string>(), slot.identity, message.payload,
                               wire::read_report(message.body.at("report"))};
        keep_in_cache(compiled);
        outcome.report = compiled.report;
        outcome.compiled = std::make_shared<const jit::Compiled>(std::move(compiled));
        ++compiled_;
    }
    end_job(slot, std::move(outcome));
}

void CompilePool::end_job(Slot& slot, CompileOutcome outcome) {
    busy_seconds_ += std::chrono::duration<double>(Clock::now() - slot.since).count();
    const std::string identity = std::exchange(slot.identity, "");
    finish(identity, outcome);
}

std::string CompilePool::source_of(const Slot& slot) {
    return "compile worker " + std::to_string(slot.process->pid());
}

void CompilePool::keep_in_cache(const jit::Compiled& compiled) {
    if (cache_.put(compiled) || cache_is_full_ || options_.cache_folder.empty()) return;
    cache_is_full_ = true;
    const std::string why = cache_.why_not_usable();
    warn("a compiled kernel is not kept and will be compiled again: " +
         (why.empty() ? "the cubin cache " + cache_.folder() + " did not take it" : why));
}

// Kills the worker, starts another in its place and reports the outcome of its job. If no other can be started, the slot is
// removed.
void CompilePool::discard_worker(Slot& slot, const std::string& reason, End end) {
    log_to(options_.workers.log, LogLevel::warn, source_of(slot), [&] { return reason; });
    const bool by_others = slot.process->was_ended_by_others();
    slot.process->kill();
    slot.process->reap(std::chrono::seconds(2));
    const bool used_its_time = slot.process->cpu_seconds() - slot.cpu_before_s >= options_.workers.compile_cpu_s;
    if (!slot.ready && ++deaths_in_a_row_ > kMaxDeathsInARow) {
        throw Error(ErrorCode::system, "compile workers exit during start-up: " + reason);
    }
    const std::string identity = std::exchange(slot.identity, "");
    // Updates the state before the callback, because the callback may submit jobs, which visits the slots.
    try {
        slot.process = std::make_unique<WorkerProcess>(options_.workers.binary, worker_arguments());
        slot.ready = false;
    } catch (const Error& error) {
        if (slots_.size() == 1 || error.code() != ErrorCode::system) throw;
        std::erase_if(slots_, [&](const auto& one) { return one.get() == &slot; });
        capacity_ = slots_.size();
        warn(std::to_string(capacity_) + (capacity_ == 1 ? " compiler runs" : " compilers run") +
             " at once and no more: " + error.what());
    }
    if (identity.empty()) return;
    // The kernel's own limit may have ended the worker first.
    give_up(identity, reason, end == End::died && by_others && used_its_time ? End::too_long : end, by_others);
}

// Compiles the instance once more before the candidate is judged, because the machine may have killed the compiler.
void CompilePool::give_up(const std::string& identity, const std::string& reason, End end, bool by_others) {
    const auto pending = jobs_.find(identity);
    if (pending == jobs_.end()) return;
    if (end == End::died && ++pending->second.deaths < 2) {
        enqueue(identity, pending->second.job.urgency);
        return;
    }
    CompileOutcome outcome;
    outcome.failure = end == End::died ? reason + ", twice" : reason;
    outcome.by_circumstance = end == End::at_a_standstill || (end == End::died && (by_others || has_little_address_space()));
    finish(identity, outcome);
}

void CompilePool::finish(const std::string& identity, const CompileOutcome& outcome) {
    const auto found = jobs_.find(identity);
    if (found == jobs_.end()) return;
    const Pending pending = std::move(found->second);
    jobs_.erase(found);
    keep(pending.job, outcome);
    for (const Waiter& waiter : pending.waiters) waiter.done(outcome);
}

}  // namespace autotune::tuner
