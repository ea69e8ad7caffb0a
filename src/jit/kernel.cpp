#include "src/jit/kernel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/core/error.h"

namespace autotune::jit {
namespace {

// Capacity on the stack of enqueue(). Kernels of the catalogue take 20 to 43 arguments and at most three tensor maps, and
// reference kernels of ops up to 53 arguments.
constexpr std::size_t kMaxArguments = 64;
constexpr std::size_t kMaxTensorMaps = 4;

constexpr int kInvalidValue = 1;  // CUDA_ERROR_INVALID_VALUE

// Holds one launch's parameters while the driver copies them.
struct Parameters {
    std::uint64_t words[kMaxArguments];
    gpu::TensorMap maps[kMaxTensorMaps];
    void* addresses[kMaxArguments];
    std::size_t count = 0;
    std::size_t map_count = 0;

    template <typename T>
    void add(T value) {
        static_assert(sizeof(T) <= sizeof(std::uint64_t));
        std::memcpy(&words[count], &value, sizeof(T));
        addresses[count] = &words[count];
        ++count;
    }
    void add_map(const gpu::TensorMap& map) {
        maps[map_count] = map;
        addresses[count++] = &maps[map_count++];
    }
};

struct Packer {
    const gpu::Driver& driver;
    const std::vector<DType>& types;
    const LaunchInputs& inputs;
    Parameters& parameters;
    const std::unique_ptr<MapCache>* next_cache;

    void operator()(const TensorArg& argument) const {
        parameters.add(inputs.tensors[static_cast<std::size_t>(argument.index)] + argument.offset_bytes);
    }
    void operator()(const ScalarArg& argument) const { parameters.add(inputs.scalars[static_cast<std::size_t>(argument.index)]); }
    void operator()(const WorkspaceArg& argument) const { parameters.add(inputs.workspace + argument.offset_bytes); }
    void operator()(const I32Arg& argument) const { parameters.add(argument.value); }
    void operator()(const I64Arg& argument) const { parameters.add(argument.value); }
    void operator()(const F32Arg& argument) const { parameters.add(argument.value); }
    void operator()(const ExpectedArg& argument) const {
        parameters.add(inputs.expected[static_cast<std::size_t>(argument.output)]);
    }
    void operator()(const BoundArg& argument) const { parameters.add(inputs.bounds[static_cast<std::size_t>(argument.output)]); }
    void operator()(const TensorMapArg& argument) {
        const bool scratch = argument.tensor < 0;
        const auto tensor = static_cast<std::size_t>(argument.tensor);
        const DType type = scratch ? argument.workspace_type : types[tensor];
        const gpu::DeviceAddress address = scratch ? inputs.workspace + argument.workspace_offset_bytes : inputs.tensors[tensor];
        MapCache& kept = **next_cache++;
        if (const auto map = kept.find(address)) return parameters.add_map(*map);
        const gpu::TensorMap made = gpu::encode_tensor_map(driver, argument, type, address);
        kept.put(address, made);
        parameters.add_map(made);
    }
};

// The highest tensor, scalar and output index that a plan uses, so that enqueue() can refuse inputs that are too short.
struct Demand {
    std::size_t tensors = 0;
    std::size_t scalars = 0;
    std::size_t outputs = 0;
    std::size_t maps = 0;

    static void raise(std::size_t& count, int index) { count = std::max(count, static_cast<std::size_t>(index) + 1); }

    void operator()(const TensorArg& argument) { raise(tensors, argument.index); }
    void operator()(const ScalarArg& argument) { raise(scalars, argument.index); }
    void operator()(const ExpectedArg& argument) { raise(outputs, argument.output); }
    void operator()(const BoundArg& argument) { raise(outputs, argument.output); }
    void operator()(const TensorMapArg& argument) {
        if (argument.tensor >= 0) raise(tensors, argument.tensor);
        ++maps;
    }
    template <typename Other>
    void operator()(const Other&) {}
};

}  // namespace

BoundLaunch::BoundLaunch(std::shared_ptr<const gpu::Driver> driver, std::shared_ptr<const gpu::Library> library,
                         const std::string& symbol, const Problem& problem, LaunchPlan plan,
                         std::optional<std::uint64_t> context_id)
    : driver_(std::move(driver)), library_(std::move(library)), plan_(std::move(plan)) {
    for (const Tensor& tensor : problem.tensors) tensor_types_.push_back(tensor.dtype);
    for (const LaunchStep& step : plan_.steps) {
        Demand demand;
        for (const Argument& argument : step.arguments) std::visit(demand, argument);
        check(step.arguments.size() <= kMaxArguments && demand.maps <= kMaxTensorMaps,
              symbol + step.entry + ": too many arguments");
        check(demand.tensors <= tensor_types_.size(),
              symbol + step.entry + ": an argument names a tensor that the problem does not have");
        tensors_needed_ = std::max(tensors_needed_, demand.tensors);
        outputs_needed_ = std::max(outputs_needed_, demand.outputs);
        scalars_needed_ = std::max(scalars_needed_, demand.scalars);
        for (std::size_t i = 0; i < demand.maps; ++i) map_caches_.push_back(std::make_unique<MapCache>());
        const std::string name = symbol + step.entry;
        functions_.push_back(context_id ? library_->ready(name, step, *context_id) : library_->ready(name, step));
    }
    for (const SymbolWrite& write : plan_.symbol_writes) {
        Demand demand;
        std::visit(demand, write.from);
        check(demand.tensors <= tensor_types_.size(), symbol + ": a symbol gets a tensor that the problem does not have");
        tensors_needed_ = std::max(tensors_needed_, demand.tensors);
        const auto variable = library_->variable(write.symbol);
        if (!variable) continue;  // this instance does not use the symbol
        if (variable->bytes < write.bytes)
            throw Error(ErrorCode::usage, "array " + write.symbol + " of the source has " + std::to_string(variable->bytes) +
                                              " bytes, and the tensor that it gets has " + std::to_string(write.bytes));
        symbol_targets_.push_back({variable->address, write});
    }
}

int BoundLaunch::write_symbol(const SymbolTarget& target, const LaunchInputs& inputs, gpu::StreamHandle stream) const noexcept {
    const SymbolWrite& write = target.write;
    const auto* const tensor = std::get_if<TensorArg>(&write.from);
    const auto* const scratch = std::get_if<WorkspaceArg>(&write.from);
    const gpu::DeviceAddress from = tensor != nullptr ? inputs.tensors[static_cast<std::size_t>(tensor->index)]
                                                      : inputs.workspace + (scratch != nullptr ? scratch->offset_bytes : 0);
    return gpu::copy_on_device(*driver_, target.address, from, write.bytes, stream);
}

int BoundLaunch::write_symbols(const LaunchInputs& inputs, gpu::StreamHandle stream) const noexcept {
    if (inputs.tensors.size() < tensors_needed_) return kInvalidValue;
    for (const SymbolTarget& target : symbol_targets_)
        if (const int code = write_symbol(target, inputs, stream); code != 0) return code;
    return 0;
}

int BoundLaunch::enqueue(const LaunchInputs& inputs, gpu::StreamHandle stream, Symbols symbols) const noexcept {
    if (inputs.tensors.size() < tensors_needed_ || inputs.scalars.size() < scalars_needed_) return kInvalidValue;
    if (inputs.expected.size() < outputs_needed_ || inputs.bounds.size() < outputs_needed_) return kInvalidValue;
    const std::unique_ptr<MapCache>* next_cache = map_caches_.data();
    for (std::size_t i = 0; i < functions_.size(); ++i) {
        const LaunchStep& step = plan_.steps[i];
        if (symbols == Symbols::write) {
            for (const SymbolTarget& target : symbol_targets_)
                if (target.write.before_step == i)
                    if (const int code = write_symbol(target, inputs, stream); code != 0) return code;
        }
        Parameters parameters;
        try {
            Packer packer{*driver_, tensor_types_, inputs, parameters, next_cache};
            for (const Argument& argument : step.arguments) std::visit(packer, argument);
            next_cache = packer.next_cache;
        } catch (const gpu::DriverError& error) {
            return error.code();
        } catch (...) {
            return kInvalidValue;
        }
        if (const int code = functions_[i].launch(step, parameters.addresses, stream); code != 0) return code;
    }
    return 0;
}

gpu::Function::Info BoundLaunch::info() const {
    return functions_.empty() ? gpu::Function::Info{} : functions_.front().info();
}

}  // namespace autotune::jit
