// Preloaded library: counts one thread's calls of libc between two marks, and refuses memory if a test requests that. The counted
// functions reach the kernel and glibc's allocator without dlsym, because that allocates itself.
#include "tests/support/interposer/interposer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
}

namespace {

using autotune::test::kMostDriverCalls;
using autotune::test::RawCounts;

// Initial-exec: the first use of a thread-local must not allocate inside malloc.
[[gnu::tls_model("initial-exec")]] thread_local bool t_counts = false;
[[gnu::tls_model("initial-exec")]] thread_local int t_inside_driver = 0;
// This thread gets no memory from this allocation on (counted from 0, or -1 if it gets all), for this many allocations.
[[gnu::tls_model("initial-exec")]] thread_local long t_fails_from = -1;
[[gnu::tls_model("initial-exec")]] thread_local long t_most_failures = 0;
[[gnu::tls_model("initial-exec")]] thread_local long t_asked = 0;
RawCounts g_counts{};

void count(long RawCounts::*what) {
    if (t_counts && t_inside_driver == 0) ++(g_counts.*what);
}

// Counts an allocation. Returns true if it must fail.
bool fails() {
    count(&RawCounts::allocations);
    if (t_fails_from < 0 || t_inside_driver != 0) return false;
    const long since = t_asked++ - t_fails_from;
    if (since < 0 || since >= t_most_failures) return false;
    errno = ENOMEM;
    return true;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void autotune_interposer_fail_from(long allocation, long most) {
    t_asked = 0;
    t_most_failures = most;
    t_fails_from = allocation;
}

extern "C" [[gnu::visibility("default")]] long autotune_interposer_stop_failing() {
    const long failed = t_asked - t_fails_from;
    t_fails_from = -1;
    return failed < 0 ? 0 : failed > t_most_failures ? t_most_failures : failed;
}

extern "C" [[gnu::visibility("default")]] void autotune_interposer_start() {
    memset(&g_counts, 0, sizeof(g_counts));
    t_counts = true;
}

extern "C" [[gnu::visibility("default")]] const RawCounts* autotune_interposer_stop() {
    t_counts = false;
    return &g_counts;
}

// The scripted driver calls this with +1 when an entry point begins and with -1 when it ends.
extern "C" [[gnu::visibility("default")]] void autotune_interposer_inside_driver(int change) {
    t_inside_driver += change;
}

extern "C" [[gnu::visibility("default")]] void autotune_interposer_driver_call(const char* name) {
    if (!t_counts) return;
    if (g_counts.driver_calls < kMostDriverCalls) {
        snprintf(g_counts.names[g_counts.driver_calls].data(), g_counts.names[0].size(), "%s", name);
    }
    ++g_counts.driver_calls;
}

extern "C" [[gnu::visibility("default")]] void* malloc(size_t bytes) {
    return fails() ? nullptr : __libc_malloc(bytes);
}

extern "C" [[gnu::visibility("default")]] void* calloc(size_t number, size_t bytes) {
    return fails() ? nullptr : __libc_calloc(number, bytes);
}

extern "C" [[gnu::visibility("default")]] void* realloc(void* old, size_t bytes) {
    return fails() ? nullptr : __libc_realloc(old, bytes);
}

extern "C" [[gnu::visibility("default")]] void* aligned_alloc(size_t alignment, size_t bytes) {
    return fails() ? nullptr : __libc_memalign(alignment, bytes);
}

extern "C" [[gnu::visibility("default")]] int posix_memalign(void** memory, size_t alignment, size_t bytes) {
    *memory = fails() ? nullptr : __libc_memalign(alignment, bytes);
    return *memory != nullptr ? 0 : ENOMEM;
}

extern "C" [[gnu::visibility("default")]] void free(void* memory) {
    if (memory != nullptr) count(&RawCounts::frees);
    __libc_free(memory);
}

extern "C" [[gnu::visibility("default")]] void* mmap(void* address, size_t bytes, int protection, int flags, int file,
                                                     off_t offset) {
    count(&RawCounts::maps);
    return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

extern "C" [[gnu::visibility("default")]] void* mmap64(void* address, size_t bytes, int protection, int flags, int file,
                                                       off_t offset) {
    return mmap(address, bytes, protection, flags, file, offset);
}

// The mode is an argument only if a file may be created. Reading it always is harmless on x86-64 and AArch64.
extern "C" [[gnu::visibility("default")]] int openat(int folder, const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    count(&RawCounts::opens);
    return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

extern "C" [[gnu::visibility("default")]] int open(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return openat(AT_FDCWD, path, flags, mode);
}

extern "C" [[gnu::visibility("default")]] int open64(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return openat(AT_FDCWD, path, flags, mode);
}

extern "C" [[gnu::visibility("default")]] int openat64(int folder, const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    return openat(folder, path, flags, mode);
}

extern "C" [[gnu::visibility("default")]] int creat(const char* path, mode_t mode) {
    return openat(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

// glibc's own fopen does not call the symbol `open`.
extern "C" [[gnu::visibility("default")]] FILE* fopen(const char* path, const char* mode) {
    static const auto next = reinterpret_cast<FILE* (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "fopen"));
    count(&RawCounts::opens);
    return next(path, mode);
}

extern "C" [[gnu::visibility("default")]] FILE* fopen64(const char* path, const char* mode) {
    return fopen(path, mode);
}

extern "C" [[gnu::visibility("default")]] int ioctl(int file, unsigned long request, ...) {
    va_list rest;
    va_start(rest, request);
    void* argument = va_arg(rest, void*);
    va_end(rest);
    count(&RawCounts::ioctls);
    return static_cast<int>(syscall(SYS_ioctl, file, request, argument));
}

// With AUTOTUNE_UNREAPABLE a killed child never seems to end, as if it were stuck in the driver.
extern "C" [[gnu::visibility("default")]] pid_t wait4(pid_t child, int* status, int options, rusage* used) {
    if ((options & WNOHANG) != 0 && getenv("AUTOTUNE_UNREAPABLE") != nullptr) return 0;
    return static_cast<pid_t>(syscall(SYS_wait4, child, status, options, used));
}
