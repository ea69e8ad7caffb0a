#include "tuner/session/engine/gpu_worker_session.h"

#include <limits>

#include "src/core/error.h"
#include "src/records/record_reader.h"
#include "tuner/worker/protocol/wire.h"

namespace autotune::tuner {
namespace {

// If workers die under this many different candidates in a row, the card is broken; a bad family kills only a few.
constexpr int kMostDeathsInARow = 8;
constexpr int kStarts = 3;  // the number of tries to get a healthy worker

// NaN and infinity are transmitted as null.
std::vector<double> numbers(const Json& list) {
    std::vector<double> values;
    for (const Json& value : list)
        values.push_back(value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN());
    return values;
}

constexpr const char* kNonsense = "the GPU worker's reply makes no sense";

// Throws Json::exception if the reply has not the form that a worker writes.
RunOutcome read_outcome(const Json& body) {
    RunOutcome outcome;
    outcome.status = parse_trial_status(body.value("status", "ok")).value_or(TrialStatus::crashed);
    outcome.detail = body.value("detail", "");
    outcome.verified = body.value("verified", false);
    if (body.contains("max_error") && body["max_error"].is_number()) outcome.max_error = body["max_error"];
    if (body.contains("accumulation_error") && body["accumulation_error"].is_number())
        outcome.accumulation_error = body["accumulation_error"];
    if (body.contains("sample_values")) outcome.sample_values = numbers(body["sample_values"]);
    if (body.contains("samples")) outcome.samples_us = body["samples"].get<std::vector<double>>();
    if (body.contains("steps")) outcome.steps_us = body["steps"].get<std::vector<std::vector<double>>>();
    outcome.opening_s = body.value("opening_s", 0.0);
    return outcome;
}

Message with_code(Json body, const Instance& instance) {
    body["symbol"] = instance->symbol;
    return {std::move(body), instance->cubin};
}

Error gpu_in_use(const Json& reply) {
    const std::string use = reply.value("use", "");
    return {ErrorCode::gpu_in_use,
            "the GPU is in use: " + reply.value("error", "") + (use.empty() ? "" : "; " + use) +
                "; wait until other processes have freed memory, end them, or choose another GPU with --device"};
}

}  // namespace

int GpuWorkerHost::ensure_healthy() {
    for (int attempt = 0; attempt < kStarts; ++attempt) {
        engine_.gpu_worker().start();
        if (engine_.gpu_worker().generation() == healthy_generation_) return healthy_generation_;
        const GpuWorkerReply reply = engine_.ask(with_code({{"do", "harness"}}, harness_), StageLimits{});
        if (reply.kind != GpuWorkerReply::Kind::answered) continue;
        if (reply.body.contains("error")) {
            if (reply.body.value("status", "") == to_string(TrialStatus::out_of_memory)) throw gpu_in_use(reply.body);
            throw Error(ErrorCode::gpu_unhealthy, "the known-good kernel does not run: " + reply.body.value("error", ""));
        }
        if (!reply.body.value("healthy", false)) {
            throw Error(ErrorCode::gpu_unhealthy,
                        "the known-good kernel gives a wrong answer: the GPU does not compute correctly");
        }
        return healthy_generation_ = engine_.gpu_worker().generation();
    }
    throw Error(ErrorCode::gpu_unhealthy, "the known-good kernel killed the GPU worker three times");
}

GpuWorkerReply GpuWorkerHost::ask(const Message& request, const StageLimits& limits) {
    GpuWorkerReply reply = engine_.ask(request, limits);
    if (reply.kind != GpuWorkerReply::Kind::answered && ++deaths_in_a_row_ >= 2 * kMostDeathsInARow) {
        throw Error(ErrorCode::gpu_unhealthy,
                    std::to_string(kMostDeathsInARow) +
                        " candidates in a row killed the GPU worker twice, the last one: " + reply.detail);
    }
    return reply;
}

GpuWorkerSession::GpuWorkerSession(GpuWorkerHost& host, const Problem& problem, Instance reference, const Options& options)
    : host_(host), problem_(problem), reference_(std::move(reference)), options_(options) {}

GpuWorkerSession::~GpuWorkerSession() {
    if (generation_ == 0 || lost()) return;
    try {
        host_.engine().ask({{{"do", "drop"}, {"fixture", options_.fixture}}, {}}, StageLimits{});
    } catch (...) {
        // The user stopped the run, or the worker is gone and its memory with it.
    }
}

StageLimits GpuWorkerSession::limits() const {
    StageLimits limits;
    const double slowest_s = options_.patience * options_.floor_us / 1e6;
    const double launch_s = host_.engine().services().workers.launch_timeout_s;
    limits.launch_s = launch_s + slowest_s;
    // A verification runs the candidate three times among the harness kernels. A measurement runs it some tens of times at most,
    // because slow candidates are dropped after five.
    limits.verify_s = 5 * launch_s + 10 + 5 * slowest_s;
    limits.time_s = 5 * launch_s + 10 + 40 * slowest_s;
    return limits;
}

bool GpuWorkerSession::lost() const {
    const GpuWorkerClient& worker = host_.engine().gpu_worker();
    return !worker.running() || worker.generation() != generation_;
}

void GpuWorkerSession::ensure() {
    for (int attempt = 0; attempt < kStarts; ++attempt) {
        const int generation = host_.ensure_healthy();
        if (generation == generation_) return;
        Json body{{"do", "setup"},
                  {"fixture", options_.fixture},
                  {"problem", wire::write(problem_)},
                  {"timing", options_.timing},
                  {"method", options_.method.text()},
                  {"seed", options_.seed},
                  {"symbol", ""}};
        body["affordable"] = options_.affordable_reference;
        const Message request = reference_ != nullptr ? with_code(std::move(body), reference_) : Message{std::move(body), {}};
        const GpuWorkerReply reply = host_.ask(request, limits());
        if (reply.kind != GpuWorkerReply::Kind::answered) continue;
        if (reply.body.contains("error")) {
            const bool memory =
                reply.body.value("status", "") == to_string(TrialStatus::out_of_memory) && reply.body.value("in_use", false);
            const std::string use = reply.body.value("use", "");
            throw Error(memory ? ErrorCode::gpu_memory : ErrorCode::driver,
                        "the problem " + problem_.shape() + " cannot be set up on the device: " + reply.body.value("error", "") +
                            (use.empty() ? "" : "; " + use) +
                            (memory ? "; wait until other processes have freed memory, end them, or choose another GPU with "
                                      "--device"
                                    : ""));
        }
        known_ = static_cast<Reference>(reply.body.value("reference", 0));
        for (const std::string& remark : reply.body.value("remarks", std::vector<std::string>()))
            if (told_.insert(remark).second) host_.engine().warn(remark);
        generation_ = generation;
        return;
    }
    throw Error(ErrorCode::gpu_unhealthy, "the reference kernel killed the GPU worker three times");
}

RunOutcome GpuWorkerSession::outcome_of(const GpuWorkerReply& reply) {
    RunOutcome outcome;
    if (reply.kind != GpuWorkerReply::Kind::answered) {
        outcome.status = reply.kind == GpuWorkerReply::Kind::timed_out ? TrialStatus::timed_out : TrialStatus::crashed;
        outcome.detail = reply.detail;
        outcome.by_circumstance = reply.by_circumstance;
        return outcome;
    }
    host_.note_success();
    try {
        outcome = read_outcome(reply.body);
        // If a candidate has written to inputs or red zones, the next one would get wrong results.
        if (reply.body.value("spoiled", false)) host_.engine().gpu_worker().stop();
    } catch (const Json::exception&) {
        host_.engine().gpu_worker().stop();
        outcome.status = TrialStatus::crashed;
        outcome.detail = kNonsense;
    }
    return outcome;
}

RunOutcome GpuWorkerSession::open(int slot, const Candidate& candidate, const Instance& instance, bool verify,
                                  const std::vector<Step>& steps) {
    ensure();
    Json body{{"do", "open"},
              {"stage", "load"},
              {"fixture", options_.fixture},
              {"slot", slot},
              {"candidate", wire::write(candidate)},
              {"verify", verify},
              {"pdl", options_.may_overlap}};
    for (const Step& step : steps) body["steps"].push_back(wire::write(step));
    RunOutcome outcome = outcome_of(host_.ask(with_code(std::move(body), instance), limits()));
    if (outcome.ok() && outcome.steps_us.empty() && !steps.empty()) {
        host_.engine().gpu_worker().stop();
        outcome.status = TrialStatus::crashed;
        outcome.detail = kNonsense;
    }
    return outcome;
}

RunOutcome GpuWorkerSession::open_rival(int slot, const std::string& name, bool verify) {
    ensure();
    const Json body{{"do", "rival"}, {"stage", "reference"}, {"fixture", options_.fixture},
                    {"slot", slot},  {"name", name},         {"verify", verify}};
    return outcome_of(host_.ask({body, {}}, limits()));
}

RunOutcome GpuWorkerSession::check_repeatability(int slot) {
    return outcome_of(host_.ask(
        {{{"do", "check_repeatability"}, {"stage", "verify"}, {"fixture", options_.fixture}, {"slot", slot}}, {}}, limits()));
}

RunOutcome GpuWorkerSession::sample(int slot, const Measurement& measurement) {
    Json body = wire::write(measurement);
    body.update({{"do", "time"}, {"fixture", options_.fixture}, {"slot", slot}, {"after", to_string(Predecessor::filler)}});
    return outcome_of(host_.ask({body, {}}, limits()));
}

RunOutcome GpuWorkerSession::warm(int slot, double seconds) {
    StageLimits limit = limits();
    limit.time_s = limit.launch_s + 2 * seconds;
    return outcome_of(
        host_.ask({{{"do", "warm"}, {"fixture", options_.fixture}, {"slot", slot}, {"seconds", seconds}}, {}}, limit));
}

GpuWorkerSession::Round GpuWorkerSession::round(const std::vector<int>& slots, const Turn& turn) {
    const Json body{{"do", "round"}, {"fixture", options_.fixture}, {"slots", slots},    {"after", to_string(turn.after)},
                    {"samples", 3},  {"time_us", turn.time_us},     {"most_samples", 64}};
    const GpuWorkerReply reply = host_.ask({body, {}}, limits());
    Round round;
    round.detail = reply.detail;
    round.failed_slot = reply.slot;
    if (reply.kind != GpuWorkerReply::Kind::answered) return round;
    if (reply.body.contains("error")) {
        round.detail = reply.body.value("error", "");
        return round;
    }
    try {
        round.times_us = reply.body.at("times_us").get<std::vector<double>>();
        for (const Json& one : reply.body.at("conditions"))
            round.conditions.push_back(records::read_record<Conditions>(one, "conditions"));
        round.ok = round.times_us.size() == slots.size() && round.conditions.size() == slots.size();
    } catch (const std::exception&) {
        host_.engine().gpu_worker().stop();
        round.detail = kNonsense;
    }
    return round;
}

std::optional<GpuWorkerSession::Block> GpuWorkerSession::block(int slot, double seconds) {
    StageLimits limit = limits();
    limit.time_s += 2 * seconds;
    const Json body{{"do", "block"}, {"fixture", options_.fixture}, {"slot", slot}, {"seconds", seconds}};
    const GpuWorkerReply reply = host_.ask({body, {}}, limit);
    if (reply.kind != GpuWorkerReply::Kind::answered || reply.body.contains("error")) return std::nullopt;
    try {
        Block block;
        block.launches = reply.body.at("launches").get<std::int64_t>();
        block.launch_us = reply.body.at("launch_us").get<double>();
        if (const Json& joules = reply.body.at("joules_per_launch"); joules.is_number())
            block.joules_per_launch = joules.get<double>();
        block.conditions = records::read_record<Conditions>(reply.body.at("conditions"), "conditions");
        return block.launches > 0 ? std::optional(block) : std::nullopt;
    } catch (const std::exception&) {
        host_.engine().gpu_worker().stop();
        return std::nullopt;
    }
}

}  // namespace autotune::tuner
