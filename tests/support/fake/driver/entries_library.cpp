// Libraries, functions, launches and tensor maps, and cuGetProcAddress, which gives access to all entry points.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/support/fake/call_log.h"
#include "tests/support/fake/driver/machine.h"

namespace autotune::fake {
namespace {

constexpr std::uint64_t kTensorMapMagic = 0xfa4e'7e50'03a9'0001;

// "sm_90a" runs only on 9.0; "sm_80" runs on 8.x with x >= 0.
bool runs_on(const std::string& arch, int ordinal) {
    const std::string cc = device_word(ordinal, "cc", "9.0");
    const int major = std::atoi(cc.c_str());
    const int minor = std::atoi(cc.substr(cc.find('.') + 1).c_str());
    const int wanted = std::atoi(arch.substr(std::min<std::size_t>(3, arch.size())).c_str());
    const bool is_exact = !arch.empty() && arch.back() == 'a';
    return wanted / 10 == major && (is_exact ? wanted % 10 == minor : wanted % 10 <= minor);
}

CUresult library_load_data(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                           unsigned) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    auto program = decode_cubin(code);
    if (const CUresult result = enter("cuLibraryLoadData", program ? program->symbol : "?"); result != CUDA_SUCCESS)
        return result;
    if (const CUresult result = unsafe_call(); result != CUDA_SUCCESS) return result;
    if (!program) return CUDA_ERROR_INVALID_IMAGE;
    if (const Rule* rule = Script::get().fire({"load", program->symbol, &program->constants}); rule != nullptr) {
        if (rule->action == "crash") crash(rule->word("how", "segv"));
        if (rule->action == "hang") sleep_s(rule->number("seconds", 60));
        if (rule->action == "return")
            return static_cast<CUresult>(static_cast<int>(rule->number("code", CUDA_ERROR_INVALID_IMAGE)));
    }
    const CUctx_st* context = current_context();
    if (!runs_on(program->arch, context != nullptr ? context->ordinal : 0)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    auto owned = std::make_unique<CUlib_st>();
    CUlib_st* made = owned.get();
    made->program = std::move(*program);
    for (const KernelFact& kernel : made->program.kernels) {
        made->kernels.push_back(std::make_unique<CUfunc_st>(CUfunc_st{.library = made, .kernel = &kernel}));
    }
    machine.libraries.push_back(std::move(owned));
    *library = made;
    return CUDA_SUCCESS;
}

CUresult library_unload(CUlibrary library) {
    const CUresult result = enter("cuLibraryUnload", library->program.symbol);
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    for (const auto& [name, address] : library->variables) machine.release(address);
    library->variables.clear();
    return result;
}

CUresult library_get_global(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = enter("cuLibraryGetGlobal", name); result != CUDA_SUCCESS) return result;
    const auto known = library->program.variables.find(name);
    if (known == library->program.variables.end()) return CUDA_ERROR_NOT_FOUND;
    Address& made = library->variables[name];
    if (made == 0)
        if (const CUresult result = machine.allocate(known->second, made); result != CUDA_SUCCESS) return result;
    *address = made;
    *bytes = known->second;
    return CUDA_SUCCESS;
}

CUresult library_get_kernel(CUkernel* kernel, CUlibrary library, const char* name) {
    if (const CUresult result = enter("cuLibraryGetKernel", name); result != CUDA_SUCCESS) return result;
    for (const auto& each : library->kernels) {
        if (!names_kernel(name, *each->kernel)) continue;
        *kernel = reinterpret_cast<CUkernel>(each.get());
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult kernel_get_function(CUfunction* function, CUkernel kernel) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = enter("cuKernelGetFunction"); result != CUDA_SUCCESS) return result;
    CUctx_st* const context = current_context();
    if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    auto* const of_kernel = reinterpret_cast<CUfunc_st*>(kernel);
    auto& made = of_kernel->library->functions;
    const auto is_it = [&](const auto& each) { return each->of_kernel == of_kernel && each->context == context; };
    if (const auto found = std::find_if(made.begin(), made.end(), is_it); found != made.end()) {
        *function = found->get();
        return CUDA_SUCCESS;
    }
    made.push_back(std::make_unique<CUfunc_st>(*of_kernel));
    made.back()->of_kernel = of_kernel;
    made.back()->context = context;
    *function = made.back().get();
    return CUDA_SUCCESS;
}

int registers_of(const CUfunc_st& function) {
    const bool is_main = function.kernel->symbol == function.library->program.symbol;
    return is_main ? function.library->program.registers : 24;
}

int max_threads_of(const CUfunc_st& function) {
    const int by_registers = 65536 / std::max(1, registers_of(function)) / 32 * 32;
    return std::min(1024, by_registers);
}

CUresult func_get_attribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    if (const CUresult result = enter("cuFuncGetAttribute"); result != CUDA_SUCCESS) return result;
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            *value = registers_of(*function);
            break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
            *value = function->library->program.spill_bytes;
            break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            *value = static_cast<int>(function->dynamic_smem_allowed_bytes);
            break;
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = max_threads_of(*function);
            break;
        default:
            *value = 0;
            break;
    }
    return CUDA_SUCCESS;
}

CUresult func_set_attribute(CUfunction function, CUfunction_attribute attribute, int value) {
    if (const CUresult result = enter("cuFuncSetAttribute", std::to_string(value)); result != CUDA_SUCCESS) return result;
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) function->allows_large_clusters = value != 0;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_SUCCESS;
    if (value < 0 || value > static_cast<int>(device_number(0, "smem_block"))) return CUDA_ERROR_INVALID_VALUE;
    function->dynamic_smem_allowed_bytes = static_cast<std::size_t>(value);
    return CUDA_SUCCESS;
}

CUresult func_load(CUfunction function) {
    if (const CUresult result = enter("cuFuncLoad", function->kernel->symbol); result != CUDA_SUCCESS) return result;
    return unsafe_call();
}

CUresult occupancy_max_blocks(int* blocks, CUfunction function, int threads, std::size_t smem_bytes) {
    if (const CUresult result = enter("cuOccupancyMaxActiveBlocksPerMultiprocessor"); result != CUDA_SUCCESS) return result;
    const int by_threads = static_cast<int>(device_number(0, "threads_sm")) / std::max(1, threads);
    const int by_registers = static_cast<int>(device_number(0, "registers_sm")) / std::max(1, registers_of(*function) * threads);
    const int by_smem = static_cast<int>(device_number(0, "smem_sm") / static_cast<double>(smem_bytes + 1024));
    *blocks = std::min({by_threads, by_registers, by_smem, static_cast<int>(device_number(0, "blocks_sm"))});
    return CUDA_SUCCESS;
}

// The contents of a map: a magic number, the address, and the distances along dimensions 1 and 2.
using MapWords = std::array<std::uint64_t, 4>;

void read_parameter(const ParameterFact& fact, const void* at, Launch& launch) {
    std::uint64_t word = 0;
    switch (fact.type) {
        case ParameterType::f32:
        case ParameterType::i32:
            std::memcpy(&word, at, 4);
            break;
        case ParameterType::tensor_map: {
            MapWords map{};
            std::memcpy(map.data(), at, sizeof(map));
            if (map[0] != kTensorMapMagic) break;
            launch.tensor_maps[fact.name] = {map[1], static_cast<std::int64_t>(map[2]), static_cast<std::int64_t>(map[3])};
            break;
        }
        case ParameterType::pointer:
        case ParameterType::f64:
        case ParameterType::i64:
            std::memcpy(&word, at, 8);
            break;
    }
    launch.words.push_back(word);
}

bool is_programmatic(const CUlaunchConfig& config) {
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const CUlaunchAttribute& attribute = config.attrs[i];
        if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return attribute.value.programmaticStreamSerializationAllowed != 0;
    }
    return false;
}

std::uint32_t cluster_blocks(const CUlaunchConfig& config) {
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const auto& dim = config.attrs[i].value.clusterDim;
        if (config.attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return dim.x * dim.y * dim.z;
    }
    return 1;
}

bool touches_another_device(const Launch& launch) {
    const auto is_elsewhere = [&](Address address) {
        const Allocation* const found = Machine::get().find(address, 1);
        return found != nullptr && found->device != launch.function->context->ordinal;
    };
    const auto& parameters = launch.function->kernel->parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i)
        if (parameters[i].type == ParameterType::pointer && is_elsewhere(launch.words[i])) return true;
    return std::any_of(launch.tensor_maps.begin(), launch.tensor_maps.end(),
                       [&](const auto& map) { return is_elsewhere(map.second.address); });
}

CUresult launch_kernel_ex(const CUlaunchConfig* config, CUfunction function, void** parameters, void**) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = enter("cuLaunchKernelEx", function->kernel->symbol); result != CUDA_SUCCESS) return result;
    if (function->context != current_context())
        return current_context() == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_HANDLE;
    if (is_of_another_context(config->hStream)) return CUDA_ERROR_INVALID_HANDLE;
    Launch launch;
    launch.function = function;
    launch.config = *config;
    launch.is_programmatic = is_programmatic(*config);
    launch.cluster_blocks = cluster_blocks(*config);
    launch.config.attrs = nullptr;
    for (std::size_t i = 0; i < function->kernel->parameters.size(); ++i) {
        read_parameter(function->kernel->parameters[i], parameters[i], launch);
    }
    if (const CUresult result = refuse(launch); result != CUDA_SUCCESS) return result;
    if (touches_another_device(launch)) {
        log_call("BUG a kernel touches memory of another device");
        machine.health = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (is_capturing(config->hStream)) {
        config->hStream->capture->launches.push_back(std::move(launch));
        return CUDA_SUCCESS;
    }
    Machine::get().note_stream(config->hStream);
    return execute(launch);
}

bool is_legal_map(cuuint32_t rank, const void* address, const cuuint64_t* strides, const cuuint32_t* box) {
    if (rank < 1 || rank > 5 || reinterpret_cast<std::uint64_t>(address) % 16 != 0) return false;
    for (cuuint32_t i = 0; i < rank; ++i) {
        if (box[i] < 1 || box[i] > 256) return false;
    }
    for (cuuint32_t i = 0; i + 1 < rank; ++i) {
        if (strides[i] % 16 != 0) return false;
    }
    return true;
}

CUresult tensor_map_encode_tiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address, const cuuint64_t*,
                                 const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    log_call("cuTensorMapEncodeTiled");
    if (!is_legal_map(rank, address, strides, box)) return CUDA_ERROR_INVALID_VALUE;
    const MapWords words{kTensorMapMagic, reinterpret_cast<std::uint64_t>(address), rank > 1 ? strides[0] : 0,
                         rank > 2 ? strides[1] : 0};
    std::memcpy(map, words.data(), sizeof(words));
    return CUDA_SUCCESS;
}

std::vector<Entry> library_entries_here() {
    const PFN_cuLibraryLoadData_v12000 f_load = Outside<library_load_data>::call;
    const PFN_cuLibraryUnload_v12000 f_unload = Outside<library_unload>::call;
    const PFN_cuLibraryGetKernel_v12000 f_kernel = Outside<library_get_kernel>::call;
    const PFN_cuLibraryGetGlobal_v12000 f_global = Outside<library_get_global>::call;
    const PFN_cuKernelGetFunction_v12000 f_function = Outside<kernel_get_function>::call;
    const PFN_cuFuncGetAttribute_v2020 f_get = Outside<func_get_attribute>::call;
    const PFN_cuFuncSetAttribute_v9000 f_set = Outside<func_set_attribute>::call;
    const PFN_cuFuncLoad_v12040 f_func_load = Outside<func_load>::call;
    const PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050 f_occupancy = Outside<occupancy_max_blocks>::call;
    const PFN_cuLaunchKernelEx_v11060 f_launch = Outside<launch_kernel_ex>::call;
    const PFN_cuTensorMapEncodeTiled_v12000 f_map = Outside<tensor_map_encode_tiled>::call;
    return {{"cuLibraryLoadData", 12000, reinterpret_cast<void*>(f_load)},
            {"cuLibraryUnload", 12000, reinterpret_cast<void*>(f_unload)},
            {"cuLibraryGetKernel", 12000, reinterpret_cast<void*>(f_kernel)},
            {"cuLibraryGetGlobal", 12000, reinterpret_cast<void*>(f_global)},
            {"cuKernelGetFunction", 12000, reinterpret_cast<void*>(f_function)},
            {"cuFuncGetAttribute", 2020, reinterpret_cast<void*>(f_get)},
            {"cuFuncSetAttribute", 9000, reinterpret_cast<void*>(f_set)},
            {"cuFuncLoad", 12040, reinterpret_cast<void*>(f_func_load)},
            {"cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, reinterpret_cast<void*>(f_occupancy)},
            {"cuLaunchKernelEx", 11060, reinterpret_cast<void*>(f_launch)},
            {"cuTensorMapEncodeTiled", 12000, reinterpret_cast<void*>(f_map)}};
}

std::vector<Entry> all_entries() {
    std::vector<Entry> all;
    for (const auto& some : {device_entries(), memory_entries(), stream_entries(), library_entries()}) {
        all.insert(all.end(), some.begin(), some.end());
    }
    return all;
}

// The newest version of an entry point that is not above the requested one, as in the real driver.
void* look_up(const std::string& name, int version) {
    static const std::vector<Entry>* entries = new std::vector<Entry>(all_entries());
    const auto driver_version = static_cast<int>(Script::get().number("driver", "version", 13000));
    for (const Entry& entry : *entries) {
        if (entry.name == name && entry.version <= version && entry.version <= driver_version) return entry.address;
    }
    return nullptr;
}

// Reports memory that is still allocated when the process exits.
[[gnu::destructor]] void say_leaks() {
    Machine::get().report_leaks();
}

}  // namespace

CUresult refuse(const Launch& launch) {
    const CUlaunchConfig& c = launch.config;
    const bool is_empty = launch.blocks() == 0 || launch.threads() == 0;
    if (is_empty || c.gridDimX > 2147483647u || c.gridDimY > 65535 || c.gridDimZ > 65535) return CUDA_ERROR_INVALID_VALUE;
    if (launch.threads() > 1024 || c.blockDimZ > 64) return CUDA_ERROR_INVALID_VALUE;
    if (launch.threads() > static_cast<std::uint64_t>(max_threads_of(*launch.function)))
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (c.sharedMemBytes > launch.function->dynamic_smem_allowed_bytes) return CUDA_ERROR_INVALID_VALUE;
    constexpr std::uint32_t kMostPortableBlocks = 8;
    if (launch.cluster_blocks > kMostPortableBlocks && !launch.function->allows_large_clusters)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    return CUDA_SUCCESS;
}

std::vector<Entry> library_entries() {
    return library_entries_here();
}

}  // namespace autotune::fake

extern "C" [[gnu::visibility("default")]] CUresult cuGetProcAddress_v2(const char* symbol, void** address, int version,
                                                                       cuuint64_t, CUdriverProcAddressQueryResult* found) {
    const bool is_counted = autotune_interposer_inside_driver != nullptr;
    if (is_counted) autotune_interposer_inside_driver(1);
    *address = autotune::fake::look_up(symbol, version);
    if (is_counted) autotune_interposer_inside_driver(-1);
    if (found != nullptr) *found = *address != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *address != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

extern "C" [[gnu::visibility("default")]] CUresult cuInit(unsigned flags) {
    return reinterpret_cast<PFN_cuInit_v2000>(autotune::fake::look_up("cuInit", 2000))(flags);
}

extern "C" [[gnu::visibility("default")]] CUresult cuDriverGetVersion(int* version) {
    return reinterpret_cast<PFN_cuDriverGetVersion_v2020>(autotune::fake::look_up("cuDriverGetVersion", 2020))(version);
}
