// One launch: the script's rules for it, its duration, and its results.
#include <chrono>
#include <cmath>
#include <random>

#include "tests/support/fake/call_log.h"
#include "tests/support/fake/driver/pending.h"
#include "tests/support/fake/kernels/kernels.h"

namespace autotune::fake {
namespace {

constexpr std::chrono::milliseconds kRest{300};  // the card is cool after this time with only fillers

// Whether a kernel leaves this error behind: the launch succeeds, and every later call fails until the process ends.
bool is_sticky(int code) {
    switch (code) {
        case 214:
        case 220:
        case 226:
        case 700:
        case 702:
        case 709:
        case 710:
        case 714:
        case 715:
        case 716:
        case 717:
        case 718:
        case 719:
        case 721:
        case 999:
            return true;
        default:
            return false;
    }
}

CUresult fail(int code) {
    if (!is_sticky(code)) return static_cast<CUresult>(code);
    Machine::get().health = static_cast<CUresult>(code);
    return CUDA_SUCCESS;
}

// The noise of a mean of `launches` times. It is multiplicative and log-normal, so that times are never negative and relative
// noise does not depend on their size.
double noise(std::size_t launches = 1) {
    const Script& script = Script::get();
    static std::mt19937_64 generator(static_cast<std::uint64_t>(script.number("model", "seed", 1)));
    const double sigma = script.number("model", "noise", 0.004) / std::sqrt(static_cast<double>(launches));
    return std::exp(std::normal_distribution<double>(0, 1)(generator) * sigma);
}

double slowed_us(const Rule& rule, double time_us) {
    return rule.number("us", time_us * rule.number("factor", 1));
}

}  // namespace

Skipped& skipped() {
    static Skipped* skipped = new Skipped;
    return *skipped;
}

CUresult compute(const Launch& launch, const Effects& effects) {
    if (const auto result = compute_harness(launch)) return *result;
    if (const auto result = compute_copy(launch)) return *result;
    if (const auto gemm = gemm_view(launch)) return gemm->is_reference ? compute_reference(*gemm) : compute_gemm(*gemm, effects);
    if (const auto add = add_view(launch)) return add->is_reference ? compute_add_reference(*add) : compute_add(*add, effects);
    // A kernel of an op that the scripted driver does not know: its reference is unknown too, so comparing them must not fail.
    // There is one buffer of expected values per output, found by the parameters' names.
    const std::vector<ParameterFact>& parameters = launch.function->kernel->parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        if (parameters[i].name.rfind("expected", 0) == 0) skipped().answers.insert(launch.words[i]);
        const bool is_written = parameters[i].type == ParameterType::pointer && !parameters[i].is_const;
        if (is_written && skipped().poisoned.contains(launch.words[i])) skipped().written.insert(launch.words[i]);
        if (!effects.wrong.empty() && parameters[i].type == ParameterType::pointer) skipped().wrong.insert(launch.words[i]);
    }
    return CUDA_SUCCESS;
}

CUresult execute(const Launch& launch) {
    Machine& machine = Machine::get();
    const Program& program = launch.function->library->program;
    const std::string& symbol = launch.function->kernel->symbol;
    log_call("execute " + symbol);
    static std::uint64_t executions = 0;
    Effects effects;
    effects.count = ++executions;
    double time_us = model_time_us(launch) - overlap_us(launch, machine.last_triggers_early) + machine.streams_us();
    machine.last_triggers_early = triggers_early(launch);
    const Rule* rule = Script::get().fire({"launch", symbol, &program.constants});
    if (rule != nullptr) {
        const std::string& action = rule->action;
        if (action == "crash") crash(rule->word("how", "segv"));
        if (action == "return") {
            if (const CUresult refused = fail(static_cast<int>(rule->number("code", 719))); refused != CUDA_SUCCESS)
                return refused;
        }
        if (action == "vanish") machine.vanish(*rule);
        if (action == "hang") {
            const std::chrono::duration<double> wait(rule->number("seconds", 60));
            machine.busy_until = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::nanoseconds>(wait);
            time_us += wait.count() * 1e6;
        }
        if (action == "slow" && rule->number("after_us", 0) == 0) time_us = slowed_us(*rule, time_us);
        if (action == "wrong") effects.wrong = rule->word("how", "element");
        if (action == "out_of_bounds") effects.out_of_bounds_bytes = static_cast<long>(rule->number("bytes", 64));
    }
    machine.now_us += time_us * noise();
    if (machine.health != CUDA_SUCCESS) return CUDA_SUCCESS;
    const CUresult result = compute(launch, effects);
    return result == CUDA_SUCCESS ? CUDA_SUCCESS : fail(result);
}

void prepare(CUgraphExec_st& graph) {
    bool triggered = false;
    for (const Launch& launch : graph.launches) {
        const Program& program = launch.function->library->program;
        const auto gemm = gemm_view(launch);
        const auto add = add_view(launch);
        // Sums are computed when they are launched, so only launches that are not computed may be skipped.
        const bool is_repeatable = gemm ? !gemm->is_reference && gemm->beta == 0 : add && !add->is_small();
        const Occasion occasion{"launch", launch.function->kernel->symbol, &program.constants};
        const Rule* slow = Script::get().standing_slow(occasion);
        const bool has_rule = slow == nullptr && Script::get().concerns(occasion);
        const double time_us = model_time_us(launch) - overlap_us(launch, triggered);
        triggered = triggers_early(launch);
        graph.is_rest = graph.is_rest && is_filler(launch);
        const bool tires = slow != nullptr && slow->number("after_us", 0) > 0;
        if (tires) {
            graph.after_us = slow->number("after_us", 0);
            graph.extra_us += slowed_us(*slow, time_us) - time_us;
        }
        graph.total_us += slow != nullptr && !tires ? slowed_us(*slow, time_us) : time_us;
        graph.is_plain = graph.is_plain && (is_repeatable || is_filler(launch)) && !has_rule;
    }
}

// `model rested_factor rested_s`: after some time with only fillers the card is cool. For `rested_s` seconds of real time its
// kernels then take `rested_factor` of their time.
double rested_factor(Machine& machine, bool is_rest) {
    const double factor = Script::get().number("model", "rested_factor", 1);
    if (factor == 1) return factor;
    const auto now = std::chrono::steady_clock::now();
    if (is_rest) {
        if (!machine.rests_since) machine.rests_since = now;
        return 1;
    }
    if (machine.rests_since && now - *machine.rests_since > kRest) machine.busy_since = now;
    machine.rests_since.reset();
    const std::chrono::duration<double> cool(Script::get().number("model", "rested_s", 0));
    return now - machine.busy_since < cool ? factor : 1;
}

CUresult replay(CUgraphExec_st& graph) {
    Machine& machine = Machine::get();
    machine.last_triggers_early = false;  // the gap between two graphs is longer than any overlap between kernels
    if (machine.alone != &graph) machine.alone_us = 0;
    machine.alone = &graph;
    const double factor = rested_factor(machine, graph.is_rest);
    // Timing loops replay a graph thousands of times without reading a result in between.
    if (graph.is_plain && graph.ran_at != 0 && graph.ran_at == Pending::get().generation()) {
        machine.alone_us += graph.total_us;
        const double extra_us = machine.alone_us > graph.after_us ? graph.extra_us : 0;
        const double streams_us = machine.streams_us() * static_cast<double>(graph.launches.size());
        machine.now_us += (graph.total_us + extra_us + streams_us) * factor * noise(graph.launches.size());
        return CUDA_SUCCESS;
    }
    for (const Launch& launch : graph.launches) {
        if (const CUresult result = execute(launch); result != CUDA_SUCCESS) return result;
    }
    graph.ran_at = Pending::get().generation();
    return CUDA_SUCCESS;
}

}  // namespace autotune::fake
