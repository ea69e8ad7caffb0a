#include "src/runtime/plan/plan.h"

#include <algorithm>

#include "kernel_templates/empty_sum.h"
#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/runtime/process/fork.h"

namespace autotune::runtime {
namespace {

// cuMemAlloc aligns memory to 256 bytes, and kernels may assume it for their workspace.
constexpr std::uintptr_t kWorkspaceMisalignedBits = 255;

std::size_t aligned(std::size_t bytes) {
    return static_cast<std::size_t>(round_up(static_cast<std::int64_t>(bytes), kWorkspaceMisalignedBits + 1));
}

std::uintptr_t bits_of(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
}

gpu::DeviceAddress device_address(const void* address) {
    return static_cast<gpu::DeviceAddress>(bits_of(address));
}

std::string hexadecimal(std::uintptr_t value) {
    constexpr const char* digits = "0123456789abcdef";
    std::string text;
    for (; value != 0; value >>= 4) text.insert(text.begin(), digits[value & 15]);
    return "0x" + (text.empty() ? "0" : text);
}

std::string misaligned(const std::string& name, std::uintptr_t address, std::uintptr_t bits) {
    return name + " is at " + hexadecimal(address) + ", but this plan needs a multiple of " + std::to_string(bits + 1) +
           " bytes; make one with a smaller problem.align_" + name;
}

// Whether the problem's class fixes the scalar at zero, by an attribute with the scalar's name.
bool is_zero(const Problem& problem, const std::string& scalar) {
    return std::any_of(problem.attributes.begin(), problem.attributes.end(), [&](const Attribute& attribute) {
        return attribute.name == scalar && attribute.value == AttributeValue("zero");
    });
}

// Either zero of a float.
bool is_zero_float(std::uint64_t bits) {
    return (bits & 0x7fffffffU) == 0;
}

// Returns "" if nothing is launched.
std::string symbol_of(const std::shared_ptr<const Instance>& instance) {
    return instance ? instance->symbol : "";
}

std::shared_ptr<const gpu::Library> library_of(const std::shared_ptr<const Instance>& instance) {
    return instance ? instance->library : nullptr;
}

Config config_of(const std::shared_ptr<const Instance>& instance) {
    return instance ? instance->candidate.config : Config{};
}

}  // namespace

Plan::Plan(const Parts& parts)
    : driver_(parts.driver),
      errors_(parts.errors),
      launch_(parts.driver, library_of(parts.instance), symbol_of(parts.instance), parts.problem,
              parts.family.plan(parts.problem, config_of(parts.instance), parts.device), parts.context_id),
      form_(parts.form),
      family_(parts.family),
      problem_(parts.problem),
      device_(parts.device),
      config_(config_of(parts.instance)),
      tensor_count_(parts.problem.tensors.size()),
      scalar_count_(parts.problem.scalars.size()),
      op_(parts.problem.op),
      origin_(parts.origin),
      recorded_us_(parts.recorded_us),
      recorded_rival_us_(parts.recorded_rival_us),
      regret_(parts.regret),
      candidate_(parts.instance ? parts.instance->candidate.to_string() : "nothing to compute"),
      when_zero_(parts.when_zero),
      zero_scalar_(parts.zero_scalar),
      context_id_(parts.context_id),
      reach_(parts.reach),
      fork_generation_(fork_generation()) {
    check(tensor_count_ >= 1 && tensor_count_ <= kMostTensors && scalar_count_ <= kMostScalars,
          "op " + op_ + " has more tensors or scalars than a call passes");
    for (std::size_t i = 0; i < tensor_count_; ++i) {
        const Tensor& tensor = problem_.tensors[i];
        const std::size_t at = form_.order[i];
        may_be_null_[at] = tensor.is_empty();  // or absent
        misaligned_bits_[at] = may_be_null_[at] ? 0 : static_cast<std::uintptr_t>(tensor.alignment_bytes) - 1;
        tensor_names_[i] = tensor.name;  // The problem has its tensors in the documented order, whatever the order of addresses.
    }
    for (std::size_t i = 0; i < scalar_count_; ++i) must_be_zero_[i] = is_zero(problem_, problem_.scalars[i].name);
    const auto written =
        std::find_if(problem_.tensors.begin(), problem_.tensors.end(), [](const Tensor& t) { return t.is_written(); });
    if (written == problem_.tensors.end()) internal_error("op " + op_ + " writes no tensor");
    output_ = form_.order[static_cast<std::size_t>(written - problem_.tensors.begin())];
    find_pairs();
    share_workspace();
    bytes_ = kept_bytes();
}

// Counts malloc's overhead of 16 bytes per allocation. Most of the memory is arguments of the steps and tensor maps.
std::size_t Plan::kept_bytes() const {
    std::size_t bytes = sizeof(Plan) + 16 * problem_.tensors.size() + candidate_.size();
    for (const LaunchStep& step : launch_.plan().steps) {
        bytes += sizeof(LaunchStep) + 32 + step.arguments.size() * sizeof(Argument);
        for (const Argument& argument : step.arguments)
            if (std::holds_alternative<TensorMapArg>(argument)) bytes += sizeof(jit::MapCache) + 24;
    }
    for (const Tensor& tensor : problem_.tensors) bytes += sizeof(Tensor) + tensor.dims.size() * sizeof(Dim) + 16;
    bytes += problem_.extents.size() * sizeof(Extent) + problem_.attributes.size() * (sizeof(Attribute) + 16);
    bytes += problem_.scalars.size() * sizeof(Scalar);
    for (const auto& [name, value] : config_.values()) bytes += sizeof(name) + sizeof(value) + (name.size() > 15 ? 32 : 0);
    return bytes + (when_zero_ ? when_zero_->bytes() : 0);
}

// Pairs every output with every other tensor. Two outputs form one pair.
void Plan::find_pairs() {
    const std::vector<Tensor>& tensors = problem_.tensors;
    footprints_.reserve(tensor_count_);
    for (const Tensor& tensor : tensors) footprints_.emplace_back(tensor);
    for (std::size_t i = 0; i < tensor_count_; ++i) {
        for (std::size_t other = 0; other < tensor_count_; ++other) {
            const bool is_seen = other == i || (other < i && tensors[other].is_written());
            if (is_seen || !tensors[i].is_written() || footprints_[i].bytes() == 0 || footprints_[other].bytes() == 0) continue;
            const bool may_be_same = form_.may_be_in_place && form_.order[i] == output_ && !tensors[other].is_written() &&
                                     footprints_[i] == footprints_[other];
            pairs_.push_back(
                {form_.order[i], form_.order[other], narrow<std::uint8_t>(i), narrow<std::uint8_t>(other), may_be_same});
        }
    }
}

// Aligns both plans so that their counters end, and their scratch begins, at the same address: neither's scratch overwrites the
// other's counters.
void Plan::share_workspace() {
    const LaunchPlan& own = launch_.plan();
    workspace_bytes_ = own.workspace_bytes;
    workspace_zero_bytes_ = own.workspace_zero_bytes;
    if (!when_zero_ || when_zero_->workspace_bytes() == 0) return;
    const std::size_t own_counters = aligned(own.workspace_zero_bytes);
    const std::size_t zero_counters = aligned(when_zero_->workspace_zero_bytes());
    const auto scratch = [](std::size_t bytes, std::size_t counters) { return bytes > counters ? bytes - counters : 0; };
    const std::size_t counters = std::max(own_counters, zero_counters);
    own_offset_ = counters - own_counters;
    zero_offset_ = counters - zero_counters;
    workspace_zero_bytes_ = counters;
    workspace_bytes_ =
        counters + std::max(scratch(own.workspace_bytes, own_counters), scratch(when_zero_->workspace_bytes(), zero_counters));
}

const Plan& Plan::plan_for(const Call& call) const noexcept {
    return when_zero_ && is_zero_float(call.scalars[zero_scalar_]) ? *when_zero_ : *this;
}

bool Plan::is_empty_sum() const {
    return family_.name() == empty_sum_family().name();
}

double Plan::predicted_us() const {
    return family_.predict_us(problem_, config_, device_).value_or(0);
}

bool Plan::is_foreign() const noexcept {
    return fork_generation_ != fork_generation();
}

// Whether the current context is not the plan's.
bool Plan::is_of_another_context() const {
    const auto current = gpu::current_context(*driver_);
    return current && current->id != context_id_;
}

// A sentence about the first address of a call that kernels of the context cannot reach; nullopt if they reach all.
std::optional<std::string> Plan::out_of_reach(const Call& call) const {
    for (std::size_t i = 0; i < tensor_count_; ++i) {
        const gpu::DeviceAddress address = device_address(call.tensors[i]);
        if (address == 0 || reach_->knows(context_id_, address)) continue;
        if (is_of_another_context()) return std::nullopt;  // refuse_launch() reports that
        if (const auto device = reach_->beyond(context_id_, address))
            return tensor_names_[i] + " is memory of device " + std::to_string(*device) + ", but device " +
                   std::to_string(gpu::current_ordinal(*driver_)) +
                   " is current, which cannot reach it: make the array's device current, or enable peer access";
    }
    return std::nullopt;
}

// Explains why the driver refused a launch, if the reason is known.
autotune_status Plan::refuse_launch(int code, gpu::StreamHandle stream) const {
    if (is_of_another_context())
        return fail(AUTOTUNE_INVALID_ARGUMENT, "the plan was made in another CUDA context than the one that is current");
    if (gpu::is_stream_of_another_context(*driver_, stream)) return fail(AUTOTUNE_INVALID_ARGUMENT, kForeignStream);
    gpu::throw_if_failed(*driver_, code, "cuLaunchKernelEx");
    return AUTOTUNE_OK;
}

autotune_status Plan::refuse_op(const char* function) const noexcept {
    try {
        return fail(AUTOTUNE_INVALID_ARGUMENT, std::string(function) + "() was given a plan of op " + op_);
    } catch (...) {
        return AUTOTUNE_OUT_OF_MEMORY;
    }
}

autotune_status Plan::refuse_argument(const std::string& why) const noexcept {
    try {
        return fail(AUTOTUNE_INVALID_ARGUMENT, why);
    } catch (...) {
        return AUTOTUNE_OUT_OF_MEMORY;
    }
}

// The first pair of tensors that overlap and must not. For ranges that do not meet, two subtractions are enough.
const Plan::Pair* Plan::overlapping(const Call& call) const noexcept {
    for (const Pair& pair : pairs_) {
        const std::uintptr_t output = bits_of(call.tensors[pair.output]), other = bits_of(call.tensors[pair.other]);
        const Footprint& of_output = footprints_[pair.output_in_problem];
        const Footprint& of_other = footprints_[pair.other_in_problem];
        if (output - other >= of_other.bytes() && other - output >= of_output.bytes()) continue;
        if (pair.may_be_same && output == other) continue;
        if (meet(of_output, output, of_other, other)) return &pair;
    }
    return nullptr;
}

// Whether a call may be enqueued; refuse() gives the reason if not.
bool Plan::is_fit(const Call& call) const noexcept {
    if (call.tensors.size() < tensor_count_ || call.scalars.size() < scalar_count_) return false;
    bool is_good = true;
    for (std::size_t i = 0; i < tensor_count_; ++i) {
        const std::uintptr_t address = bits_of(call.tensors[i]);
        is_good = is_good && (address != 0 || may_be_null_[i]) && (address & misaligned_bits_[i]) == 0;
    }
    for (std::size_t i = 0; i < scalar_count_; ++i) is_good = is_good && (!must_be_zero_[i] || is_zero_float(call.scalars[i]));
    is_good = is_good && overlapping(call) == nullptr;
    if (workspace_bytes() != 0) {
        is_good = is_good && call.workspace != nullptr && call.workspace_bytes >= workspace_bytes() &&
                  (bits_of(call.workspace) & kWorkspaceMisalignedBits) == 0;
    }
    return is_good;
}

// A sentence with the rule of ops that work in place, for a pair of tensors that breaks it.
std::string Plan::in_place_rule() const {
    return form_.may_be_in_place ? ", unless " + tensor_names_[output_] + " is an input of the same layout" : "";
}

// Reports which check of is_fit() the call fails. Not on the hot path, so it may build a sentence.
autotune_status Plan::refuse(const Call& call) const {
    if (call.tensors.size() < tensor_count_ || call.scalars.size() < scalar_count_)
        return fail(AUTOTUNE_INVALID_ARGUMENT, "the call passes " + std::to_string(call.tensors.size()) + " tensors and " +
                                                   std::to_string(call.scalars.size()) + " scalars; op " + op_ + " takes " +
                                                   std::to_string(tensor_count_) + " and " + std::to_string(scalar_count_));
    for (std::size_t i = 0; i < tensor_count_; ++i)
        if (call.tensors[i] == nullptr && !may_be_null_[i]) return fail(AUTOTUNE_INVALID_ARGUMENT, tensor_names_[i] + " is NULL");
    for (std::size_t i = 0; i < tensor_count_; ++i) {
        const std::uintptr_t address = bits_of(call.tensors[i]);
        if ((address & misaligned_bits_[i]) != 0)
            return fail(AUTOTUNE_MISALIGNED, misaligned(tensor_names_[i], address, misaligned_bits_[i]));
    }
    for (std::size_t i = 0; i < scalar_count_; ++i) {
        const std::string& name = problem_.scalars[i].name;
        if (must_be_zero_[i] && !is_zero_float(call.scalars[i]))
            return fail(AUTOTUNE_INVALID_ARGUMENT, name + " is not 0, but the plan was made for a " + name +
                                                       " of zero and reads no " + tensor_names_[output_]);
    }
    if (const Pair* const pair = overlapping(call)) {
        const std::string& other = tensor_names_[pair->other];
        return fail(AUTOTUNE_OVERLAP,
                    tensor_names_[pair->output] + " overlaps " + other + "; " +
                        (pair->may_be_same ? "it may be " + other + " itself, or must not overlap it"
                                           : "an output of " + op_ + " must not overlap another tensor" + in_place_rule()));
    }
    const std::string needed = std::to_string(workspace_bytes()) + " bytes (autotune_plan_workspace)";
    if (call.workspace == nullptr || call.workspace_bytes < workspace_bytes())
        return fail(AUTOTUNE_WORKSPACE_TOO_SMALL, "workspace has " +
                                                      std::to_string(call.workspace == nullptr ? 0 : call.workspace_bytes) +
                                                      " bytes, but this plan needs " + needed);
    return fail(AUTOTUNE_MISALIGNED,
                "workspace is at " + hexadecimal(bits_of(call.workspace)) + "; it must be a multiple of 256 bytes");
}

autotune_status Plan::run(const Call& call, gpu::StreamHandle stream) const noexcept {
    try {
        if (is_foreign()) return fail(AUTOTUNE_FORKED, "the plan was made in the parent process; CUDA does not survive a fork");
        // There is nothing to compute. Addresses are not checked, because those of empty tensors may be NULL.
        if (launch_.plan().steps.empty()) return AUTOTUNE_OK;
        if (!is_fit(call)) return refuse(call);

        if (reach_)
            if (const auto why = out_of_reach(call)) return fail(AUTOTUNE_INVALID_ARGUMENT, *why);

        const Plan& chosen = plan_for(call);
        if (chosen.calls_) chosen.calls_->fetch_add(1, std::memory_order_relaxed);
        std::array<gpu::DeviceAddress, kMostTensors> addresses;
        for (std::size_t i = 0; i < tensor_count_; ++i) addresses[i] = device_address(call.tensors[form_.order[i]]);
        const std::size_t offset = &chosen == this ? own_offset_ : zero_offset_;
        const gpu::DeviceAddress workspace = call.workspace == nullptr ? 0 : device_address(call.workspace) + offset;
        const int code = chosen.launch_.enqueue(
            {.tensors = std::span(addresses.data(), tensor_count_), .scalars = call.scalars, .workspace = workspace}, stream);
        return code == 0 ? AUTOTUNE_OK : refuse_launch(code, stream);
    } catch (...) {
        return fail_with_current_exception(*errors_);
    }
}

}  // namespace autotune::runtime
