#include "benchmarks/host_cost/rivals.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <sstream>

#include "src/core/error.h"
#include "src/gpu/library_folders.h"
#include "src/gpu/nvrtc.h"
#include "src/jit/compiler.h"
#include "src/rivals/rival.h"

namespace autotune::host_cost {
namespace {

Problem core_problem(const Bench& bench, const Catalogue& catalogue) {
    const std::string shape =
        std::to_string(bench.problem.m) + "x" + std::to_string(bench.problem.n) + "x" + std::to_string(bench.problem.k);
    return catalogue.problem({"hgemm", shape, {{"beta", "zero"}}});
}

gpu::DeviceAddress address(const void* pointer) {
    return reinterpret_cast<gpu::DeviceAddress>(pointer);
}

// The parameters of one step, with room for one tensor map each.
class Packed {
  public:
    Packed(const Bench& bench, const Problem& problem, const LaunchStep& step) : bench_(bench), problem_(problem) {
        for (const Argument& argument : step.arguments) std::visit(*this, argument);
        for (gpu::TensorMap& slot : slots_) pointers_.push_back(&slot);
    }
    void** pointers() { return pointers_.data(); }

    void operator()(const TensorArg& argument) { add(tensor(argument.index)); }
    void operator()(const ScalarArg& argument) { add(argument.index == 0 ? bench_.call.alpha : bench_.call.beta); }
    void operator()(const WorkspaceArg& argument) { add(address(bench_.call.workspace) + argument.offset_bytes); }
    void operator()(const I32Arg& argument) { add(argument.value); }
    void operator()(const I64Arg& argument) { add(argument.value); }
    void operator()(const F32Arg& argument) { add(argument.value); }
    void operator()(const ExpectedArg&) { add(gpu::DeviceAddress{0}); }
    void operator()(const BoundArg&) { add(gpu::DeviceAddress{0}); }
    void operator()(const TensorMapArg& argument) {
        const bool scratch = argument.tensor < 0;
        const DType type = scratch ? argument.workspace_type : problem_.tensors[static_cast<std::size_t>(argument.tensor)].dtype;
        const gpu::DeviceAddress at =
            scratch ? address(bench_.call.workspace) + argument.workspace_offset_bytes : tensor(argument.tensor);
        slots_.push_back(gpu::encode_tensor_map(*bench_.driver, argument, type, at));
    }

  private:
    gpu::DeviceAddress tensor(int index) const {
        return address(index == 0 ? bench_.call.a : index == 1 ? bench_.call.b : bench_.call.c);
    }
    template <typename T>
    void add(T value) {
        std::memcpy(slots_.emplace_back().words.data(), &value, sizeof(value));
    }

    const Bench& bench_;
    const Problem& problem_;
    std::deque<gpu::TensorMap> slots_;
    std::vector<void*> pointers_;
};

struct RawStep {
    LaunchStep step;
    gpu::Function function;
    std::unique_ptr<Packed> packed;
};

// Parses the form of autotune_plan_candidate(), such as "gemm/mma block_m=128 ...".
Candidate parse_candidate(const std::string& text) {
    std::istringstream words(text);
    Candidate candidate;
    words >> candidate.family;
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        candidate.config.set(word.substr(0, equals), std::stoll(word.substr(equals + 1)));
    }
    return candidate;
}

struct Raw {
    std::unique_ptr<gpu::Library> library;
    std::vector<RawStep> steps;
};

std::vector<std::string> library_folders() {
    return gpu::library_folders([](const char* name) { return std::getenv(name); });
}

std::shared_ptr<Raw> build_raw(const Bench& bench) {
    const Catalogue catalogue = Catalogue::embedded();
    const Problem problem = core_problem(bench, catalogue);
    const Device device = bench.driver->device(0);
    const Candidate candidate = parse_candidate(bench.plan.candidate());
    const Family* family = catalogue.find_family(candidate.family);
    check(family != nullptr, "no family " + candidate.family);
    const auto nvrtc = gpu::Nvrtc::load({{}, library_folders(), bench.driver->version() / 1000});
    const auto text = jit::render(catalogue, *family, problem, family->space(problem, device), candidate.config,
                                  {device.arch(), nvrtc->version()});
    const auto result = jit::compile(*nvrtc, jit::CubinCache(""), text);
    if (!result.compiled) throw Error(ErrorCode::compile_failed, result.failure);
    auto raw = std::make_shared<Raw>();
    raw->library = std::make_unique<gpu::Library>(bench.driver, result.compiled->cubin);
    for (const LaunchStep& step : family->plan(problem, candidate.config, device).steps) {
        const gpu::Function function = raw->library->function(text.symbol + step.entry);
        if (step.dynamic_smem_bytes > 0) function.allow_dynamic_smem(step.dynamic_smem_bytes);
        function.force_load();
        raw->steps.push_back({step, function, std::make_unique<Packed>(bench, problem, step)});
    }
    return raw;
}

}  // namespace

Rival raw_launches(const Bench& bench) {
    const std::shared_ptr<Raw> raw = build_raw(bench);
    return {"cuLaunchKernelEx", [raw, &bench] {
                for (const RawStep& each : raw->steps)
                    gpu::throw_if_failed(*bench.driver,
                                         each.function.launch(each.step, each.packed->pointers(), bench.stream.handle()),
                                         "cuLaunchKernelEx");
            }};
}

Rival through_plan(const Bench& bench) {
    return {"autotune_gemm", [&bench] { bench.plan.run(bench.call, bench.stream.handle()); }};
}

Rival through_one_call(const Bench& bench) {
    return {"tuned_gemm", [&bench] {
                tuned_gemm(bench.handle, bench.problem, {bench.call.a, bench.call.b, bench.call.c}, bench.stream.handle());
            }};
}

namespace {

// The same product and call through the generic description.
class Described {
  public:
    explicit Described(const Bench& bench)
        : tensors_{tensor("a", bench.problem.m, bench.problem.k), tensor("b", bench.problem.k, bench.problem.n),
                   tensor("c", bench.problem.m, bench.problem.n)},
          addresses_{bench.call.a, bench.call.b, bench.call.c} {
        beta_.struct_size = sizeof(beta_);
        beta_.name = "beta";
        beta_.word = "zero";
        problem_.struct_size = sizeof(problem_);
        problem_.op = "gemm";
        problem_.tensors = tensors_.data();
        problem_.tensor_count = tensors_.size();
        problem_.attributes = &beta_;
        problem_.attribute_count = 1;
        scalars_[0].value.f32 = bench.call.alpha;
        scalars_[1].value.f32 = bench.call.beta;
        call_.struct_size = sizeof(call_);
        call_.tensors = addresses_.data();
        call_.tensor_count = addresses_.size();
        call_.scalars = scalars_.data();
        call_.scalar_count = scalars_.size();
        call_.workspace = bench.call.workspace;
        call_.workspace_bytes = bench.call.workspace_bytes;
    }
    Described(const Described&) = delete;
    Described& operator=(const Described&) = delete;

    const autotune_problem& problem() const { return problem_; }
    const autotune_call& call() const { return call_; }

  private:
    static autotune_tensor tensor(const char* name, std::int64_t rows, std::int64_t cols) {
        autotune_tensor made{};
        made.struct_size = sizeof(made);
        made.name = name;
        made.type = AUTOTUNE_F16;
        made.rank = 2;
        made.extents[0] = rows;
        made.extents[1] = cols;
        return made;
    }

    std::array<autotune_tensor, 3> tensors_;
    std::array<const void*, 3> addresses_;
    autotune_attribute beta_{};
    std::array<autotune_scalar, 2> scalars_{};
    autotune_problem problem_{};
    autotune_call call_{};
};

}  // namespace

Rival through_generic_plan(const Bench& bench) {
    return {"autotune_run", [described = std::make_shared<const Described>(bench), &bench] {
                throw_if_failed(autotune_run(bench.plan.get(), &described->call(), bench.stream.handle()));
            }};
}

Rival through_generic_call(const Bench& bench) {
    return {
        "autotune_tuned", [described = std::make_shared<const Described>(bench), &bench] {
            throw_if_failed(autotune_tuned(bench.handle.get(), &described->problem(), &described->call(), bench.stream.handle()));
        }};
}

std::vector<Rival> through_vendor(const Bench& bench, std::string& why) {
    const Problem problem = core_problem(bench, Catalogue::embedded());
    const std::vector<gpu::DeviceAddress> tensors = {address(bench.call.a), address(bench.call.b), address(bench.call.c)};
    try {
        for (const auto& rival : rivals_of(problem.op)) {
            if (rival->name() != "cublas") continue;
            const PreparedRival prepared = rival->prepare(problem, {bench.driver, bench.stream.handle(), library_folders()});
            why = prepared.why_not;
            if (prepared.ways.empty()) return {};
            prepared.ways.front()(tensors);
            return {{"cublasGemmEx", [launch = prepared.ways.front(), tensors] { launch(tensors); }}};
        }
    } catch (const Error& error) {
        why = error.what();
    }
    return {};
}

}  // namespace autotune::host_cost
