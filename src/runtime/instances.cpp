#include "src/runtime/instances.h"

#include <algorithm>

#include "kernel_templates/offers.h"
#include "src/core/error.h"
#include "src/jit/compiler.h"
#include "src/jit/kernel.h"
#include "src/runtime/roomy_thread.h"
#include "src/runtime/status.h"

namespace autotune::runtime {

Instances::Instances(const Settings& settings, const Catalogue& catalogue, std::shared_ptr<const gpu::Driver> driver, Log& log)
    : settings_(settings), catalogue_(catalogue), driver_(std::move(driver)), log_(log), cache_(settings.cache_folder) {
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
    std::string facts = device.arch() + ' ';
    facts += family.name();
    for (const Binding& fact : family.facts(problem)) {
        const auto* type = std::get_if<DType>(&fact.value);
        facts += ' ' + fact.name + '=';
        facts += type != nullptr ? std::string(to_string(*type)) : std::to_string(std::get<std::int64_t>(fact.value));
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
    Instance twin = *instance;  // the same code, other launch parameters
    twin.candidate = candidate;
    return std::make_shared<const Instance>(std::move(twin));
}

Instances::Shared Instances::load(const Order& order, const std::string& nvrtc, const jit::Compiled& compiled) {
    auto library = std::make_shared<const gpu::Library>(driver_, compiled.cubin);
    auto instance = std::make_shared<const Instance>(
        Instance{order.candidate, order.device.arch(), nvrtc, order.source, compiled.symbol, std::move(library)});
    const Family& family = family_of(order.candidate);
    // The driver loads a kernel into a context at its first use there, which takes longer than a call may take: none sees it
    // before.
    if (order.into_context)
        jit::BoundLaunch(driver_, instance->library, instance->symbol, order.problem,
                         family.plan(order.problem, order.candidate.config, order.device));
    const std::string facts = facts_of(family, order.problem, order.device);
    const std::lock_guard lock(mutex_);
    families_.insert(&family);
    std::vector<Shared>& alike = by_facts_[facts];
    alike.reserve(alike.size() + 1);  // what may throw is done before the instance is there
    const auto [entry, is_new] = instances_.try_emplace(order.source, instance);
    if (is_new) alike.push_back(std::move(instance));
    return entry->second;
}

// nullptr if it is not cached, or cached as something that the driver will not take.
Instances::Shared Instances::from_cache(const Order& order, const jit::Rendered& text, const std::string& nvrtc) {
    const auto cached = cache_.find(text.identity);
    if (!cached || cached->symbol != text.symbol) return nullptr;
    try {
        return load(order, nvrtc, *cached);
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
    log_.say(AUTOTUNE_LOG_INFO, "NVRTC " + nvrtc->version() + " from " + nvrtc->path());
    return nvrtc;
}

Instances::Shared Instances::compile(const Order& order, const jit::Rendered& text, const gpu::Nvrtc& nvrtc) {
    log_.say(AUTOTUNE_LOG_INFO, "compiling " + order.candidate.to_string() + " for " + text.arch);
    jit::CompileResult result;
    run_with_room([&] { result = jit::compile(nvrtc, jit::CubinCache(""), text); });
    if (!result.compiled) throw Failure(AUTOTUNE_COMPILE_FAILED, result.failure);
    // A config that spills is slow, not wrong: the tuner would drop it, a caller who waits for an answer gets it.
    if (!result.rejected.empty()) log_.say(AUTOTUNE_LOG_INFO, text.symbol + " " + result.rejected);
    cache_.put(*result.compiled);
    return load(order, nvrtc.version(), *result.compiled);
}

// `winners_nvrtc`: the version that compiled a stored winner, empty for other candidates.
Instances::Shared Instances::build(const Order& order, const std::string& winners_nvrtc) {
    if (!winners_nvrtc.empty()) {
        if (auto instance = from_cache(order, rendered(order, winners_nvrtc), winners_nvrtc)) return instance;
    }
    const auto nvrtc = compiler();
    const jit::Rendered text = rendered(order, nvrtc->version());
    if (auto instance = from_cache(order, text, nvrtc->version())) return instance;
    return compile(order, text, *nvrtc);
}

Instances::Shared Instances::make(const Found& found, const Problem& problem, const Device& device, bool into_context) {
    const Order order{found.candidate, problem, device, source_of(found.candidate, problem, device), into_context};
    if (auto instance = loaded(found.candidate, order.source)) return instance;
    building_.run(order.source, [&] {
        const auto instance = loaded(found.candidate, order.source);  // by a thread that was here before
        return instance ? instance : build(order, found.nvrtc);
    });
    return loaded(found.candidate, order.source);  // with this call's launch parameters
}

std::vector<Instances::Shared> Instances::loaded_for(const Problem& problem, const Device& device) const {
    constexpr std::size_t kMost = 1;      // to ask whether one is legal takes as long as to predict several
    std::vector<const Family*> families;  // to say a family's facts takes longer than everything else here
    {
        const std::lock_guard lock(mutex_);
        for (const Family* family : catalogue_.families_of(problem.op))
            if (families_.contains(family)) families.push_back(family);
    }
    std::vector<Shared> all;
    for (const Family* family : families) {
        const std::string facts = facts_of(*family, problem, device);
        const std::lock_guard lock(mutex_);
        if (const auto found = by_facts_.find(facts); found != by_facts_.end())
            all.insert(all.end(), found->second.begin(), found->second.end());
    }
    std::sort(all.begin(), all.end(), [](const Shared& a, const Shared& b) { return a->source < b->source; });
    std::vector<const Candidate*> candidates;
    for (const Shared& each : all) candidates.push_back(&each->candidate);
    std::vector<Shared> ranked;
    for (OfferRanking::Ranked& each : OfferRanking(catalogue_, problem, device).best(candidates, kMost)) {
        Instance twin = *all[each.offer];  // the same code, other launch parameters
        twin.candidate = std::move(each.candidate);
        ranked.push_back(std::make_shared<const Instance>(std::move(twin)));
    }
    return ranked;
}

}  // namespace autotune::runtime
