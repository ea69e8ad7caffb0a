// Device memory and copies.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <cstring>

#include "tests/support/fake/call_log.h"
#include "tests/support/fake/driver/machine.h"
#include "tests/support/fake/driver/pending.h"

namespace autotune::fake {
namespace {

constexpr double kCopyBytesPerUs = 50e3;  // PCIe 5 x16

// The common checks of every call on memory.
CUresult begin(const char* name, const std::string& details) {
    if (const CUresult result = enter(name, details); result != CUDA_SUCCESS) return result;
    return current_context() == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult mem_get_info(std::size_t* free_bytes, std::size_t* total_bytes) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = begin("cuMemGetInfo", ""); result != CUDA_SUCCESS) return result;
    *total_bytes = machine.capacity_bytes();
    *free_bytes = machine.free_bytes();
    return CUDA_SUCCESS;
}

CUresult mem_alloc(CUdeviceptr* address, std::size_t bytes) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = begin("cuMemAlloc", std::to_string(bytes)); result != CUDA_SUCCESS) return result;
    if (const CUresult result = unsafe_call(); result != CUDA_SUCCESS) return result;
    Address made = 0;
    const CUresult result = machine.allocate(bytes, made);
    *address = made;
    return result;
}

CUresult mem_free(CUdeviceptr address) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = begin("cuMemFree", ""); result != CUDA_SUCCESS) return result;
    if (const CUresult result = unsafe_call(); result != CUDA_SUCCESS) return result;
    return machine.release(address);
}

// Waits for a kernel that hangs, then checks the range.
CUresult settle(CUdeviceptr address, std::size_t bytes, bool overwrites) {
    Machine& machine = Machine::get();
    if (const CUresult result = unsafe_call(); result != CUDA_SUCCESS) return result;
    machine.wait_idle();
    if (machine.health != CUDA_SUCCESS) return machine.health;
    if (machine.find(address, bytes) == nullptr) {
        log_call("BUG access outside device memory");
        return CUDA_ERROR_INVALID_VALUE;
    }
    Pending::get().touch(address, bytes, overwrites);
    machine.now_us += static_cast<double>(bytes) / kCopyBytesPerUs;
    return CUDA_SUCCESS;
}

CUresult memcpy_htod(CUdeviceptr to, const void* from, std::size_t bytes) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = begin("cuMemcpyHtoD", std::to_string(bytes)); result != CUDA_SUCCESS) return result;
    if (const CUresult result = settle(to, bytes, true); result != CUDA_SUCCESS) return result;
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return CUDA_SUCCESS;
}

CUresult memcpy_dtoh(void* to, CUdeviceptr from, std::size_t bytes) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = begin("cuMemcpyDtoH", std::to_string(bytes)); result != CUDA_SUCCESS) return result;
    if (const CUresult result = settle(from, bytes, false); result != CUDA_SUCCESS) return result;
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return CUDA_SUCCESS;
}

// Refuses a capture, because this driver's graphs have only kernels as nodes.
CUresult memcpy_dtod_async(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = begin("cuMemcpyDtoDAsync", std::to_string(bytes)); result != CUDA_SUCCESS) return result;
    if (is_of_another_context(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (is_capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (const CUresult result = settle(from, bytes, false); result != CUDA_SUCCESS) return result;
    if (const CUresult result = settle(to, bytes, true); result != CUDA_SUCCESS) return result;
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    return CUDA_SUCCESS;
}

// A stream that is being captured would record a node of the graph. No test needs that, so this driver refuses it.
CUresult memset_d8_async(CUdeviceptr to, unsigned char value, std::size_t bytes, CUstream stream) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = begin("cuMemsetD8Async", std::to_string(bytes)); result != CUDA_SUCCESS) return result;
    if (is_of_another_context(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (is_capturing(stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    constexpr std::size_t kNoKernel = 4096;
    if (bytes > kNoKernel) machine.note_stream(stream);
    if (const CUresult result = settle(to, bytes, true); result != CUDA_SUCCESS) return result;
    set_bytes(to, value, bytes);
    return CUDA_SUCCESS;
}

// Returns memory type, "is managed" and device. All are 0 for other attributes, and for addresses that were not allocated here.
CUresult pointer_get_attributes(unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr address) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = begin("cuPointerGetAttributes", ""); result != CUDA_SUCCESS) return result;
    const Allocation* const found = machine.find(address, 1);
    for (unsigned i = 0; i < count; ++i) {
        int value = 0;
        if (found != nullptr && attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) value = CU_MEMORYTYPE_DEVICE;
        if (found != nullptr && attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) value = found->device;
        std::memcpy(values[i], &value, sizeof(value));
    }
    return CUDA_SUCCESS;
}

// Access between devices is never enabled here.
CUresult pointer_get_attribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
    Machine& machine = Machine::get();
    const std::lock_guard lock(machine.mutex);
    if (const CUresult result = begin("cuPointerGetAttribute", std::to_string(attribute)); result != CUDA_SUCCESS) return result;
    const Allocation* const found = machine.find(address, 1);
    if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *static_cast<unsigned*>(value) = CU_MEMORYTYPE_DEVICE;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *static_cast<int*>(value) = found->device;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            *static_cast<int*>(value) = 1;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            *static_cast<unsigned long long*>(value) = found->id;
            return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
            if (found->device != current_context()->ordinal) return CUDA_ERROR_INVALID_VALUE;
            *static_cast<CUdeviceptr*>(value) = address;
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

}  // namespace

std::vector<Entry> memory_entries() {
    const PFN_cuPointerGetAttributes_v7000 f_attributes = Outside<pointer_get_attributes>::call;
    const PFN_cuMemGetInfo_v3020 f_info = Outside<mem_get_info>::call;
    const PFN_cuMemAlloc_v3020 f_alloc = Outside<mem_alloc>::call;
    const PFN_cuMemFree_v3020 f_free = Outside<mem_free>::call;
    const PFN_cuMemcpyHtoD_v3020 f_htod = Outside<memcpy_htod>::call;
    const PFN_cuMemcpyDtoH_v3020 f_dtoh = Outside<memcpy_dtoh>::call;
    const PFN_cuMemcpyDtoDAsync_v3020 f_dtod_async = Outside<memcpy_dtod_async>::call;
    const PFN_cuMemsetD8Async_v3020 f_memset_async = Outside<memset_d8_async>::call;
    const PFN_cuPointerGetAttribute_v4000 f_attribute = Outside<pointer_get_attribute>::call;
    return {{"cuPointerGetAttribute", 4000, reinterpret_cast<void*>(f_attribute)},
            {"cuMemGetInfo", 3020, reinterpret_cast<void*>(f_info)},
            {"cuMemAlloc", 3020, reinterpret_cast<void*>(f_alloc)},
            {"cuMemFree", 3020, reinterpret_cast<void*>(f_free)},
            {"cuMemcpyHtoD", 3020, reinterpret_cast<void*>(f_htod)},
            {"cuMemcpyDtoH", 3020, reinterpret_cast<void*>(f_dtoh)},
            {"cuMemcpyDtoDAsync", 3020, reinterpret_cast<void*>(f_dtod_async)},
            {"cuMemsetD8Async", 3020, reinterpret_cast<void*>(f_memset_async)},
            {"cuPointerGetAttributes", 7000, reinterpret_cast<void*>(f_attributes)}};
}

}  // namespace autotune::fake
