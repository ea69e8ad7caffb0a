#pragma once

#include <dlfcn.h>

#include <array>
#include <climits>
#include <string>
#include <vector>

namespace autotune::test {

// The calling thread's system calls between start_counting() and stop_counting(), as seen by the preloaded library
// (interposer_library()). What the scripted driver does inside its entry points is not counted; the entry points are counted as
// driver calls.
struct Counts {
    long opens = 0;        // open, openat, creat, fopen
    long maps = 0;         // mmap
    long allocations = 0;  // calls of malloc, calloc, realloc, aligned_alloc and posix_memalign, which operator new uses, too
    long frees = 0;
    long ioctls = 0;                        // calls by which a real driver reaches its kernel module
    std::vector<std::string> driver_calls;  // by name, only for the scripted driver: "cuLaunchKernelEx"
};

// C interface of the preloaded library.
constexpr std::size_t kMostDriverCalls = 4096;
struct RawCounts {
    long opens, maps, allocations, frees, ioctls;
    std::size_t driver_calls;
    std::array<std::array<char, 48>, kMostDriverCalls> names;
};

// A sanitizer has its own malloc, which must not be replaced: tests that count are skipped in such a build.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCanCount = false;
#else
constexpr bool kCanCount = true;
#endif

// Whether this process runs with the library preloaded: LD_PRELOAD=interposer_library(). Not under a sanitizer, which has its own
// malloc.
inline bool interposer_is_loaded() {
    return dlsym(RTLD_DEFAULT, "autotune_interposer_start") != nullptr;
}

// REQUIRES for both: interposer_is_loaded().
inline void start_counting() {
    const auto start = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "autotune_interposer_start"));
    start();
}

inline Counts stop_counting() {
    static const auto stop = reinterpret_cast<const RawCounts* (*)()>(dlsym(RTLD_DEFAULT, "autotune_interposer_stop"));
    const RawCounts* raw = stop();
    Counts counts{raw->opens, raw->maps, raw->allocations, raw->frees, raw->ioctls, {}};
    for (std::size_t i = 0; i < raw->driver_calls && i < kMostDriverCalls; ++i)
        counts.driver_calls.emplace_back(raw->names[i].data());
    return counts;
}

// From its `allocation`-th allocation on (0 is the first) the calling thread gets no memory, for `most` allocations, until
// stop_failing(), which returns how many allocations were refused. Allocations inside the scripted libraries succeed. REQUIRES:
// interposer_is_loaded().
inline void fail_from(long allocation, long most = LONG_MAX) {
    static const auto fail = reinterpret_cast<void (*)(long, long)>(dlsym(RTLD_DEFAULT, "autotune_interposer_fail_from"));
    fail(allocation, most);
}
inline long stop_failing() {
    static const auto stop = reinterpret_cast<long (*)()>(dlsym(RTLD_DEFAULT, "autotune_interposer_stop_failing"));
    return stop();
}

}  // namespace autotune::test
