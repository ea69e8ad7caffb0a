#include "tuner/worker/gpu_worker.h"

#include <unistd.h>

#include <cmath>
#include <map>
#include <sstream>

#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "src/core/statistics/statistics.h"
#include "src/gpu/driver/driver.h"
#include "src/gpu/nvml.h"
#include "src/records/measuring_method.h"
#include "src/records/record_writer.h"
#include "tuner/measure/energy_meter.h"
#include "tuner/measure/meter.h"
#include "tuner/measure/rival_runner.h"
#include "tuner/verify/repeatability.h"
#include "tuner/verify/verifier.h"
#include "tuner/worker/build_id.h"
#include "tuner/worker/protocol/wire.h"
#include "tuner/worker/protocol/worker_channel.h"
#include "tuner/worker/worker_log.h"
#include "tuner/worker/worker_process.h"

namespace autotune::tuner {
namespace {

// If timing a kernel breaks the context, the process reports the reason and ends.
[[noreturn]] void leave_after_sticky(WorkerChannel& channel, const gpu::DriverError& error) {
    channel.send({{{"event", "sticky"}, {"detail", error.what()}, {"is_candidates", gpu::is_the_kernels(error.code())}}, {}});
    ::_exit(3);  // destructors would call into the broken context
}

class UnknownRequest : public Error {
  public:
    explicit UnknownRequest(const std::string& what) : Error(ErrorCode::internal, unknown_request("gpu", what)) {}
};

struct OpenProblem {
    std::unique_ptr<ProblemFixture> fixture;
    std::map<int, Runnable> slots;
    Reference reference = Reference::none;
};

class GpuWorker {
  public:
    GpuWorker(WorkerChannel& channel, WorkerGpu gpu, Catalogue catalogue)
        : channel_(channel), gpu_(std::move(gpu)), catalogue_(std::move(catalogue)), nvml_(gpu::Nvml::load()) {}

    // Adds families that are not part of the binary. Throws Error{usage}.
    void define(const Json& families);
    void set_uuid(std::string uuid) { uuid_ = std::move(uuid); }
    Json serve(const Message& request);

  private:
    Json take_harness(const Message& request);
    Json set_up(const Message& request);
    Json open(const Message& request);
    Json open_rival(const Json& request);
    Json check_repeatability(const Json& request);
    Json time(const Json& request);
    Json round(const Json& request);
    Json block(const Json& request);
    Json warm(const Json& request);
    Json drop(const Json& request);
    Json take_steps(OpenProblem& entry, int slot, const Json& steps);

    std::shared_ptr<const gpu::Library> load(const Message& request);
    Runnable bind(ProblemFixture& fixture, const Message& request);
    // `judge`: whether a wrong result ends the request. Otherwise the result is only shown.
    struct FirstRun {
        bool verify, judge;
    };
    Json first_run(OpenProblem& entry, int slot, Runnable runnable, FirstRun how);
    void stage(const char* name, int slot = -1);
    Conditions conditions() const { return nvml_ != nullptr ? nvml_->conditions(uuid_) : Conditions{}; }
    OpenProblem& problem_of(const Json& request) { return problems_.at(request.at("fixture").get<int>()); }
    static Runnable& slot_of(OpenProblem& entry, int slot) { return entry.slots.at(slot); }

    WorkerChannel& channel_;
    WorkerGpu gpu_;
    Catalogue catalogue_;
    std::shared_ptr<const gpu::Nvml> nvml_;
    std::string uuid_;
    std::unique_ptr<RivalRunner> rivals_;
    std::unique_ptr<Harness> harness_;
    std::unique_ptr<Meter> meter_;  // made with the harness
    std::map<int, OpenProblem> problems_;
};

void GpuWorker::define(const Json& families) {
    for (const Json& family : families) catalogue_.add(wire::read_definition(family));
}

void GpuWorker::stage(const char* name, int slot) {
    channel_.send({{{"event", "stage"}, {"stage", name}, {"slot", slot}}, {}});
}

Json GpuWorker::serve(const Message& request) {
    const std::string what = request.body.at("do").get<std::string>();
    if (what == "harness") return take_harness(request);
    if (what == "setup") return set_up(request);
    if (what == "open") return open(request);
    if (what == "rival") return open_rival(request.body);
    if (what == "check_repeatability") return check_repeatability(request.body);
    if (what == "time") return time(request.body);
    if (what == "round") return round(request.body);
    if (what == "block") return block(request.body);
    if (what == "warm") return warm(request.body);
    if (what == "drop") return drop(request.body);
    throw UnknownRequest(what);
}

Json GpuWorker::drop(const Json& request) {
    problems_.erase(request.at("fixture").get<int>());
    return Json::object();
}

std::shared_ptr<const gpu::Library> GpuWorker::load(const Message& request) {
    return std::make_shared<const gpu::Library>(gpu_.driver, request.payload);
}

Json GpuWorker::take_harness(const Message& request) {
    stage("verify");
    problems_.clear();  // open problems use the harness that is being replaced
    const auto library = load(request);
    harness_ = std::make_unique<Harness>(gpu_.driver, library, gpu_.stream);
    meter_ = std::make_unique<Meter>(gpu_, library);
    return {{"healthy", harness_->canary()}};
}

Json GpuWorker::set_up(const Message& request) {
    stage("reference");
    check(harness_ != nullptr, "a problem is set up after the harness");
    Problem problem = wire::read_problem(request.body.at("problem"));
    const Op& op = catalogue_.op_of(problem);
    ProblemFixture::Options options;
    options.seed = request.body.at("seed").get<std::uint64_t>();
    options.timing = request.body.at("timing").get<bool>();
    const auto method = MeasuringMethod::of(request.body.at("method").get<std::string>());
    options.l2_warm = method.l2_warm;
    options.bandwidth_bound = op.rate_unit() == "gb_per_s";
    meter_->set_streams(method.streams);
    OpenProblem& entry = problems_[request.body.at("fixture").get<int>()];
    entry.slots.clear();
    entry.fixture.reset();  // frees the old memory before the next fixture is allocated
    entry.fixture = std::make_unique<ProblemFixture>(gpu_, *harness_, op, std::move(problem), options);
    entry.reference = Reference::none;
    if (!request.payload.empty()) {
        entry.reference = entry.fixture->compute_reference({load(request), request.body.at("symbol").get<std::string>()},
                                                           request.body.at("affordable").get<bool>());
    }
    return {{"reference", static_cast<int>(entry.reference)},
            {"footprint_bytes", entry.fixture->footprint_bytes()},
            {"remarks", entry.fixture->remarks()}};
}

Runnable GpuWorker::bind(ProblemFixture& fixture, const Message& request) {
    const Candidate candidate = wire::read_candidate(request.body.at("candidate"));
    const Family* family = catalogue_.find_family(candidate.family);
    check(family != nullptr, "a candidate of an unknown family reached the GPU worker");
    LaunchPlan plan = family->plan(fixture.problem(), candidate.config, gpu_.device);
    const bool may_overlap = request.body.at("pdl").get<bool>();
    for (LaunchStep& step : plan.steps) step.programmatic_dependent = step.programmatic_dependent && may_overlap;
    return fixture.bind({load(request), request.body.at("symbol").get<std::string>()}, std::move(plan));
}

// The first launch is a separate stage with a short limit, because this detects kernels that hang.
Json GpuWorker::first_run(OpenProblem& entry, int slot, Runnable runnable, FirstRun how) {
    stage("launch", slot);
    TestFixture& test = entry.fixture->tests().front();
    entry.fixture->restore_outputs(test);
    runnable.enqueue(test.tensors.addresses);
    gpu_.stream.synchronize();
    Json reply{{"status", "ok"}, {"detail", ""}, {"verified", false}};
    if (how.verify && entry.reference != Reference::none) {
        stage("verify", slot);
        const Verification found = verify_on_device(*harness_, *entry.fixture, runnable);
        reply["status"] = found.right || !how.judge ? "ok" : "wrong_result";
        reply["detail"] = found.detail;
        reply["verified"] = found.right;
        reply["max_error"] = std::isfinite(found.max_error) ? Json(found.max_error) : Json(nullptr);
        reply["accumulation_error"] = std::isfinite(found.accumulation_error) ? Json(found.accumulation_error) : Json(nullptr);
        reply["sample_values"] = found.sample_values;
        if (!found.right && how.judge) {
            reply["spoiled"] = !found.intact;
            return reply;
        }
    }
    entry.slots.erase(slot);
    entry.slots.emplace(slot, std::move(runnable));
    return reply;
}

// How a refused launch or a lack of memory is reported for a candidate. Sticky and lost errors are not reported here.
Json refusal(const gpu::DriverError& error) {
    const bool memory = error.severity() == gpu::Severity::out_of_memory;
    return {{"status", memory ? "out_of_memory" : "launch_refused"}, {"detail", error.what()}, {"verified", false}};
}

Meter::Wanted wanted(const Measurement& measurement) {
    return {.samples = measurement.samples, .time_us = measurement.time_us, .most_samples = measurement.most_samples};
}
Predecessor after_of(const Json& request) {
    const auto after = parse_predecessor(request.at("after").get<std::string>());
    check(after.has_value(), "an unknown predecessor in a message");
    return *after;
}
Meter::Wanted wanted_of(const Json& request) {
    Meter::Wanted wanted_here = wanted(wire::read_measurement(request));
    wanted_here.after = after_of(request);
    return wanted_here;
}

Json GpuWorker::open(const Message& request) {
    OpenProblem& entry = problem_of(request.body);
    const int slot = request.body.at("slot").get<int>();
    stage("load", slot);
    entry.slots.erase(slot);  // frees its workspace, so that the next one has room
    const auto begun = Clock::now();
    Json reply = first_run(entry, slot, bind(*entry.fixture, request), {request.body.at("verify").get<bool>(), true});
    reply["opening_s"] = seconds_since(begun);
    if (reply["status"] == "ok" && request.body.contains("steps"))
        reply["steps"] = take_steps(entry, slot, request.body["steps"]);
    return reply;
}

// Stops after the first step whose result ends the request.
Json GpuWorker::take_steps(OpenProblem& entry, int slot, const Json& steps) {
    Json taken = Json::array();
    for (const Json& json : steps) {
        stage("time", slot);
        const Step step = wire::read_step(json);
        const std::vector<double> samples = meter_->sample(*entry.fixture, slot_of(entry, slot), wanted(step.measurement));
        taken.push_back(samples);
        if (is_enough(step, samples)) break;
    }
    return taken;
}

Json GpuWorker::open_rival(const Json& request) {
    OpenProblem& entry = problem_of(request);
    const int slot = request.at("slot").get<int>();
    // Loading a rival's libraries and choosing its variant take long, so the limit is that of a reference.
    stage("reference", slot);
    if (rivals_ == nullptr) rivals_ = std::make_unique<RivalRunner>(gpu_);
    Runnable runnable;
    const std::string refused = rivals_->prepare(request.at("name").get<std::string>(), *entry.fixture, *meter_, runnable);
    if (!refused.empty()) return {{"status", "launch_refused"}, {"detail", refused}, {"verified", false}};
    return first_run(entry, slot, std::move(runnable), {request.at("verify").get<bool>(), false});
}

Json GpuWorker::check_repeatability(const Json& request) {
    const int slot = request.at("slot").get<int>();
    stage("verify", slot);
    OpenProblem& entry = problem_of(request);
    const std::string wrong = tuner::check_repeatability(*harness_, *entry.fixture, slot_of(entry, slot));
    // A kernel that fails intermittently may also have written out of bounds: the worker's data is no longer trusted.
    return {{"status", wrong.empty() ? "ok" : "wrong_result"}, {"detail", wrong}, {"spoiled", !wrong.empty()}};
}

Json GpuWorker::time(const Json& request) {
    const int slot = request.at("slot").get<int>();
    stage("time", slot);
    OpenProblem& entry = problem_of(request);
    return {{"samples", meter_->sample(*entry.fixture, slot_of(entry, slot), wanted_of(request))}};
}

Json GpuWorker::round(const Json& request) {
    OpenProblem& entry = problem_of(request);
    Json times = Json::array(), readings = Json::array();
    for (const Json& number : request.at("slots")) {
        const int slot = number.get<int>();
        stage("time", slot);
        Conditions seen;
        Meter::Wanted turn = wanted_of(request);
        turn.while_busy = [&] { seen = conditions(); };
        times.push_back(stats::median(meter_->sample(*entry.fixture, slot_of(entry, slot), turn)));
        readings.push_back(records::json_of(seen, kInMessages));
    }
    return {{"times_us", times}, {"conditions", readings}};
}

// Slot -1: fillers alone.
Json GpuWorker::block(const Json& request) {
    const int slot = request.at("slot").get<int>();
    stage("time", slot);
    const double seconds = request.at("seconds").get<double>();
    Conditions seen;
    EnergyMeter energy;
    const auto watch = [&](std::int64_t launches_done) {
        seen = conditions();
        if (nvml_ != nullptr) energy.read(nvml_->energy_joules(uuid_), launches_done);
    };
    OpenProblem& entry = problem_of(request);
    const Meter::Block block =
        slot < 0 ? meter_->filler_block(seconds, watch) : meter_->block(*entry.fixture, slot_of(entry, slot), seconds, watch);
    const std::optional<double> joules = energy.joules_per_launch();
    return {{"launches", block.launches},
            {"launch_us", block.launch_us},
            {"joules_per_launch", joules ? Json(*joules) : Json(nullptr)},
            {"conditions", records::json_of(seen, kInMessages)}};
}

Json GpuWorker::warm(const Json& request) {
    const int slot = request.at("slot").get<int>();
    stage("time", slot);
    OpenProblem& entry = problem_of(request);
    meter_->warm(*entry.fixture, slot_of(entry, slot), request.at("seconds").get<double>());
    return Json::object();
}

// If a request fails because of the candidate or of this process, it gets a reply. If the context is lost, the process ends.
Json answer(GpuWorker& worker, WorkerChannel& channel, const Message& request) {
    try {
        Json reply = worker.serve(request);
        reply["event"] = "reply";
        return reply;
    } catch (const gpu::DriverError& error) {
        if (error.severity() == gpu::Severity::sticky || error.severity() == gpu::Severity::lost)
            leave_after_sticky(channel, error);
        Json reply = refusal(error);
        reply["event"] = "reply";
        reply["error"] = error.what();
        return reply;
    } catch (const UnknownRequest&) {
        throw;
    } catch (const std::exception& error) {
        return {{"event", "reply"}, {"error", error.what()}, {"status", "crashed"}, {"detail", error.what()}};
    }
}

// Which processes use the card and how much memory is free, as text. Empty if NVML does not report it.
std::string card_use(const std::string& uuid) {
    const auto nvml = gpu::Nvml::load();
    return nvml == nullptr ? "" : nvml->usage_text(uuid, ::getpid());
}

std::string in_use_text(const gpu::DriverError& error, const std::string& uuid) {
    const std::string use = card_use(uuid);
    return "the GPU is in use: " + std::string(error.what()) + (use.empty() ? "" : "; " + use) + "; " +
           gpu::in_use_advice(error.code());
}

// A request and its reply in one line: "open slot 3: wrong_result, 0.021 s".
std::string told(const Message& request, const Json& reply) {
    std::ostringstream text;
    text << request.body.value("do", "");
    if (request.body.contains("slot")) text << " slot " << request.body.value("slot", -1);
    text << ": " << reply.value("status", "done") << ", " << reply.value("seconds", 0.0) << " s";
    if (reply.contains("detail") && reply["detail"] != "") text << ", " << reply.value("detail", "");
    return text.str();
}

}  // namespace

int run_gpu_worker(const GpuWorkerArguments& arguments) {
    WorkerChannel channel;
    WorkerLog log(channel, arguments.log_level);
    std::string uuid;
    try {
        auto driver = gpu::Driver::load();
        uuid = driver->uuid(arguments.device);
        gpu::Context context(driver, arguments.device);
        gpu::Stream stream(driver);
        const Device device = driver->device(arguments.device);
        // A context of our own takes less than a fifth of any card's memory.
        const bool others_hold_memory =
            static_cast<double>(context.free_bytes()) < 0.8 * device.identity.memory_gib * 1024.0 * 1024.0 * 1024.0;
        Catalogue catalogue =
            arguments.templates_folder.empty() ? Catalogue::embedded() : Catalogue::from_directory(arguments.templates_folder);
        GpuWorker worker(channel, {driver, std::move(context), std::move(stream), device, arguments.library_folders},
                         std::move(catalogue));
        worker.set_uuid(uuid);
        channel.send({{{"event", "ready"}, {"build", build_id()}}, {}});
        log_to(log.sink(), LogLevel::debug, "", [&] { return "has a context on " + device.identity.name; });
        while (const auto request = channel.receive()) {
            if (request->body.at("do") == "define") {  // the request "define" has no reply
                worker.define(request->body.at("families"));
                continue;
            }
            const auto begun = Clock::now();
            Json reply = answer(worker, channel, *request);
            if (reply.value("status", "") == to_string(TrialStatus::out_of_memory)) {
                reply["use"] = card_use(uuid);
                reply["in_use"] = others_hold_memory;
            }
            reply["seconds"] = seconds_since(begun);
            log_to(log.sink(), LogLevel::trace, "", [&] { return told(*request, reply); });
            channel.send({std::move(reply), {}});
        }
        ::_exit(0);  // The driver frees everything when the process ends. Destructors would only delay the coordinator.
    } catch (const UnknownRequest& error) {
        channel.send({{{"event", "fatal"}, {"code", "internal"}, {"message", error.what()}}, {}});
    } catch (const gpu::DriverError& error) {
        const bool in_use = gpu::is_in_use(error.code()) || error.severity() == gpu::Severity::out_of_memory;
        channel.send({{{"event", "fatal"},
                       {"code", in_use ? "gpu_in_use" : "gpu_unhealthy"},
                       {"message", in_use ? in_use_text(error, uuid) : std::string(error.what())}},
                      {}});
    } catch (const Error& error) {
        const char* code = error.code() == ErrorCode::no_gpu       ? "no_gpu"
                           : error.code() == ErrorCode::gpu_in_use ? "gpu_in_use"
                                                                   : "gpu_unhealthy";
        channel.send({{{"event", "fatal"}, {"code", code}, {"message", error.what()}}, {}});
    } catch (const std::bad_alloc&) {
        channel.send({{{"event", "fatal"}, {"code", "system"}, {"message", "the GPU worker finds no host memory"}}, {}});
    }
    return 1;
}

}  // namespace autotune::tuner
