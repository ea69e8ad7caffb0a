#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "src/gpu/driver/driver_api.h"

namespace autotune::gpu {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
constexpr double kGib = 1024.0 * kMib;

// Reads attributes of one device; none of these calls needs a context.
class Attributes {
  public:
    Attributes(const Driver& driver, CUdevice device) : driver_(driver), device_(device) {}
    int operator[](CUdevice_attribute attribute) const {
        int value = 0;
        throw_if_failed(driver_, driver_.api().device_get_attribute(&value, attribute, device_), "cuDeviceGetAttribute");
        return value;
    }

  private:
    const Driver& driver_;
    CUdevice device_;
};

CUdevice device_at(const Driver& driver, int ordinal) {
    const int count = driver.device_count();
    if (ordinal < 0 || ordinal >= count) {
        throw Error(ErrorCode::no_gpu, "no device " + std::to_string(ordinal) + ": this machine has " + std::to_string(count) +
                                           (count == 1 ? " (device 0)" : " (0 to " + std::to_string(count - 1) + ")"));
    }
    CUdevice device = 0;
    throw_if_failed(driver, driver.api().device_get(&device, ordinal), "cuDeviceGet");
    return device;
}

std::string name_of(const Driver& driver, CUdevice device) {
    std::array<char, 256> name{};
    throw_if_failed(driver, driver.api().device_get_name(name.data(), static_cast<int>(name.size()) - 1, device),
                    "cuDeviceGetName");
    return name.data();
}

DeviceLimits limits_of(const Attributes& of) {
    DeviceLimits limits;
    limits.smem_per_block_bytes = of[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN];
    limits.smem_per_sm_bytes = of[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR];
    limits.registers_per_sm = of[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR];
    limits.registers_per_block = of[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK];
    limits.threads_per_block = of[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    limits.threads_per_sm = of[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR];
    limits.blocks_per_sm = of[CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR];
    return limits;
}

}  // namespace

Device Driver::device(int ordinal) const {
    const CUdevice raw = device_at(*this, ordinal);
    const Attributes of(*this, raw);
    std::size_t memory_bytes = 0;
    throw_if_failed(*this, api_->device_total_mem(&memory_bytes, raw), "cuDeviceTotalMem");

    Device device;
    device.identity.name = name_of(*this, raw);
    device.identity.cc_major = of[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
    device.identity.cc_minor = of[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
    device.identity.sm_count = of[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
    device.identity.l2_mib = static_cast<int>(std::lround(of[CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE] / kMib));
    device.identity.memory_gib = static_cast<int>(std::lround(static_cast<double>(memory_bytes) / kGib));
    device.identity.bus_bits = of[CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH];
    device.limits = limits_of(of);
    device.clock_mhz = of[CU_DEVICE_ATTRIBUTE_CLOCK_RATE] / 1e3;
    // Two transfers per clock: 3201 MHz and 6144 bits give an H200's 4917 GB/s.
    device.memory_gb_per_s = 2.0 * of[CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE] * 1e3 * (device.identity.bus_bits / 8) / 1e9;
    return device;
}

std::string Driver::uuid(int ordinal) const {
    const CUdevice raw = device_at(*this, ordinal);
    CUuuid id{};
    throw_if_failed(*this, api_->device_get_uuid(&id, raw), "cuDeviceGetUuid");
    // A MIG slice is a device of its own; NVML and nvidia-smi prefix its id with MIG.
    const bool is_slice = name_of(*this, raw).find(" MIG ") != std::string::npos;
    std::string text = is_slice ? "MIG-" : "GPU-";
    constexpr std::string_view digits = "0123456789abcdef";
    for (std::size_t i = 0; i < sizeof(id.bytes); ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
        const auto byte = static_cast<unsigned char>(id.bytes[i]);
        text += digits[byte >> 4];
        text += digits[byte & 15];
    }
    return text;
}

std::string Driver::pci_address(int ordinal) const {
    const Attributes of(*this, device_at(*this, ordinal));
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.0", static_cast<unsigned>(of[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID]),
                  static_cast<unsigned>(of[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID]),
                  static_cast<unsigned>(of[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID]));
    return text.data();
}

}  // namespace autotune::gpu
