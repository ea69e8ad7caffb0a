#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace autotune {

// The share of the machine that this process may use; in a container, in a batch job, under taskset or ulimit it is less than the
// whole. `root` is put in front of /proc and /sys: tests pass a folder of their own.

// How many threads can run at once: the processors in the affinity mask, but no more than the quota of the process's control
// groups (version 1 or 2), rounded up. At least 1.
int usable_processors(const std::string& root = "");
// Memory that is still available: the kernel's number, but no more than the limits of the control groups leave. nullopt if
// neither is known.
std::optional<std::int64_t> available_memory_bytes(const std::string& root = "");
// How many more processes and threads this user may start under RLIMIT_NPROC and the control groups; nullopt: no limit is known.
std::optional<int> startable_processes(const std::string& root = "");

// How many compilers to run at once if `spare` processors stay free: a compiler takes a processor, about 300 MiB of memory at its
// peak, and two entries of the process table. At least 1.
int usable_compilers(int spare, const std::string& root = "");

}  // namespace autotune
