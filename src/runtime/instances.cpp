#include "src/runtime/instances.h"

#include <algorithm>

#include "src/core/error.h"
#include "src/jit/compiler.h"
#include "src/runtime/status.h"

namespace autotune::runtime {

Instances::Instances(const Settings& settings, const Catalogue& catalogue, std::shared_ptr<const gpu::Driver> driver, Log& log)
    : settings_(settings), catalogue_(catalogue), driver_(std::move(driver)), log_(log), cache_(settings.cache_folder) {
    if (!settings.cache_folder.empty() && !cache_.disabled_because().empty())
        log_.warn(cache_.disabled_because() + "; kernels are compiled anew in every process");
}

jit::Rendered Instances::rendered(const Candidate& candidate, const Problem& problem, const Device& device,
                                  const std::string& nvrtc) const {
    const Family* family = catalogue_.find_family(candidate.family);
    check(family != nullptr, "no family " + candidate.family);
    return jit::render(catalogue_, *family, problem, family->space(problem, device), candidate.config, {device.arch(), nvrtc});
}

std::shared_ptr<const Instance> Instances::loaded(const Candidate& candidate, const std::string& identity) const {
    const std::lock_guard lock(mutex_);
    for (const auto& instance : instances_) {
        if (instance->identity != identity) continue;
        if (instance->candidate == candidate) return instance;
        Instance twin = *instance;  // the same code, other launch parameters
        twin.candidate = candidate;
        return std::make_shared<const Instance>(std::move(twin));
    }
    return nullptr;
}

std::shared_ptr<const Instance> Instances::load(const Candidate& candidate, const jit::Rendered& text, const std::string& nvrtc,
                                                const jit::Compiled& compiled) {
    auto library = std::make_shared<const gpu::Library>(driver_, compiled.cubin);
    auto instance =
        std::make_shared<const Instance>(Instance{candidate, text.arch, nvrtc, text.identity, text.symbol, std::move(library)});
    const std::lock_guard lock(mutex_);
    instances_.push_back(instance);
    return instance;
}

// nullptr if it is not cached, or cached as something that the driver will not take.
std::shared_ptr<const Instance> Instances::from_cache(const Candidate& candidate, const jit::Rendered& text,
                                                      const std::string& nvrtc) {
    const auto cached = cache_.find(text.identity);
    if (!cached || cached->symbol != text.symbol) return nullptr;
    try {
        return load(candidate, text, nvrtc, *cached);
    } catch (const gpu::DriverError& error) {
        if (error.severity() != gpu::Severity::refused) throw;
        log_.warn_once("cubin", "a cached cubin was refused and is compiled again: " + std::string(error.what()));
        return nullptr;
    }
}

// REQUIRES: compile_mutex_ is held.
const gpu::Nvrtc& Instances::compiler() {
    if (!nvrtc_) {
        try {
            nvrtc_ = gpu::Nvrtc::load({settings_.nvrtc, {}, driver_->version() / 1000});
        } catch (const Error& error) {
            throw Failure(AUTOTUNE_COMPILE_FAILED, std::string("no compiler: ") + error.what());
        }
        log_.say(AUTOTUNE_LOG_INFO, "NVRTC " + nvrtc_->version() + " from " + nvrtc_->path());
    }
    return *nvrtc_;
}

// REQUIRES: compile_mutex_ is held.
std::shared_ptr<const Instance> Instances::compile(const Candidate& candidate, const jit::Rendered& text) {
    const gpu::Nvrtc& nvrtc = compiler();
    log_.say(AUTOTUNE_LOG_INFO, "compiling " + candidate.to_string() + " for " + text.arch);
    const jit::CompileResult result = jit::compile(nvrtc, jit::CubinCache(""), text);
    if (!result.compiled) throw Failure(AUTOTUNE_COMPILE_FAILED, result.failure);
    // A config that spills is slow, not wrong: the tuner would drop it, a caller who waits for an answer gets it.
    if (!result.rejected.empty()) log_.say(AUTOTUNE_LOG_INFO, text.symbol + " " + result.rejected);
    cache_.put(*result.compiled);
    return load(candidate, text, nvrtc.version(), *result.compiled);
}

std::shared_ptr<const Instance> Instances::make(const Found& found, const Problem& problem, const Device& device) {
    const auto ready = [&](const std::string& nvrtc) -> std::shared_ptr<const Instance> {
        const jit::Rendered text = rendered(found.candidate, problem, device, nvrtc);
        if (auto instance = loaded(found.candidate, text.identity)) return instance;
        return from_cache(found.candidate, text, nvrtc);
    };
    if (!found.nvrtc.empty()) {
        if (auto instance = ready(found.nvrtc)) return instance;
    }
    const std::lock_guard lock(compile_mutex_);
    const std::string version = compiler().version();
    if (auto instance = ready(version)) return instance;
    return compile(found.candidate, rendered(found.candidate, problem, device, version));
}

std::vector<std::shared_ptr<const Instance>> Instances::loaded_for(const Problem& problem, const Device& device) const {
    std::vector<std::shared_ptr<const Instance>> all;
    {
        const std::lock_guard lock(mutex_);
        all = instances_;
    }
    const auto is_legal = [&](const std::shared_ptr<const Instance>& instance) {
        // Families of other ops cannot even be asked.
        if (!instance->candidate.family.starts_with(problem.op + "/")) return false;
        const Family* family = catalogue_.find_family(instance->candidate.family);
        if (family == nullptr || instance->arch != device.arch() || family->refuses(problem, device)) return false;
        if (!family->space(problem, device).contains(instance->candidate.config)) return false;
        return rendered(instance->candidate, problem, device, instance->nvrtc).identity == instance->identity;
    };
    std::erase_if(all, [&](const auto& instance) { return !is_legal(instance); });
    return all;
}

}  // namespace autotune::runtime
