#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include "src/gpu/driver/driver.h"

namespace autotune::gpu {

// Entry points of the driver, each with its version. cuda.h's own names are macros that change with the toolkit (cuCtxGetDevice
// takes one argument in 12 and two in 13), so none of them is used.
struct Driver::Api {
    PFN_cuInit_v2000 init = nullptr;
    PFN_cuDriverGetVersion_v2020 driver_get_version = nullptr;
    PFN_cuGetErrorName_v6000 get_error_name = nullptr;
    PFN_cuGetErrorString_v6000 get_error_string = nullptr;

    PFN_cuDeviceGetCount_v2000 device_get_count = nullptr;
    PFN_cuDeviceGet_v2000 device_get = nullptr;
    PFN_cuDeviceGetName_v2000 device_get_name = nullptr;
    PFN_cuDeviceGetAttribute_v2000 device_get_attribute = nullptr;
    PFN_cuDeviceTotalMem_v3020 device_total_mem = nullptr;
    PFN_cuDeviceGetUuid_v11040 device_get_uuid = nullptr;

    PFN_cuDevicePrimaryCtxRetain_v7000 primary_ctx_retain = nullptr;
    PFN_cuDevicePrimaryCtxRelease_v11000 primary_ctx_release = nullptr;
    PFN_cuCtxSetCurrent_v4000 ctx_set_current = nullptr;
    PFN_cuCtxGetCurrent_v4000 ctx_get_current = nullptr;
    PFN_cuCtxGetId_v12000 ctx_get_id = nullptr;
    PFN_cuCtxGetDevice_v2000 ctx_get_device = nullptr;
    PFN_cuCtxSynchronize_v2000 ctx_synchronize = nullptr;

    PFN_cuMemGetInfo_v3020 mem_get_info = nullptr;
    PFN_cuMemAlloc_v3020 mem_alloc = nullptr;
    PFN_cuMemFree_v3020 mem_free = nullptr;
    PFN_cuMemcpyHtoD_v3020 memcpy_htod = nullptr;
    PFN_cuMemcpyDtoH_v3020 memcpy_dtoh = nullptr;
    PFN_cuMemcpyDtoDAsync_v3020 memcpy_dtod_async = nullptr;
    PFN_cuMemsetD8Async_v3020 memset_d8_async = nullptr;
    PFN_cuPointerGetAttribute_v4000 pointer_get_attribute = nullptr;

    PFN_cuStreamCreate_v2000 stream_create = nullptr;
    PFN_cuStreamDestroy_v4000 stream_destroy = nullptr;
    PFN_cuStreamSynchronize_v2000 stream_synchronize = nullptr;
    PFN_cuStreamQuery_v2000 stream_query = nullptr;
    PFN_cuStreamIsCapturing_v10000 stream_is_capturing = nullptr;
    PFN_cuThreadExchangeStreamCaptureMode_v10010 exchange_capture_mode = nullptr;
    PFN_cuStreamBeginCapture_v10010 stream_begin_capture = nullptr;
    PFN_cuStreamEndCapture_v10000 stream_end_capture = nullptr;
    PFN_cuStreamGetCaptureInfo_v11030 stream_get_capture_info = nullptr;
    PFN_cuStreamGetCtx_v9020 stream_get_ctx = nullptr;

    PFN_cuEventCreate_v2000 event_create = nullptr;
    PFN_cuEventDestroy_v4000 event_destroy = nullptr;
    PFN_cuEventRecord_v2000 event_record = nullptr;
    PFN_cuEventSynchronize_v2000 event_synchronize = nullptr;
    PFN_cuEventQuery_v2000 event_query = nullptr;
    PFN_cuEventElapsedTime_v2000 event_elapsed_time = nullptr;

    PFN_cuGraphInstantiateWithFlags_v11040 graph_instantiate = nullptr;
    PFN_cuGraphLaunch_v10000 graph_launch = nullptr;
    PFN_cuGraphDestroy_v10000 graph_destroy = nullptr;
    PFN_cuGraphExecDestroy_v10000 graph_exec_destroy = nullptr;
    PFN_cuUserObjectCreate_v11030 user_object_create = nullptr;
    PFN_cuUserObjectRelease_v11030 user_object_release = nullptr;
    PFN_cuGraphRetainUserObject_v11030 graph_retain_user_object = nullptr;

    PFN_cuLibraryLoadData_v12000 library_load_data = nullptr;
    PFN_cuLibraryUnload_v12000 library_unload = nullptr;
    PFN_cuLibraryGetKernel_v12000 library_get_kernel = nullptr;
    PFN_cuLibraryGetGlobal_v12000 library_get_global = nullptr;
    PFN_cuKernelGetFunction_v12000 kernel_get_function = nullptr;
    PFN_cuFuncGetAttribute_v2020 func_get_attribute = nullptr;
    PFN_cuFuncSetAttribute_v9000 func_set_attribute = nullptr;
    PFN_cuFuncLoad_v12040 func_load = nullptr;  // absent before 12.4
    PFN_cuOccupancyMaxActiveBlocksPerMultiprocessor_v6050 occupancy_max_blocks = nullptr;
    PFN_cuLaunchKernelEx_v11060 launch_kernel_ex = nullptr;
    PFN_cuTensorMapEncodeTiled_v12000 tensor_map_encode_tiled = nullptr;
};

// "CUDA_ERROR_ILLEGAL_ADDRESS"; "error 12345" for a code that the driver does not know.
std::string error_name(const Driver::Api& api, int code);

inline void throw_if_failed(const Driver& driver, CUresult code, const char* call) {
    if (code != CUDA_SUCCESS) throw_if_failed(driver, static_cast<int>(code), call);
}

}  // namespace autotune::gpu
