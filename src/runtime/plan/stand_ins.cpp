#include "src/runtime/plan/stand_ins.h"

#include <cxxabi.h>

#include <set>

#include "kernel_templates/empty_sum.h"
#include "src/core/system/processors.h"
#include "src/gpu/driver/borrowed_context.h"
#include "src/runtime/plan/bind.h"
#include "src/runtime/process/background.h"

namespace autotune::runtime {
namespace {

// If the fastest loaded kernel needs more scratch than the stream has, this many others are tried; each takes some 20 us.
constexpr std::size_t kStandInsTried = 4;
// Such a kernel may be slower by this much, as predicted. An allocation of a gigabyte takes the caller some 2 ms.
constexpr double kMostLossUs = 10'000;

}  // namespace

Workspaces::Request workspace_request(const Plan& plan, std::uint64_t context_id, gpu::StreamHandle stream) {
    return {context_id, stream, plan.workspace_bytes(), plan.workspace_zero_bytes()};
}

// A kernel that was compiled for a wider problem serves this one too; it only has code that this problem does not need.
SharedPlan StandIns::best_loaded_stand_in(const PlanRequest& request, const PlanSpec& spec, const char* because,
                                          Scratch* scratch) {
    if (services_.catalogue.op_of(spec.problem).empty_sums(spec.problem))
        if (SharedPlan plan = bind_empty_sum(services_, spec, EmptySumKernel::if_loaded)) return plan;
    SharedPlan fastest;
    const auto is_enough = [&](const SharedPlan& plan) {
        if (scratch == nullptr) return true;
        const Workspaces::Request needed = workspace_request(*plan, spec.context.id, scratch->stream);
        if (services_.workspaces.holds(needed)) return !fastest || plan->predicted_us() <= fastest->predicted_us() + kMostLossUs;
        if (!fastest) fastest = plan, scratch->lacking = needed;
        return false;
    };
    const auto of = [&](const Problem& problem) {
        SharedPlan plan = loaded_plan(spec, problem, 1, is_enough);
        return plan || !fastest ? plan : loaded_plan(spec, problem, kStandInsTried, is_enough);
    };
    if (SharedPlan plan = of(spec.problem)) return plan;
    for (const Problem& wider : request.wider_problems(services_.catalogue))
        if (SharedPlan plan = of(wider)) return plan;
    if (fastest) {
        scratch->lacking.reset();  // the call allocates it
        return fastest;
    }
    throw Failure(AUTOTUNE_NOT_PLANNED, "no kernel that is loaded can do " + spec.problem.key() + ", and " + because +
                                            "; make its plan before with autotune_" + spec.problem.op + "_plan()");
}

SharedPlan StandIns::loaded_plan(const PlanSpec& spec, const Problem& problem, std::size_t count, const Judge& is_enough) {
    const Device& device = services_.device(spec.context.ordinal);
    for (const auto& instance : services_.instances.loaded_for(problem, device, count)) {
        try {
            const SharedPlan plan = bind(services_, {instance, AUTOTUNE_ORIGIN_LOADED}, problem, spec);
            if (is_enough(plan)) return plan;
        } catch (const Error& error) {
            if (is_final(error)) throw;
            services_.log.warn(instance->candidate.to_string() + " cannot serve " + problem.key() + ": " + error.what());
        }
    }
    return nullptr;
}

// If a kernel does not compile, this is a warning, because others may compile.
void StandIns::load_general_kernel(const GeneralKernel& general, const Device& device, bool into_context) {
    const Problem problem = services_.catalogue.problem(general.request);
    const Family& family = *services_.catalogue.find_family(general.family);
    if (&family != &empty_sum_family() && family.refuses(problem, device)) return;
    try {
        const Candidate candidate{general.family, family.default_config(problem, device)};
        if (candidate.config.empty() && &family != &empty_sum_family()) return;
        services_.instances.make({candidate}, problem, device, into_context);
    } catch (const abi::__forced_unwind&) {
        throw;
    } catch (...) {
        services_.log.warn("a general kernel for " + problem.class_key() + ": " + describe_current_exception().message);
    }
}

void StandIns::load_general_kernels(const std::vector<GeneralKernel>& kernels) {
    const auto& driver = services_.driver;
    const auto current = gpu::current_context(*driver);
    const auto borrowed = current ? std::optional<gpu::BorrowedContext>(driver) : std::nullopt;
    std::set<std::string> archs;
    Background workers(static_cast<unsigned>(usable_compilers(0)));
    const auto load_on = [&](int ordinal) {
        const Device& device = services_.device(ordinal);
        if (!archs.insert(device.arch()).second) return;
        const bool into_context = current && current->ordinal == ordinal;
        for (const GeneralKernel& general : kernels) {
            workers.add([this, &device, &borrowed, general, into_context] {
                if (into_context) borrowed->make_current();
                load_general_kernel(general, device, into_context);
            });
        }
    };
    if (current) load_on(current->ordinal);
    for (int ordinal = 0; ordinal < driver->device_count(); ++ordinal) load_on(ordinal);
    workers.wait();
}

void StandIns::reserve_scratch(const Workspaces::Request& request) {
    try {
        const LoadGate::Turn turn(services_.gate);
        services_.workspaces.reserve(request);
    } catch (const gpu::DriverError& error) {
        services_.log.warn(std::string("no scratch memory is reserved: ") + error.what());
    }
}

}  // namespace autotune::runtime
