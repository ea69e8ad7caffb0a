#include "src/gpu/driver/driver.h"

#include "src/gpu/driver/driver_api.h"
#include "src/gpu/shared_library.h"

namespace autotune::gpu {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
// This is the oldest tested version. cuLibraryLoadData and cuTensorMapEncodeTiled came with 12.0.
constexpr int kOldestVersion = 12040;

// Finds entry points through cuGetProcAddress and remembers the first that is missing.
class Resolver {
  public:
    explicit Resolver(PFN_cuGetProcAddress_v12000 get) : get_(get) {}

    template <typename F>
    void optional(const char* name, int version, F& entry) {
        void* address = nullptr;
        CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
        const CUresult result = get_(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &found);
        entry = result == CUDA_SUCCESS ? reinterpret_cast<F>(address) : nullptr;
    }
    template <typename F>
    void required(const char* name, int version, F& entry) {
        optional(name, version, entry);
        if (entry == nullptr && missing_.empty()) missing_ = name;
    }
    const std::string& missing() const { return missing_; }

  private:
    PFN_cuGetProcAddress_v12000 get_;
    std::string missing_;
};

void resolve_basics(Resolver& r, Driver::Api& api) {
    r.required("cuInit", 2000, api.init);
    r.required("cuDriverGetVersion", 2020, api.driver_get_version);
    r.required("cuGetErrorName", 6000, api.get_error_name);
    r.required("cuGetErrorString", 6000, api.get_error_string);
    r.required("cuDeviceGetCount", 2000, api.device_get_count);
    r.required("cuDeviceGet", 2000, api.device_get);
    r.required("cuDeviceGetName", 2000, api.device_get_name);
    r.required("cuDeviceGetAttribute", 2000, api.device_get_attribute);
    r.required("cuDeviceTotalMem", 3020, api.device_total_mem);
    r.required("cuDeviceGetUuid", 11040, api.device_get_uuid);
}

void resolve_contexts_and_memory(Resolver& r, Driver::Api& api) {
    r.required("cuDevicePrimaryCtxRetain", 7000, api.primary_ctx_retain);
    r.required("cuDevicePrimaryCtxRelease", 11000, api.primary_ctx_release);
    r.required("cuCtxSetCurrent", 4000, api.ctx_set_current);
    r.required("cuCtxGetCurrent", 4000, api.ctx_get_current);
    r.required("cuCtxGetId", 12000, api.ctx_get_id);
    r.required("cuCtxGetDevice", 2000, api.ctx_get_device);
    r.required("cuCtxSynchronize", 2000, api.ctx_synchronize);
    r.required("cuMemGetInfo", 3020, api.mem_get_info);
    r.required("cuMemAlloc", 3020, api.mem_alloc);
    r.required("cuMemFree", 3020, api.mem_free);
    r.required("cuMemcpyHtoD", 3020, api.memcpy_htod);
    r.required("cuMemcpyDtoH", 3020, api.memcpy_dtoh);
    r.required("cuMemcpyDtoDAsync", 3020, api.memcpy_dtod_async);
    r.required("cuMemsetD8Async", 3020, api.memset_d8_async);
    r.optional("cuPointerGetAttribute", 4000, api.pointer_get_attribute);
}

void resolve_streams(Resolver& r, Driver::Api& api) {
    r.required("cuStreamCreate", 2000, api.stream_create);
    r.required("cuStreamDestroy", 4000, api.stream_destroy);
    r.required("cuStreamSynchronize", 2000, api.stream_synchronize);
    r.required("cuStreamQuery", 2000, api.stream_query);
    r.required("cuStreamIsCapturing", 10000, api.stream_is_capturing);
    r.required("cuThreadExchangeStreamCaptureMode", 10010, api.exchange_capture_mode);
    r.required("cuStreamBeginCapture", 10010, api.stream_begin_capture);
    r.required("cuStreamEndCapture", 10000, api.stream_end_capture);
    r.required("cuStreamGetCaptureInfo", 11030, api.stream_get_capture_info);
    r.optional("cuStreamGetCtx", 9020, api.stream_get_ctx);
    r.required("cuEventCreate", 2000, api.event_create);
    r.required("cuEventDestroy", 4000, api.event_destroy);
    r.required("cuEventRecord", 2000, api.event_record);
    r.required("cuEventSynchronize", 2000, api.event_synchronize);
    r.required("cuEventQuery", 2000, api.event_query);
    r.required("cuEventElapsedTime", 2000, api.event_elapsed_time);
    r.required("cuGraphInstantiateWithFlags", 11040, api.graph_instantiate);
    r.required("cuGraphLaunch", 10000, api.graph_launch);
    r.required("cuGraphDestroy", 10000, api.graph_destroy);
    r.required("cuGraphExecDestroy", 10000, api.graph_exec_destroy);
    r.required("cuUserObjectCreate", 11030, api.user_object_create);
    r.required("cuUserObjectRelease", 11030, api.user_object_release);
    r.required("cuGraphRetainUserObject", 11030, api.graph_retain_user_object);
}

void resolve_kernels(Resolver& r, Driver::Api& api) {
    r.required("cuLibraryLoadData", 12000, api.library_load_data);
    r.required("cuLibraryUnload", 12000, api.library_unload);
    r.required("cuLibraryGetKernel", 12000, api.library_get_kernel);
    r.required("cuLibraryGetGlobal", 12000, api.library_get_global);
    r.required("cuKernelGetFunction", 12000, api.kernel_get_function);
    r.required("cuFuncGetAttribute", 2020, api.func_get_attribute);
    r.required("cuFuncSetAttribute", 9000, api.func_set_attribute);
    r.optional("cuFuncLoad", 12040, api.func_load);
    r.required("cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050, api.occupancy_max_blocks);
    r.required("cuLaunchKernelEx", 11060, api.launch_kernel_ex);
    r.required("cuTensorMapEncodeTiled", 12000, api.tensor_map_encode_tiled);
}

std::string dotted(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

[[noreturn]] void fail(const std::string& message, ErrorCode code = ErrorCode::no_gpu) {
    throw Error(code, message);
}

constexpr const char* kNewerDriver = "install a driver of release 550 or newer (CUDA 12.4)";

// Advice for the user if cuInit fails, as text.
std::string init_advice(int code) {
    switch (code) {
        case CUDA_ERROR_STUB_LIBRARY:
            return "the libcuda.so.1 that was found is the toolkit's link-time stub: remove its folder from LD_LIBRARY_PATH";
        case CUDA_ERROR_OUT_OF_MEMORY:
            return "the driver finds no host memory: check `ulimit -v` and the memory limit of the container";
        case CUDA_ERROR_SYSTEM_NOT_READY:
            return "the fabric manager of this NVSwitch machine is not ready: start the service nvidia-fabricmanager, of the "
                   "same "
                   "release as the driver, and wait until `nvidia-smi -q` shows the fabric state Completed";
        case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
            return "the kernel module and libcuda.so.1 are of different driver releases: reboot, or reinstall the driver; in a "
                   "container, restart it";
        case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
            return "a libcuda.so.1 of the package cuda-compat was found, which works with data centre GPUs alone and not with "
                   "this "
                   "kernel module: remove its folder (often /usr/local/cuda/compat) from LD_LIBRARY_PATH, or install a newer "
                   "driver";
        case CUDA_ERROR_NO_DEVICE:
            return "no CUDA device is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES";
        case CUDA_ERROR_INVALID_DEVICE:
            return "CUDA_VISIBLE_DEVICES names a device that is not there, or a MIG device that was removed: check `nvidia-smi "
                   "-L`";
        case 35:  // 35 is cudaErrorInsufficientDriver: the driver is too old
            return std::string("the driver is too old: ") + kNewerDriver;
        case CUDA_ERROR_OPERATING_SYSTEM:
        case CUDA_ERROR_UNKNOWN:
            return "the driver does not answer: check dmesg for Xid errors, the nvidia-uvm module and device permissions";
        default:
            return is_in_use(code) ? in_use_advice(code) : "check nvidia-smi";
    }
}

}  // namespace

Driver::Driver() : api_(std::make_unique<Api>()) {}
Driver::~Driver() = default;

// If a library exists but cannot be opened, the driver must be repaired, and the machine does not count as one without a driver.
// An empty file counts as absent, because images that were built next to a driver contain such files.
bool Driver::installed() {
    std::string why;
    if (SharedLibrary::open(kLibrary, &why)) return true;
    return why.find("No such file") == std::string::npos && why.find("file too short") == std::string::npos;
}

std::shared_ptr<const Driver> Driver::load() {
    std::string why;
    const auto library = SharedLibrary::open(kLibrary, &why);
    if (!library)
        fail(installed() ? "the NVIDIA driver cannot be opened: " + why + "; reinstall it, or repair what the loader names"
                         : "no NVIDIA driver: " + why);
    PFN_cuGetProcAddress_v12000 get = nullptr;
    if (!library->find("cuGetProcAddress_v2", get)) {
        fail("the NVIDIA driver (" + library->path() +
             ") is older than CUDA 12.0, and at least CUDA 12.4 is needed: " + kNewerDriver);
    }

    std::shared_ptr<Driver> driver(new Driver);
    Api& api = *driver->api_;
    Resolver resolver(get);
    resolve_basics(resolver, api);
    // cuInit comes before every other call, so that a driver that cannot start reports that itself.
    if (api.init == nullptr) fail("the NVIDIA driver (" + library->path() + ") has no cuInit");
    if (const CUresult result = api.init(0); result != CUDA_SUCCESS) {
        fail("the NVIDIA driver does not start: cuInit returned " + error_name(api, result) + " (" + std::to_string(result) +
                 "); " + init_advice(result),
             is_in_use(result) ? ErrorCode::gpu_in_use : ErrorCode::no_gpu);
    }
    resolve_contexts_and_memory(resolver, api);
    resolve_streams(resolver, api);
    resolve_kernels(resolver, api);
    if (api.driver_get_version != nullptr && driver->version() < kOldestVersion) {
        fail("the NVIDIA driver supports CUDA " + dotted(driver->version()) +
             ", and at least CUDA 12.4 is needed: " + kNewerDriver);
    }
    if (!resolver.missing().empty()) fail("the NVIDIA driver has no " + resolver.missing() + ": install a newer one");
    if (driver->device_count() == 0) fail("the NVIDIA driver sees no device: check nvidia-smi and CUDA_VISIBLE_DEVICES");
    return driver;
}

int Driver::version() const {
    int version = 0;
    throw_if_failed(*this, api_->driver_get_version(&version), "cuDriverGetVersion");
    return version;
}

int Driver::device_count() const {
    int count = 0;
    throw_if_failed(*this, api_->device_get_count(&count), "cuDeviceGetCount");
    return count;
}

}  // namespace autotune::gpu
