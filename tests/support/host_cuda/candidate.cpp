#include "tests/support/host_cuda/candidate.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>

#include "kernel_templates/harness/harness.h"
#include "src/core/error.h"
#include "src/core/family/family_definition.h"
#include "src/core/op/op_definition.h"
#include "tests/support/host_cuda/machine/launch_memory.h"
#include "tuner/verify/verifier.h"

namespace autotune::test::host_cuda {
namespace {

using Side = GuardedArray::Side;

std::vector<Bits> contents_of(const Problem& problem, const std::vector<std::vector<double>>& tensors) {
    std::vector<Bits> contents;
    for (std::size_t i = 0; i < tensors.size(); ++i) contents.push_back(encoded(problem.tensors[i].dtype, tensors[i]));
    return contents;
}

std::string judge_output(const OpTest& test, std::size_t number, const Problem& problem, const LaunchMemory& memory,
                         const Expected& expected) {
    const OutputCheck& output = test.outputs[number];
    const Tensor& tensor = problem.tensors[static_cast<std::size_t>(output.tensor)];
    const std::size_t size = size_bytes(tensor.dtype);
    CompareResult result;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, memory.tensor(output.tensor).data() + static_cast<std::size_t>(tensor.offset_of(i)) * size, size);
        const auto at = static_cast<std::size_t>(i);
        compare_element(result, tensor.dtype, bits, expected.values[at], expected.bounds[at], static_cast<std::uint64_t>(i));
    }
    return tuner::judge(test, output, tensor, result);
}

struct Run {
    Schedule schedule;
    Side side;
};
constexpr Run kRuns[] = {{{.last_thread_first = false, .late_copies = true}, Side::end},
                         {{.last_thread_first = true, .late_products = true}, Side::begin},
                         {{.last_thread_first = false, .late_products = true}, Side::end}};
// The last run is for sm_90a alone: only there may products happen at different times.
std::span<const Run> runs_on(std::string_view arch) {
    return std::span(kRuns).first(arch == kLaterArch ? 3 : 2);
}

// The architecture for which the family is rendered here.
const char* arch_for(const Family& family, const Problem& problem) {
    return family.refuses(problem, reference_device(kArch).value()) ? kLaterArch : kArch;
}

bool is_users(const Family& family) {
    const auto* const defined = dynamic_cast<const DefinedFamily*>(&family);
    return defined != nullptr && defined->definition().op != nullptr;
}

// The part of CUDA C++ that only users' kernels and their references use; device/cuda.h has the rest.
constexpr std::string_view kForUsers = R"(#pragma once
// g++ refuses shared memory of inline functions in the section of that of kernels.
#undef __forceinline__
#define __forceinline__ static
extern "C" double sqrt(double) noexcept;
extern "C" double rint(double) noexcept;
template <class Type>
inline Type __shfl_down_sync(unsigned mask, Type mine, int by, int width = 32) {
    const host_cuda::Lanes<Type> all(mask, "__shfl_down_sync", mine);
    const int from = host_cuda::lane() + by;
    return from / width == host_cuda::lane() / width ? all.at(from) : mine;
}
template <class Type>
inline Type __ldg(const Type* from) {
    return *from;
}
template <class Type>
inline Type __ldcs(const Type* from) {
    return *from;
}
)";

jit::Rendered for_users(jit::Rendered rendered) {
    rendered.headers.emplace_back("for_users.h", std::string(kForUsers));
    rendered.source = "#include \"for_users.h\"\n" + rendered.source;
    return rendered;
}

jit::Rendered rendered(const Catalogue& catalogue, const Family& family, const Problem& problem, const Config& config,
                       int sm_count) {
    const Device device = device_for(family, problem, sm_count);
    if (const auto reason = family.refuses(problem, device)) throw Error(ErrorCode::usage, problem.key() + ": " + *reason);
    jit::Rendered text =
        jit::render(catalogue, family, problem, family.rules(problem, device), config, {arch_for(family, problem), "13.0"});
    return is_users(family) ? for_users(std::move(text)) : text;
}

jit::Rendered rendered_reference(const Catalogue& catalogue, const Problem& problem) {
    const Op& op = catalogue.op_of(problem);
    jit::Rendered text = jit::render_reference(catalogue, op, problem, {kArch, "13.0"});
    return dynamic_cast<const DefinedOp*>(&op) != nullptr ? for_users(std::move(text)) : text;
}

// The facts from which the text is made, besides the config.
std::string spelled_facts(const Family& family, const Problem& problem) {
    std::string spelled;
    for (const Binding& binding : family.facts(problem)) spelled += binding.name + "=" + binding.spelled() + " ";
    return spelled;
}

class Examiner {
  public:
    // `reference`: used if the op has none on the host.
    Examiner(HostKernel& kernel, const LaunchPlan& plan, const Op& op, HostReference* reference, const Problem& problem,
             std::span<const Run> runs)
        : kernel_(kernel), plan_(plan), op_(op), reference_(reference), problem_(problem), runs_(runs) {}

    std::string examine(const OpTest& test) {
        const std::vector<std::vector<double>> tensors = filled_tensors(problem_, test);
        const std::vector<Bits> before = contents_of(problem_, tensors);
        const std::vector<Expected> expected =
            reference_ != nullptr ? reference_->compute(problem_, test) : op_.reference_on_host(problem_, test, tensors);
        std::vector<Bits> first;
        for (const Run& run : runs_) {
            const LaunchMemory memory(problem_, plan_, before, run.side);
            if (const std::string wrong = run_once(memory, run.schedule); !wrong.empty()) return test.name + " test: " + wrong;
            for (std::size_t i = 0; i < test.outputs.size(); ++i)
                if (const std::string wrong = judge_output(test, i, problem_, memory, expected[i]); !wrong.empty()) return wrong;
            if (const std::string wrong = memory.damage(before); !wrong.empty()) return test.name + " test: " + wrong;
            const std::vector<Bits> answers = outputs(test, memory);
            if (first.empty()) first = answers;
            if (test.is_typical && plan_.deterministic && answers != first)
                return test.name + " test: another order of threads gives other bits";
        }
        return "";
    }

  private:
    std::string run_once(const LaunchMemory& memory, Schedule schedule) {
        try {
            for (const LaunchStep& step : plan_.steps) kernel_.launch(step, memory.words(step), schedule);
        } catch (const KernelFault& fault) {
            return fault.what() + (fault.address == nullptr ? "" : ", " + memory.place_of(fault.address));
        }
        return "";
    }
    static std::vector<Bits> outputs(const OpTest& test, const LaunchMemory& memory) {
        std::vector<Bits> all;
        for (const OutputCheck& output : test.outputs) {
            const auto bytes = memory.tensor(output.tensor);
            all.emplace_back(bytes.begin(), bytes.end());
        }
        return all;
    }

    HostKernel& kernel_;
    const LaunchPlan& plan_;
    const Op& op_;
    HostReference* const reference_;
    const Problem& problem_;
    std::span<const Run> runs_;
};

}  // namespace

Device device_for(const Family& family, const Problem& problem, int sm_count) {
    Device device = reference_device(arch_for(family, problem)).value();
    device.identity.sm_count = sm_count;
    return device;
}

HostReference::HostReference(const Catalogue& catalogue, const Problem& problem)
    : op_(catalogue.op_of(problem)), kernel_(rendered_reference(catalogue, problem)) {}

std::vector<Expected> HostReference::compute(const Problem& problem, const OpTest& test) {
    const LaunchPlan plan = op_.reference_plan(problem, test);
    std::vector<std::int64_t> answers;
    for (const OutputCheck& output : test.outputs)
        answers.push_back(problem.tensors[static_cast<std::size_t>(output.tensor)].elements());
    const LaunchMemory memory(problem, plan, contents_of(problem, filled_tensors(problem, test)), Side::end, answers);
    for (const LaunchStep& step : plan.steps) kernel_.launch(step, memory.words(step), {});
    std::vector<Expected> expected;
    for (std::size_t i = 0; i < answers.size(); ++i) expected.push_back(memory.answer(i));
    return expected;
}

Config config_with(const Family& family, const Problem& problem, const std::string& changes, int sm_count) {
    const Device device = device_for(family, problem, sm_count);
    Config config = family.default_config(problem, device);
    std::istringstream words(changes);
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        config.set(word.substr(0, equals), std::stoll(word.substr(equals + 1)));
    }
    const auto reason = family.rules(problem, device).why_not(config);
    if (reason) throw Error(ErrorCode::usage, *reason + ": " + config.to_string());
    return config;
}

HostCandidate::HostCandidate(const Catalogue& catalogue, const Family& family, const Problem& problem, const Config& config,
                             int sm_count)
    : catalogue_(catalogue),
      family_(family),
      config_(config),
      sm_count_(sm_count),
      facts_(spelled_facts(family, problem)),
      kernel_(rendered(catalogue, family, problem, config, sm_count)) {}

std::string HostCandidate::examine(const Problem& problem) {
    check(spelled_facts(family_, problem) == facts_, "the problem needs another text than " + facts_);
    const Op& op = catalogue_.op_of(problem);
    const LaunchPlan plan = family_.plan(problem, config_, device_for(family_, problem, sm_count_));
    std::optional<HostReference> reference;
    if (is_users(family_)) reference.emplace(catalogue_, problem);
    Examiner examiner(kernel_, plan, op, reference ? &*reference : nullptr, problem, runs_on(arch_for(family_, problem)));
    for (const OpTest& test : op.tests(problem))
        if (const std::string wrong = examiner.examine(test); !wrong.empty()) return wrong;
    return "";
}

}  // namespace autotune::test::host_cuda
