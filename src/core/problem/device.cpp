#include "src/core/problem/device.h"

#include "src/core/error.h"
#include "src/core/problem/device_key.h"

namespace autotune {
namespace {

// Limits of a compute capability: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
struct CapabilityLimits {
    int smem_per_block_kib;
    int smem_per_sm_kib;
    int threads_per_sm;
    int blocks_per_sm;
};

// A card according to its data sheet. Sizes as the driver reports them; the memory is a little below the label.
struct ReferenceCard {
    std::string_view arch;
    DeviceIdentity identity;
    CapabilityLimits limits;
    double clock_mhz;
    double memory_gb_per_s;
};

const std::vector<ReferenceCard>& reference_cards() {
    static const auto& cards = *new std::vector<ReferenceCard>{
        // The object is never destroyed, because other threads still run while exit() destroys statics.
        {"sm_80", {8, 0, 108, 40, 79, 5120, "NVIDIA A100-SXM4-80GB"}, {163, 164, 2048, 32}, 1410, 2039},
        {"sm_86", {8, 6, 82, 6, 24, 384, "NVIDIA GeForce RTX 3090"}, {99, 100, 1536, 16}, 1695, 936},
        {"sm_89", {8, 9, 128, 72, 24, 384, "NVIDIA GeForce RTX 4090"}, {99, 100, 1536, 24}, 2520, 1008},
        {"sm_90a", {9, 0, 132, 60, 140, 6016, "NVIDIA H200"}, {227, 228, 2048, 32}, 1980, 4800},
        {"sm_100a", {10, 0, 148, 126, 179, 8192, "NVIDIA B200"}, {227, 228, 2048, 32}, 1965, 8000},
        {"sm_120", {12, 0, 170, 96, 32, 512, "NVIDIA GeForce RTX 5090"}, {99, 100, 1536, 24}, 2407, 1792},
    };
    return cards;
}

// "sm_90" and "sm_90a" name the same card.
std::string_view without_suffix(std::string_view arch) {
    return !arch.empty() && arch.back() == 'a' ? arch.substr(0, arch.size() - 1) : arch;
}

Device make_device(const ReferenceCard& card) {
    Device device;
    device.identity = card.identity;
    device.limits.smem_per_block_bytes = card.limits.smem_per_block_kib * 1024;
    device.limits.smem_per_sm_bytes = card.limits.smem_per_sm_kib * 1024;
    device.limits.threads_per_sm = card.limits.threads_per_sm;
    device.limits.blocks_per_sm = card.limits.blocks_per_sm;
    device.clock_mhz = card.clock_mhz;
    device.memory_gb_per_s = card.memory_gb_per_s;
    return device;
}

}  // namespace

std::string DeviceIdentity::key() const {
    return "cc" + std::to_string(cc_major) + "." + std::to_string(cc_minor) + "-sm" + std::to_string(sm_count) + "-l2_" +
           std::to_string(l2_mib) + "-mem" + std::to_string(labelled_memory_gib(memory_gib)) + "-bus" + std::to_string(bus_bits);
}

std::string Device::arch() const {
    return arch_of(identity.cc_major, identity.cc_minor);
}

double Device::tensor_flop_per_clock_sm() const {
    switch (identity.cc()) {
        case 80:
            return 2048;  // A100: 312 TFLOP/s = 108 SMs x 1.41 GHz x 2048
        case 87:
            return 2048;  // Orin has A100's tensor cores in SMs of half the size
        case 90:
            return 4096;
        case 100:
        case 103:
            return 8192;
        default:
            break;
    }
    // Consumer cards run f32 accumulation at half the rate of f16: 512 for RTX 3090, 4090 and 5090.
    return identity.cc_major >= 10 && identity.cc_major < 12 ? 8192 : 512;
}

std::string arch_of(int cc_major, int cc_minor) {
    const std::string number = std::to_string(cc_major * 10 + cc_minor);
    if (cc_major < 8) {
        throw Error(ErrorCode::no_gpu, "the GPU has compute capability " + std::to_string(cc_major) + "." +
                                           std::to_string(cc_minor) + ", but autotune needs 8.0 (Ampere) or newer");
    }
    // wgmma and tcgen05 exist only in the architecture-specific targets of Hopper and data-centre Blackwell.
    const bool is_specific = cc_major == 9 || cc_major == 10;
    return "sm_" + number + (is_specific ? "a" : "");
}

std::optional<Device> reference_device(std::string_view arch) {
    for (const ReferenceCard& card : reference_cards()) {
        if (card.arch == arch || without_suffix(card.arch) == arch) return make_device(card);
    }
    return std::nullopt;
}

std::vector<std::string> known_archs() {
    std::vector<std::string> archs;
    for (const ReferenceCard& card : reference_cards()) archs.emplace_back(card.arch);
    return archs;
}

}  // namespace autotune
