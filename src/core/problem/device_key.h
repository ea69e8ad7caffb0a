#pragma once

#include <string>
#include <string_view>

#include "src/core/problem/device.h"

namespace autotune {

// Drivers keep some memory for themselves, and how much changes with their version: an H100 of 81,559 MiB has 81,090 MiB under
// another one, which is 80 or 79 GiB. In a device's key memory is therefore rounded up to this many GiB.
inline constexpr int kMemoryStep_gib = 8;

// 79 and 80 give 80, 140 gives 144. 0 and less, where memory is not known, stay.
int labelled_memory_gib(int memory_gib);

// The key as DeviceIdentity::key() would write it, of a key that another version wrote: "...-mem79-..." gives "...-mem80-...".
// Text that is no key is returned as it is.
std::string todays_device_key(std::string_view key);

// Whether two GPUs have one key.
bool are_one_device(const DeviceIdentity& a, const DeviceIdentity& b);
// Whether two GPUs of different keys have the same chip: compute capability, SMs and L2 agree, memory or its bus does not (an
// A100 of 40 GiB and one of 80 GiB). Which kernels are fast hardly differs between them.
bool have_same_chip(const DeviceIdentity& a, const DeviceIdentity& b);

}  // namespace autotune
