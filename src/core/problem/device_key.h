#pragma once

#include <string>
#include <string_view>

#include "src/core/problem/device.h"

namespace autotune {

// Drivers keep some memory for themselves, and the amount changes with their version: an H100 has 81,559 MiB with one driver and
// 81,090 MiB with another, which is 80 or 79 GiB. In a device's key, memory is therefore rounded up to a multiple of this many
// GiB.
inline constexpr int kMemoryStep_gib = 8;

// 79 and 80 give 80, 140 gives 144. Values <= 0 (memory not known) are returned unchanged.
int labelled_memory_gib(int memory_gib);

// A key that another version wrote, as DeviceIdentity::key() would write it now: "...-mem79-..." gives "...-mem80-...". Text that
// is not a key is returned unchanged.
std::string todays_device_key(std::string_view key);

// Whether two GPUs have the same key.
bool are_one_device(const DeviceIdentity& a, const DeviceIdentity& b);
// Whether two GPUs with different keys have the same chip: compute capability, SMs and L2 agree, but memory or its bus does not
// (an A100 of 40 GiB and one of 80 GiB). The fastest kernels are nearly the same on both.
bool have_same_chip(const DeviceIdentity& a, const DeviceIdentity& b);

}  // namespace autotune
