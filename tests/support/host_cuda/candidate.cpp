#include "tests/support/host_cuda/candidate.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "kernel_templates/common/fill.h"
#include "kernel_templates/common/harness.h"
#include "src/core/error.h"
#include "tests/support/host_cuda/guarded_array.h"
#include "tuner/verify/verifier.h"

namespace autotune::test::host_cuda {
namespace {

using Side = GuardedArray::Side;
using Bits = std::vector<std::byte>;

constexpr std::uint64_t kSeed = 1;
constexpr std::byte kUnwritten{static_cast<unsigned char>(kPoisonByte)};

std::vector<std::vector<double>> filled(const Problem& problem, const OpTest& test) {
    std::vector<std::vector<double>> tensors;
    for (std::size_t i = 0; i < problem.tensors.size(); ++i)
        tensors.push_back(problem.tensors[i].is_absent
                              ? std::vector<double>()
                              : filled_tensor(test.fills[i], problem.tensors[i], static_cast<int>(i), kSeed));
    return tensors;
}

Bits encoded(DType type, const std::vector<double>& values) {
    const std::size_t size = size_bytes(type);
    Bits bytes(values.size() * size);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint64_t bits = encode(type, values[i]);
        std::memcpy(bytes.data() + i * size, &bits, size);
    }
    return bytes;
}

// The memory of one run of one test.
class Memory {
  public:
    Memory(const Problem& problem, const LaunchPlan& plan, const std::vector<Bits>& contents, Side side)
        : problem_(problem), plan_(plan), workspace_(plan.workspace_bytes, 16, side) {
        for (std::size_t i = 0; i < contents.size(); ++i) {
            arrays_.emplace_back(contents[i].size(), static_cast<std::size_t>(problem.tensors[i].alignment_bytes), side);
            std::copy(contents[i].begin(), contents[i].end(), arrays_.back().bytes().begin());
        }
        std::fill(workspace_.bytes().begin(), workspace_.bytes().end(), kUnwritten);
        std::fill_n(workspace_.bytes().begin(), plan.workspace_zero_bytes, std::byte{0});
    }

    std::span<const std::byte> tensor(int index) const { return arrays_[static_cast<std::size_t>(index)].bytes(); }

    std::vector<u64> words(const LaunchStep& step) const {
        std::vector<u64> words;
        for (const Argument& argument : step.arguments) words.push_back(std::visit(*this, argument));
        return words;
    }
    u64 operator()(const TensorArg& argument) const {
        const auto index = static_cast<std::size_t>(argument.index);
        return problem_.tensors[index].is_absent ? 0 : reinterpret_cast<u64>(arrays_[index].bytes().data());
    }
    u64 operator()(const ScalarArg& argument) const { return problem_.scalars[static_cast<std::size_t>(argument.index)].bits(); }
    u64 operator()(const WorkspaceArg& argument) const {
        return reinterpret_cast<u64>(workspace_.bytes().data()) + argument.offset_bytes;
    }
    template <class Value>
    requires requires(const Value& argument) { argument.value; }
    u64 operator()(const Value& argument) const {
        u64 word = 0;
        std::memcpy(&word, &argument.value, sizeof(argument.value));
        return word;
    }
    template <class Other>
    u64 operator()(const Other&) const {
        throw Error(ErrorCode::usage, "kernels with tensor maps do not run on the host");
    }

    // What was written where it must not be; empty if nothing.
    std::string damage(const std::vector<Bits>& before) const {
        for (std::size_t i = 0; i < arrays_.size(); ++i) {
            const Tensor& tensor = problem_.tensors[i];
            if (!arrays_[i].is_whole()) return "writes outside tensor " + tensor.name;
            const bool is_as_before = std::equal(before[i].begin(), before[i].end(), arrays_[i].bytes().begin());
            if (tensor.access == Access::in && !is_as_before) return "changes its input " + tensor.name;
            if (tensor.is_written() && tensor.has_gaps() && !gaps_are_as_before(i, before[i]))
                return "writes between the elements of " + tensor.name;
        }
        if (!workspace_.is_whole()) return "writes outside its workspace";
        const auto zeros = workspace_.bytes().first(plan_.workspace_zero_bytes);
        const bool is_zero = std::all_of(zeros.begin(), zeros.end(), [](std::byte each) { return each == std::byte{0}; });
        return is_zero ? "" : "leaves workspace that must be zero for the next run with other bytes";
    }

    // "12 bytes behind the end of tensor k".
    std::string place_of(const void* address) const {
        for (std::size_t i = 0; i < arrays_.size(); ++i)
            if (const auto place = arrays_[i].place_of(address)) return *place + " of tensor " + problem_.tensors[i].name;
        if (const auto place = workspace_.place_of(address)) return *place + " of the workspace";
        return "far from every tensor";
    }

  private:
    bool gaps_are_as_before(std::size_t index, const Bits& before) const {
        const Tensor& tensor = problem_.tensors[index];
        const std::size_t size = size_bytes(tensor.dtype);
        std::vector<bool> is_element(before.size() / size, false);
        for (std::int64_t i = 0; i < tensor.elements(); ++i) is_element[static_cast<std::size_t>(tensor.offset_of(i))] = true;
        for (std::size_t i = 0; i < before.size(); ++i)
            if (!is_element[i / size] && arrays_[index].bytes()[i] != before[i]) return false;
        return true;
    }

    const Problem& problem_;
    const LaunchPlan& plan_;
    std::vector<GuardedArray> arrays_;
    GuardedArray workspace_;
};

std::string judge_output(const OpTest& test, std::size_t number, const Problem& problem, const Memory& memory,
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
                         {{.last_thread_first = true, .late_copies = false}, Side::begin}};

Device device() {
    return reference_device(kArch).value();
}

jit::Rendered rendered(const Catalogue& catalogue, const Family& family, const Problem& problem, const Config& config) {
    if (const auto reason = family.refuses(problem, device())) throw Error(ErrorCode::usage, problem.key() + ": " + *reason);
    return jit::render(catalogue, family, problem, family.rules(problem, device()), config, {kArch, "13.0"});
}

std::vector<std::string> entries_of(const LaunchPlan& plan) {
    std::vector<std::string> entries;
    for (const LaunchStep& step : plan.steps) entries.push_back(step.entry);
    return entries;
}

// What the text is made from beside the config.
std::string spelled_facts(const Family& family, const Problem& problem) {
    std::string spelled;
    for (const Binding& binding : family.facts(problem)) {
        const auto* const type = std::get_if<DType>(&binding.value);
        spelled += binding.name + "=";
        spelled += type != nullptr ? std::string(to_string(*type)) : std::to_string(std::get<std::int64_t>(binding.value));
        spelled += " ";
    }
    return spelled;
}

class Examiner {
  public:
    Examiner(HostKernel& kernel, const LaunchPlan& plan, const Op& op, const Problem& problem)
        : kernel_(kernel), plan_(plan), op_(op), problem_(problem) {}

    std::string examine(const OpTest& test) {
        const std::vector<std::vector<double>> tensors = filled(problem_, test);
        std::vector<Bits> before;
        for (std::size_t i = 0; i < tensors.size(); ++i) before.push_back(encoded(problem_.tensors[i].dtype, tensors[i]));
        const std::vector<Expected> expected = op_.reference_on_host(problem_, test, tensors);
        std::vector<Bits> first;
        for (const Run& run : kRuns) {
            const Memory memory(problem_, plan_, before, run.side);
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
    std::string run_once(const Memory& memory, Schedule schedule) {
        try {
            for (const LaunchStep& step : plan_.steps) kernel_.launch(step, memory.words(step), schedule);
        } catch (const KernelFault& fault) {
            return fault.what() + (fault.address == nullptr ? "" : ", " + memory.place_of(fault.address));
        }
        return "";
    }
    static std::vector<Bits> outputs(const OpTest& test, const Memory& memory) {
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
    const Problem& problem_;
};

}  // namespace

Config config_with(const Family& family, const Problem& problem, const std::string& changes) {
    Config config = family.default_config(problem, device());
    std::istringstream words(changes);
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        config.set(word.substr(0, equals), std::stoll(word.substr(equals + 1)));
    }
    const auto reason = family.rules(problem, device()).why_not(config);
    if (reason) throw Error(ErrorCode::usage, *reason + ": " + config.to_string());
    return config;
}

HostCandidate::HostCandidate(const Catalogue& catalogue, const Family& family, const Problem& problem, const Config& config)
    : catalogue_(catalogue),
      family_(family),
      config_(config),
      facts_(spelled_facts(family, problem)),
      kernel_(rendered(catalogue, family, problem, config), entries_of(family.plan(problem, config, device()))) {}

std::string HostCandidate::examine(const Problem& problem) {
    check(spelled_facts(family_, problem) == facts_, "the problem needs another text than " + facts_);
    const Op& op = catalogue_.op_of(problem);
    const LaunchPlan plan = family_.plan(problem, config_, device());
    Examiner examiner(kernel_, plan, op, problem);
    for (const OpTest& test : op.tests(problem))
        if (const std::string wrong = examiner.examine(test); !wrong.empty()) return wrong;
    return "";
}

}  // namespace autotune::test::host_cuda
