#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotune {

// The facts of a GPU that decide whether a winner can be reused on it. `name` is only a label: two products with the same silicon
// are one device.
struct DeviceIdentity {
    int cc_major = 0;
    int cc_minor = 0;
    int sm_count = 0;
    int l2_mib = 0;
    int memory_gib = 0;
    int bus_bits = 0;
    std::string name;

    // The device's part of a database key, without the name, such as "cc9.0-sm132-l2_60-mem144-bus6016". Memory is rounded up
    // (src/core/problem/device_key.h).
    std::string key() const;
    int cc() const { return cc_major * 10 + cc_minor; }
};

// Limits that constraints and launch geometry depend on. Filled from device attributes, or from a table for an absent GPU.
struct DeviceLimits {
    int smem_per_block_bytes = 0;  // the most that one block may opt in to (232,448 on sm_90)
    int smem_per_sm_bytes = 0;     // the shared memory of one SM, for all its blocks together
    int registers_per_sm = 65536;  // 32-bit registers
    int registers_per_block = 65536;
    int threads_per_block = 1024;
    int threads_per_sm = 2048;
    int blocks_per_sm = 32;
};

// A device as the pure layers see it: everything that constraints, cost models and launch plans may depend on.
struct Device {
    DeviceIdentity identity;
    DeviceLimits limits;
    double clock_mhz = 0;        // maximum SM clock
    double memory_gb_per_s = 0;  // the peak DRAM bandwidth, in 10^9 bytes per second

    // The compile target for this device: "sm_80", "sm_90a", "sm_120", ...
    std::string arch() const;
    // Dense f16/bf16 tensor-core FLOP per clock and SM with f32 accumulate (4096 on sm_90): the basis of cost models.
    double tensor_flop_per_clock_sm() const;
};

// Compile target of a compute capability, "sm_90a" for (9, 0). Throws Error{no_gpu} below sm_80, the oldest supported.
std::string arch_of(int cc_major, int cc_minor);

// A stand-in device for compiling and ranking without a GPU: data-sheet values of a well-known card of that architecture (A100,
// RTX 3090, RTX 4090, H200, B200, RTX 5090). Accepts "sm_90" for "sm_90a". nullopt for an unknown architecture.
std::optional<Device> reference_device(std::string_view arch);

// Architectures that reference_device knows, ascending.
std::vector<std::string> known_archs();

}  // namespace autotune
