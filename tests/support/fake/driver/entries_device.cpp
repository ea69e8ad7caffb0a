// Entry points that need no context, and the contexts.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cmath>
#include <cstdio>
#include <cstring>

#include "tests/support/fake/call_log.h"
#include "tests/support/fake/driver/machine.h"

namespace autotune::fake {
namespace {

thread_local CUctx_st* t_current = nullptr;

int device_count() {
    return static_cast<int>(Script::get().devices().size());
}
bool is_device(int ordinal) {
    return ordinal >= 0 && ordinal < device_count();
}

CUresult init(unsigned) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    log_call("cuInit");
    const Script& script = Script::get();
    sleep_s(script.number("driver", "init_delay_s", 0));
    auto code = static_cast<CUresult>(static_cast<int>(script.number("driver", "init", CUDA_SUCCESS)));
    if (code == CUDA_SUCCESS && machine.vanished_for_good()) code = CUDA_ERROR_UNKNOWN;
    if (code == CUDA_SUCCESS && device_count() == 0) code = CUDA_ERROR_NO_DEVICE;
    if (const Rule* rule = Script::get().fire({"cuInit", "", nullptr}); rule != nullptr && code == CUDA_SUCCESS) {
        if (rule->action == "crash") crash(rule->word("how", "segv"));
        if (rule->action == "hang") sleep_s(rule->number("seconds", 60));
        if (rule->action == "return") code = static_cast<CUresult>(static_cast<int>(rule->number("code", CUDA_ERROR_UNKNOWN)));
    }
    machine.initialised = code == CUDA_SUCCESS;
    return code;
}

CUresult driver_get_version(int* version) {
    *version = static_cast<int>(Script::get().number("driver", "version", 13000));
    return CUDA_SUCCESS;
}

const char* name_of(int code) {
    switch (code) {
        case 0:
            return "CUDA_SUCCESS";
        case 1:
            return "CUDA_ERROR_INVALID_VALUE";
        case 2:
            return "CUDA_ERROR_OUT_OF_MEMORY";
        case 3:
            return "CUDA_ERROR_NOT_INITIALIZED";
        case 34:
            return "CUDA_ERROR_STUB_LIBRARY";
        case 100:
            return "CUDA_ERROR_NO_DEVICE";
        case 101:
            return "CUDA_ERROR_INVALID_DEVICE";
        case 200:
            return "CUDA_ERROR_INVALID_IMAGE";
        case 201:
            return "CUDA_ERROR_INVALID_CONTEXT";
        case 209:
            return "CUDA_ERROR_NO_BINARY_FOR_GPU";
        case 218:
            return "CUDA_ERROR_INVALID_PTX";
        case 400:
            return "CUDA_ERROR_INVALID_HANDLE";
        case 500:
            return "CUDA_ERROR_NOT_FOUND";
        case 600:
            return "CUDA_ERROR_NOT_READY";
        case 700:
            return "CUDA_ERROR_ILLEGAL_ADDRESS";
        case 701:
            return "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
        case 702:
            return "CUDA_ERROR_LAUNCH_TIMEOUT";
        case 710:
            return "CUDA_ERROR_ASSERT";
        case 715:
            return "CUDA_ERROR_ILLEGAL_INSTRUCTION";
        case 716:
            return "CUDA_ERROR_MISALIGNED_ADDRESS";
        case 719:
            return "CUDA_ERROR_LAUNCH_FAILED";
        case 46:
            return "CUDA_ERROR_DEVICE_UNAVAILABLE";
        case 802:
            return "CUDA_ERROR_SYSTEM_NOT_READY";
        case 803:
            return "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
        case 804:
            return "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE";
        case 805:
            return "CUDA_ERROR_MPS_CONNECTION_FAILED";
        case 900:
            return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
        case 901:
            return "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED";
        case 999:
            return "CUDA_ERROR_UNKNOWN";
        default:
            return nullptr;
    }
}

CUresult get_error_name(CUresult code, const char** name) {
    *name = name_of(code);
    return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult device_get_count(int* count) {
    if (const CUresult result = enter("cuDeviceGetCount"); result != CUDA_SUCCESS) return result;
    *count = device_count();
    return CUDA_SUCCESS;
}

CUresult device_get(CUdevice* device, int ordinal) {
    if (const CUresult result = enter("cuDeviceGet", std::to_string(ordinal)); result != CUDA_SUCCESS) return result;
    if (!is_device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult device_get_name(char* name, int length, CUdevice device) {
    if (const CUresult result = enter("cuDeviceGetName"); result != CUDA_SUCCESS) return result;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, static_cast<std::size_t>(length), "%s", device_word(device, "name", "NVIDIA H200").c_str());
    return CUDA_SUCCESS;
}

CUresult device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    if (const CUresult result = enter("cuDeviceGetAttribute", std::to_string(attribute)); result != CUDA_SUCCESS) return result;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const auto of = [device](const char* name) { return static_cast<int>(device_number(device, name)); };
    const std::string cc = device_word(device, "cc", "9.0");
    switch (attribute) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
            *value = std::atoi(cc.c_str());
            break;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
            *value = std::atoi(cc.substr(cc.find('.') + 1).c_str());
            break;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
            *value = of("sms");
            break;
        case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
            *value = of("l2_mib") << 20;
            break;
        case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
            *value = of("bus");
            break;
        case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
            *value = of("clock_mhz") * 1000;
            break;
        case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
            *value = of("memory_clock_mhz") * 1000;
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
            *value = of("smem_block");
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            *value = of("smem_sm");
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
            *value = of("registers_sm");
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
            *value = of("registers_block");
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
            *value = of("threads_block");
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
            *value = of("threads_sm");
            break;
        case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
            *value = of("blocks_sm");
            break;
        case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
            *value = of("pci_bus");
            break;
        default:
            *value = 0;
            break;
    }
    return CUDA_SUCCESS;
}

CUresult device_total_mem(std::size_t* bytes, CUdevice device) {
    if (const CUresult result = enter("cuDeviceTotalMem"); result != CUDA_SUCCESS) return result;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = static_cast<std::size_t>(device_number(device, "memory_mib")) << 20;
    return CUDA_SUCCESS;
}

// The UUID is fa4e0000-0000-0000-0000-0000000000NN, which no real card has.
CUresult device_get_uuid(CUuuid* uuid, CUdevice device) {
    if (const CUresult result = enter("cuDeviceGetUuid"); result != CUDA_SUCCESS) return result;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    std::memset(uuid->bytes, 0, sizeof(uuid->bytes));
    uuid->bytes[0] = static_cast<char>(0xfa);
    uuid->bytes[1] = 0x4e;
    uuid->bytes[15] = static_cast<char>(device_number(device, "uuid_byte"));
    return CUDA_SUCCESS;
}

// REQUIRES: the machine's lock.
unsigned long long next_context_id() {
    static unsigned long long last = 0;
    return ++last;
}

CUresult primary_ctx_retain(CUcontext* context, CUdevice device) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = enter("cuDevicePrimaryCtxRetain", std::to_string(device)); result != CUDA_SUCCESS) return result;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    CUctx_st& primary = machine.contexts[static_cast<std::size_t>(device)];
    if (primary.retained++ == 0) primary.id = next_context_id();
    *context = &primary;
    return CUDA_SUCCESS;
}

// The context becomes current, as in the real driver. Its memory lives until the process ends.
CUresult ctx_create(CUcontext* context, unsigned, CUdevice device) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = enter("cuCtxCreate", std::to_string(device)); result != CUDA_SUCCESS) return result;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    machine.made_contexts.push_back(
        std::make_unique<CUctx_st>(CUctx_st{.ordinal = device, .id = next_context_id(), .retained = 1}));
    *context = t_current = machine.made_contexts.back().get();
    return CUDA_SUCCESS;
}

CUresult ctx_destroy(CUcontext context) {
    if (const CUresult result = enter("cuCtxDestroy"); result != CUDA_SUCCESS) return result;
    if (context == t_current) t_current = nullptr;
    return CUDA_SUCCESS;
}

CUresult primary_ctx_release(CUdevice device) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    log_call("cuDevicePrimaryCtxRelease " + std::to_string(device));
    if (!is_device(device) || machine.contexts[static_cast<std::size_t>(device)].retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    --machine.contexts[static_cast<std::size_t>(device)].retained;
    return CUDA_SUCCESS;
}

CUresult ctx_set_current(CUcontext context) {
    if (const CUresult result = enter("cuCtxSetCurrent"); result != CUDA_SUCCESS) return result;
    t_current = context;
    return CUDA_SUCCESS;
}

CUresult ctx_get_current(CUcontext* context) {
    if (const CUresult result = enter("cuCtxGetCurrent"); result != CUDA_SUCCESS) return result;
    *context = t_current;
    return CUDA_SUCCESS;
}

CUresult ctx_get_id(CUcontext context, unsigned long long* id) {
    if (const CUresult result = enter("cuCtxGetId"); result != CUDA_SUCCESS) return result;
    const CUctx_st* asked = context != nullptr ? context : t_current;
    if (asked == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *id = asked->id;
    return CUDA_SUCCESS;
}

CUresult ctx_get_device(CUdevice* device) {
    if (const CUresult result = enter("cuCtxGetDevice"); result != CUDA_SUCCESS) return result;
    if (t_current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *device = t_current->ordinal;
    return CUDA_SUCCESS;
}

CUresult ctx_synchronize() {
    Machine& machine = Machine::get();
    if (const CUresult result = enter("cuCtxSynchronize"); result != CUDA_SUCCESS) return result;
    if (t_current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult result = unsafe_call(); result != CUDA_SUCCESS) return result;
    machine.wait_idle();
    return machine.health;
}

template <typename F>
Entry entry(const char* name, int version, F* function) {
    return {name, version, reinterpret_cast<void*>(function)};
}

}  // namespace

CUctx_st* current_context() {
    return t_current;
}

bool is_of_another_context(CUstream stream) {
    return reinterpret_cast<std::uintptr_t>(stream) > 2 && stream->context != t_current;
}

std::vector<Entry> device_entries() {
    // The compiler compares each entry point with the driver's prototype, because the locals have the driver's types.
    const PFN_cuInit_v2000 f_init = Outside<init>::call;
    const PFN_cuDriverGetVersion_v2020 f_version = Outside<driver_get_version>::call;
    const PFN_cuGetErrorName_v6000 f_error_name = Outside<get_error_name>::call;
    const PFN_cuDeviceGetCount_v2000 f_count = Outside<device_get_count>::call;
    const PFN_cuDeviceGet_v2000 f_get = Outside<device_get>::call;
    const PFN_cuDeviceGetName_v2000 f_name = Outside<device_get_name>::call;
    const PFN_cuDeviceGetAttribute_v2000 f_attribute = Outside<device_get_attribute>::call;
    const PFN_cuDeviceTotalMem_v3020 f_memory = Outside<device_total_mem>::call;
    const PFN_cuDeviceGetUuid_v11040 f_uuid = Outside<device_get_uuid>::call;
    const PFN_cuDevicePrimaryCtxRetain_v7000 f_retain = Outside<primary_ctx_retain>::call;
    const PFN_cuDevicePrimaryCtxRelease_v11000 f_release = Outside<primary_ctx_release>::call;
    const PFN_cuCtxCreate_v3020 f_create = Outside<ctx_create>::call;
    const PFN_cuCtxDestroy_v4000 f_destroy = Outside<ctx_destroy>::call;
    const PFN_cuCtxSetCurrent_v4000 f_set = Outside<ctx_set_current>::call;
    const PFN_cuCtxGetCurrent_v4000 f_current = Outside<ctx_get_current>::call;
    const PFN_cuCtxGetId_v12000 f_id = Outside<ctx_get_id>::call;
    const PFN_cuCtxGetDevice_v2000 f_device = Outside<ctx_get_device>::call;
    const PFN_cuCtxSynchronize_v2000 f_synchronize = Outside<ctx_synchronize>::call;
    return {entry("cuInit", 2000, f_init),
            entry("cuDriverGetVersion", 2020, f_version),
            entry("cuGetErrorName", 6000, f_error_name),
            entry("cuGetErrorString", 6000, f_error_name),
            entry("cuDeviceGetCount", 2000, f_count),
            entry("cuDeviceGet", 2000, f_get),
            entry("cuDeviceGetName", 2000, f_name),
            entry("cuDeviceGetAttribute", 2000, f_attribute),
            entry("cuDeviceTotalMem", 3020, f_memory),
            entry("cuDeviceGetUuid", 11040, f_uuid),
            entry("cuDevicePrimaryCtxRetain", 7000, f_retain),
            entry("cuDevicePrimaryCtxRelease", 11000, f_release),
            entry("cuCtxCreate", 3020, f_create),
            entry("cuCtxDestroy", 4000, f_destroy),
            entry("cuCtxSetCurrent", 4000, f_set),
            entry("cuCtxGetCurrent", 4000, f_current),
            entry("cuCtxGetId", 12000, f_id),
            entry("cuCtxGetDevice", 2000, f_device),
            entry("cuCtxSynchronize", 2000, f_synchronize)};
}

}  // namespace autotune::fake
