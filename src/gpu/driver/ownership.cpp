#include "src/gpu/driver/ownership.h"

#include <utility>

#include "src/gpu/driver/driver_api.h"

namespace autotune::gpu {

std::optional<std::uint64_t> current_context_id(const Driver& driver) {
    const Driver::Api& api = driver.api();
    CUcontext raw = nullptr;
    throw_if_failed(driver, api.ctx_get_current(&raw), "cuCtxGetCurrent");
    if (raw == nullptr) return std::nullopt;
    unsigned long long id = 0;
    throw_if_failed(driver, api.ctx_get_id(raw, &id), "cuCtxGetId");
    return id;
}

int current_ordinal(const Driver& driver) {
    CUdevice device = 0;
    throw_if_failed(driver, driver.api().ctx_get_device(&device), "cuCtxGetDevice");
    return device;
}

bool is_stream_of_another_context(const Driver& driver, StreamHandle stream) noexcept {
    const Driver::Api& api = driver.api();
    CUcontext current = nullptr, of_stream = nullptr;
    if (api.stream_get_ctx == nullptr || api.ctx_get_current(&current) != CUDA_SUCCESS) return false;
    return api.stream_get_ctx(stream, &of_stream) == CUDA_SUCCESS && of_stream != current;
}

std::unique_ptr<Reach> Reach::of(std::shared_ptr<const Driver> driver) {
    if (driver->api().pointer_get_attribute == nullptr || driver->device_count() < 2) return nullptr;
    return std::make_unique<Reach>(std::move(driver));
}

std::optional<int> Reach::beyond(std::uint64_t context_id, DeviceAddress address) noexcept {
    const auto read = [&](auto& value, CUpointer_attribute attribute) {
        return driver_->api().pointer_get_attribute(&value, attribute, address) == CUDA_SUCCESS;
    };
    unsigned type = 0;
    int ordinal = 0, is_plain = 0;
    CUdevice current = 0;
    CUdeviceptr here = 0;
    const bool is_elsewhere = read(type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE) && type == CU_MEMORYTYPE_DEVICE &&
                              read(ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) &&
                              driver_->api().ctx_get_device(&current) == CUDA_SUCCESS && ordinal != current;
    // Another device can access memory of cuMemAlloc only after cuCtxEnablePeerAccess, which gives the memory an address there.
    const bool is_out_of_reach = is_elsewhere && read(is_plain, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) &&
                                 is_plain != 0 && !read(here, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
    if (is_out_of_reach) return ordinal;
    const std::uint64_t tag = tag_of(context_id, address);
    known_[slot_of(tag)].store(tag, std::memory_order_relaxed);
    return std::nullopt;
}

}  // namespace autotune::gpu
