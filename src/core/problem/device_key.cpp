#include "src/core/problem/device_key.h"

#include <charconv>
#include <climits>
#include <tuple>
#include <utility>

namespace autotune {
namespace {

// Removes `label` and the number after it from the front of `text`. Returns false if they are not there.
bool take(std::string_view& text, std::string_view label, int& number) {
    if (!text.starts_with(label)) return false;
    text.remove_prefix(label.size());
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc() || number < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

std::tuple<int, int, int, int> chip_of(const DeviceIdentity& device) {
    return {device.cc_major, device.cc_minor, device.sm_count, device.l2_mib};
}

std::pair<int, int> memory_of(const DeviceIdentity& device) {
    return {labelled_memory_gib(device.memory_gib), device.bus_bits};
}

}  // namespace

int labelled_memory_gib(int memory_gib) {
    if (memory_gib <= 0 || memory_gib > INT_MAX - kMemoryStep_gib) return memory_gib;  // a file may contain a made-up number
    return (memory_gib + kMemoryStep_gib - 1) / kMemoryStep_gib * kMemoryStep_gib;
}

std::string todays_device_key(std::string_view key) {
    DeviceIdentity device;
    std::string_view rest = key;
    const bool is_key = take(rest, "cc", device.cc_major) && take(rest, ".", device.cc_minor) &&
                        take(rest, "-sm", device.sm_count) && take(rest, "-l2_", device.l2_mib) &&
                        take(rest, "-mem", device.memory_gib) && take(rest, "-bus", device.bus_bits) && rest.empty();
    return is_key ? device.key() : std::string(key);
}

bool are_one_device(const DeviceIdentity& a, const DeviceIdentity& b) {
    return chip_of(a) == chip_of(b) && memory_of(a) == memory_of(b);
}

bool have_same_chip(const DeviceIdentity& a, const DeviceIdentity& b) {
    return chip_of(a) == chip_of(b) && memory_of(a) != memory_of(b);
}

}  // namespace autotune
