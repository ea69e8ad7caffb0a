#include "src/gpu/driver.h"

#include "src/gpu/driver_api.h"
#include "src/gpu/shared_library.h"

namespace autotune::gpu {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr int kOldestVersion = 12000;  // cuLibraryLoadData and cuTensorMapEncodeTiled

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

[[noreturn]] void fail(const std::string& message) {
    throw Error(ErrorCode::no_gpu, message);
}

// What to do about a cuInit that fails, in words.
std::string init_advice(int code) {
    switch (code) {
        case CUDA_ERROR_STUB_LIBRARY:
            return "the libcuda.so.1 that was found is the toolkit's link-time stub: remove its folder from LD_LIBRARY_PATH";
        case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
            return "the kernel module and libcuda.so.1 are of different driver releases: reboot, or reinstall the driver";
        case CUDA_ERROR_NO_DEVICE:
            return "no CUDA device is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES";
        case 35:  // the runtime's name for a driver that is too old for what is asked of it
        case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
            return "the driver is too old: install one for CUDA 12.0 or newer";
        case CUDA_ERROR_OPERATING_SYSTEM:
        case CUDA_ERROR_UNKNOWN:
            return "the driver does not answer: check dmesg for Xid errors, the nvidia-uvm module and device permissions";
        default:
            return "check nvidia-smi";
    }
}

}  // namespace

Driver::Driver() : api_(std::make_unique<Api>()) {}
Driver::~Driver() = default;

bool Driver::installed() {
    return SharedLibrary::open(kLibrary).has_value();
}

std::shared_ptr<const Driver> Driver::load() {
    std::string why;
    const auto library = SharedLibrary::open(kLibrary, &why);
    if (!library) fail("no NVIDIA driver: " + why);
    PFN_cuGetProcAddress_v12000 get = nullptr;
    if (!library->find("cuGetProcAddress_v2", get)) {
        fail("the NVIDIA driver (" + library->path() + ") is older than CUDA 12.0: install a newer one");
    }

    std::shared_ptr<Driver> driver(new Driver);
    Api& api = *driver->api_;
    Resolver resolver(get);
    resolve_basics(resolver, api);
    // cuInit before anything else is asked: a driver that cannot start must say so itself.
    if (api.init == nullptr) fail("the NVIDIA driver (" + library->path() + ") has no cuInit");
    if (const CUresult result = api.init(0); result != CUDA_SUCCESS) {
        fail("the NVIDIA driver does not start: cuInit returned " + error_name(api, result) + " (" + std::to_string(result) +
             "); " + init_advice(result));
    }
    resolve_contexts_and_memory(resolver, api);
    resolve_streams(resolver, api);
    resolve_kernels(resolver, api);
    if (api.driver_get_version != nullptr && driver->version() < kOldestVersion) {
        fail("the NVIDIA driver supports CUDA " + dotted(driver->version()) + ", at least 12.0 is needed: install a newer one");
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
