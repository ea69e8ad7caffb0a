#include "src/runtime/load/instances.h"

#include <algorithm>
#include <cmath>

#include "src/core/error.h"
#include "src/dispatch/offers.h"
#include "src/jit/compiler.h"
#include "src/jit/kernel.h"
#include "src/runtime/api/status.h"
#include "src/runtime/load/large_stack.h"
#include "src/runtime/process/process_end.h"

namespace autotune::runtime {
namespace {

// How many instances of one family and the same facts are ranked: each prediction takes some 2 us.
constexpr std::size_t kMostRanked = 24;

std::vector<double> log_extents(const Problem& problem) {
    std::vector<double> logs;
    for (const Extent& extent : problem.extents)
        logs.push_back(std::log(static_cast<double>(std::max<std::int64_t>(1, extent.value))));
    return logs;
}

}  // namespace

Instances::Instances(const Settings& settings, const Catalogue& catalogue, std::shared_ptr<const gpu::Driver> driver, Log& log,
                     LoadGate& gate)
    : settings_(settings),
      catalogue_(catalogue),
      driver_(std::move(driver)),
      log_(log),
      gate_(gate),
      cache_(settings.cache_folder) {
    if (!settings.cache_folder.empty() && !cache_.disabled_because().empty())
        log_.warn(cache_.disabled_because() + "; kernels are compiled anew in every process");
}

const Family& Instances::family_of(const Candidate& candidate) const {
    const Family* family = catalogue_.find_family(candidate.family);
    if (family == nullptr) internal_error("no family " + candidate.family);
    return *family;
}

const std::vector<std::string>& Instances::compile_parameters(const Family& family, const Problem& problem,
                                                              const Device& device) const {
    const std::string name(family.name());
    {
        const std::lock_guard lock(mutex_);
        if (const auto known = compile_parameters_.find(name); known != compile_parameters_.end()) return known->second;
    }
    std::vector<std::string> names;
    for (const Parameter& parameter : family.rules(problem, device).parameters)
        if (parameter.kind == ParameterKind::compile) names.push_back(parameter.name);
    const std::lock_guard lock(mutex_);
    return compile_parameters_.emplace(name, std::move(names)).first->second;
}

std::string Instances::facts_of(const Family& family, const Problem& problem, const Device& device) const {
    std::string facts = device.arch();
    facts.reserve(256);
    facts.append(1, ' ').append(family.name());
    for (const Binding& fact : family.facts(problem)) {
        facts.append(1, ' ').append(fact.name).append(1, '=').append(fact.spelled());
    }
    return facts;
}

std::string Instances::source_of(const Candidate& candidate, const Problem& problem, const Device& device) const {
    const Family& family = family_of(candidate);
    std::string source = facts_of(family, problem, device);
    for (const std::string& name : compile_parameters(family, problem, device))
        source += ' ' + std::to_string(candidate.config[name]);
    return source;
}

jit::Rendered Instances::rendered(const Order& order, const std::string& nvrtc) const {
    const Family& family = family_of(order.candidate);
    return jit::render(catalogue_, family, order.problem, family.rules(order.problem, order.device), order.candidate.config,
                       {order.device.arch(), nvrtc});
}

Instances::Shared Instances::loaded(const Candidate& candidate, const std::string& source) const {
    Shared instance;
    {
        const std::lock_guard lock(mutex_);
        const auto found = instances_.find(source);
        if (found == instances_.end()) return nullptr;
        instance = found->second;
    }
    if (instance->candidate == candidate) return instance;
    Instance twin = *instance;  // a copy of the instance: the same code with other launch parameters
    twin.candidate = candidate;
    return std::make_shared<const Instance>(std::move(twin));
}

// The driver loads a kernel into a context at its first use there, which takes longer than a call may take, so no call sees the
// instance before that. Plans of other problems use its other kernels, to add parts of K or to copy operands, so all of them are
// loaded.
void Instances::load_into_context(const Order& order, const jit::Rendered& text, const Instance& instance) {
    const auto context = gpu::current_context(*driver_);
    const std::uint64_t id = context ? context->id : 0;  // Without a context the driver returns an error.
    const auto load = [&](const std::string& entry) {
        const LoadGate::Turn turn(gate_);
        instance.library->load(instance.symbol + entry, id);
    };
    load("");
    for (const std::string& entry : jit::second_entries(text)) load(entry);
    const LoadGate::Turn turn(gate_);
    jit::BoundLaunch(driver_, instance.library, instance.symbol, order.problem,
                     family_of(order.candidate).plan(order.problem, order.candidate.config, order.device), id);
}

Instances::Shared Instances::load(const Order& order, const jit::Rendered& text, const std::string& nvrtc,
                                  const jit::Compiled& compiled) {
    const gpu::RelaxedCapture relaxed(*driver_);  // this thread may be capturing a stream
    const auto library = [&] {
        const LoadGate::Turn turn(gate_);
        return std::make_shared<const gpu::Library>(driver_, compiled.cubin);
    }();
    auto instance = std::make_shared<const Instance>(Instance{order.candidate, order.device.arch(), nvrtc, order.source,
                                                              compiled.symbol, jit::reject_reason(compiled.report),
                                                              jit::likely_slowdown(compiled.report), library});
    const Family& family = family_of(order.candidate);
    if (order.into_context) load_into_context(order, text, *instance);
    const std::string facts = facts_of(family, order.problem, order.device);
    const std::lock_guard lock(mutex_);
    families_.insert(&family);
    std::vector<Loaded>& alike = by_facts_[facts];
    Loaded loaded{instance, log_extents(order.problem)};
    // Reserves memory before the entry exists, because this may throw.
    if (alike.size() == alike.capacity()) alike.reserve(2 * alike.size() + 1);
    const auto [entry, is_new] = instances_.try_emplace(order.source, std::move(instance));
    if (is_new) alike.push_back(std::move(loaded));
    return entry->second;
}

// Returns nullptr if the cubin is not cached, or if the driver refuses it.
Instances::Shared Instances::from_cache(const Order& order, const jit::Rendered& text, const std::string& nvrtc) {
    const auto cached = cache_.find(text.identity);
    if (!cached || cached->symbol != text.symbol) return nullptr;
    try {
        return load(order, text, nvrtc, *cached);
    } catch (const gpu::DriverError& error) {
        if (error.severity() != gpu::Severity::refused) throw;
        log_.warn_once("cubin", "a cached cubin was refused and is compiled again: " + std::string(error.what()));
        return nullptr;
    }
}

std::shared_ptr<const gpu::Nvrtc> Instances::compiler() {
    std::shared_ptr<const gpu::Nvrtc> nvrtc;
    {
        const std::lock_guard lock(nvrtc_mutex_);
        if (nvrtc_) return nvrtc_;
        try {
            nvrtc = nvrtc_ = gpu::Nvrtc::load({settings_.nvrtc, settings_.library_folders, driver_->version() / 1000});
        } catch (const Error& error) {
            throw Failure(AUTOTUNE_COMPILE_FAILED, std::string("no compiler: ") + error.what());
        }
    }
    process_end::watch(process_end::After::compiler_opened);
    log_.say(AUTOTUNE_LOG_INFO, "NVRTC " + nvrtc->version() + " from " + nvrtc->path());
    return nvrtc;
}

Instances::Shared Instances::compile(const Order& order, const jit::Rendered& text, const gpu::Nvrtc& nvrtc) {
    log_.say(AUTOTUNE_LOG_INFO, "compiling " + order.candidate.to_string() + " for " + text.arch);
    process_end::check();
    jit::CompileResult result;
    run_with_large_stack([&] { result = jit::compile(nvrtc, jit::CubinCache(""), text); });
    process_end::watch(process_end::After::compiled);
    process_end::check();
    if (!result.compiled) throw Failure(AUTOTUNE_COMPILE_FAILED, result.failure);
    cache_.put(*result.compiled);
    return load(order, text, nvrtc.version(), *result.compiled);
}

// `winners_nvrtc`: the version that compiled a stored winner; empty for other candidates.
Instances::Shared Instances::build(const Order& order, const std::string& winners_nvrtc) {
    if (!winners_nvrtc.empty()) {
        if (auto instance = from_cache(order, rendered(order, winners_nvrtc), winners_nvrtc)) return instance;
    }
    const auto nvrtc = compiler();
    const jit::Rendered text = rendered(order, nvrtc->version());
    if (auto instance = from_cache(order, text, nvrtc->version())) return instance;
    return compile(order, text, *nvrtc);
}

Instances::Shared Instances::make(const dispatch::ResolvedCandidate& found, const Problem& problem, const Device& device,
                                  bool into_context) {
    const Order order{found.candidate, problem, device, source_of(found.candidate, problem, device), into_context};
    if (auto instance = loaded(found.candidate, order.source)) return instance;
    building_.run(order.source, [&] {
        const auto instance = loaded(found.candidate, order.source);  // another thread has loaded it in the meantime
        return instance ? instance : build(order, found.nvrtc);
    });
    return loaded(found.candidate, order.source);  // the instance with the launch parameters of this call
}

Instances::Shared Instances::find(const Candidate& candidate, const Problem& problem, const Device& device) const {
    return loaded(candidate, source_of(candidate, problem, device));
}

bool Instances::is_compiled(const dispatch::ResolvedCandidate& found, const Problem& problem, const Device& device) {
    const Order order{found.candidate, problem, device, source_of(found.candidate, problem, device), false};
    if (loaded(found.candidate, order.source)) return true;
    const auto is_cached = [&](const std::string& nvrtc) { return cache_.find(rendered(order, nvrtc).identity).has_value(); };
    if (!found.nvrtc.empty() && is_cached(found.nvrtc)) return true;
    try {
        return is_cached(compiler()->version());
    } catch (const Failure&) {  // make() reports that there is no compiler
        return false;
    }
}

void Instances::add_nearest(const std::vector<Loaded>& alike, const Problem& problem, std::vector<Shared>& to) {
    if (alike.size() <= kMostRanked) {
        for (const Loaded& each : alike) to.push_back(each.instance);
        return;
    }
    const std::vector<double> here = log_extents(problem);
    std::vector<std::pair<double, std::size_t>> order;  // distance and index
    for (std::size_t i = 1; i < alike.size(); ++i) {
        double distance = 0;
        for (std::size_t e = 0; e < here.size(); ++e) distance += std::abs(here[e] - alike[i].log_extents[e]);
        order.emplace_back(distance, i);
    }
    std::partial_sort(order.begin(), order.begin() + (kMostRanked - 1), order.end());
    to.push_back(alike.front().instance);  // includes a general kernel, if there is one
    for (std::size_t i = 0; i < kMostRanked - 1; ++i) to.push_back(alike[order[i].second].instance);
}

std::vector<Instances::Shared> Instances::loaded_for(const Problem& problem, const Device& device, std::size_t count) const {
    // Families are listed once, because computing a family's facts takes longer than everything else here.
    std::vector<const Family*> families;
    {
        const std::lock_guard lock(mutex_);
        for (const Family* family : catalogue_.families_of(problem.op))
            if (families_.contains(family)) families.push_back(family);
    }
    std::vector<Shared> all;
    for (const Family* family : families) {
        const std::string facts = facts_of(*family, problem, device);
        const std::lock_guard lock(mutex_);
        if (const auto found = by_facts_.find(facts); found != by_facts_.end()) add_nearest(found->second, problem, all);
    }
    std::sort(all.begin(), all.end(), [](const Shared& a, const Shared& b) { return a->source < b->source; });
    // An instance that the compiler's report disqualifies is used only if there is no other instance.
    const auto is_fit = [](const Shared& each) { return each->rejected.empty(); };
    const auto unfit = std::stable_partition(all.begin(), all.end(), is_fit);
    std::vector<Shared> ranked = best_of({all.begin(), unfit}, problem, device, count);
    return ranked.empty() ? best_of({unfit, all.end()}, problem, device, count) : ranked;
}

std::vector<Instances::Shared> Instances::best_of(const std::vector<Shared>& instances, const Problem& problem,
                                                  const Device& device, std::size_t count) const {
    if (instances.empty()) return {};
    std::vector<const Candidate*> candidates;
    for (const Shared& each : instances) candidates.push_back(&each->candidate);
    std::vector<Shared> ranked;
    for (OfferRanking::Ranked& each : OfferRanking(catalogue_, problem, device).best(candidates, count)) {
        Instance twin = *instances[each.offer];  // a copy of the instance: the same code with other launch parameters
        twin.candidate = std::move(each.candidate);
        ranked.push_back(std::make_shared<const Instance>(std::move(twin)));
    }
    return ranked;
}

}  // namespace autotune::runtime
