#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace autotune {

// What this process may use of the machine, which is less than the machine has in a container, in a batch job, under taskset or
// ulimit. `root` stands before /proc and /sys: tests give a folder of their own.

// How many threads can run at once: processors of the affinity mask, and no more than the quota of the process's control groups
// (version 1 or 2) allows, rounded up. At least 1.
int usable_processors(const std::string& root = "");
// Memory that can still be had: what the kernel calls available, and no more than the limits of the control groups leave. nullopt
// where nothing says so.
std::optional<std::int64_t> available_memory_bytes(const std::string& root = "");
// How many more processes and threads this user may start under RLIMIT_NPROC and the control groups; nullopt: no limit is known.
std::optional<int> startable_processes(const std::string& root = "");

// How many compilers to run at once beside `spare` processors that stay free: a compiler takes a processor, some 300 MiB of
// memory at its peak, and two entries of the process table. At least 1.
int usable_compilers(int spare, const std::string& root = "");

}  // namespace autotune
