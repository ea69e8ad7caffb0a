// LD_PRELOAD library that makes calls of the C library fail: with AUTOTUNE_REFUSE="flock=38 posix_spawn=11/3" flock() always
// fails with errno 38, and posix_spawn() from its third call on with 11. Tests get its path from fake::refusing_library().
#include <dlfcn.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// The errno with which the next call of `name` must fail, or 0 if it must not fail.
int refusal(const char* name, std::atomic<long>& calls) {
    const char* all = std::getenv("AUTOTUNE_REFUSE");
    const std::string wanted = std::string(name) + "=";
    const char* found = all == nullptr ? nullptr : std::strstr(all, wanted.c_str());
    if (found == nullptr || (found != all && found[-1] != ' ')) return 0;
    char* rest = nullptr;
    const long code = std::strtol(found + wanted.size(), &rest, 10);
    const long from = *rest == '/' ? std::strtol(rest + 1, nullptr, 10) : 1;
    return ++calls >= from ? static_cast<int>(code) : 0;
}

template <typename Function>
Function* original(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int flock(int file, int operation) {
    static std::atomic<long> calls{0};
    if (const int code = refusal("flock", calls); code != 0) return errno = code, -1;
    return original<int(int, int)>("flock")(file, operation);
}

[[gnu::visibility("default")]] int mkdir(const char* path, mode_t mode) {
    static std::atomic<long> calls{0};
    if (const int code = refusal("mkdir", calls); code != 0) return errno = code, -1;
    return original<int(const char*, mode_t)>("mkdir")(path, mode);
}

[[gnu::visibility("default")]] int mkostemps(char* path, int suffix, int flags) {
    static std::atomic<long> calls{0};
    if (const int code = refusal("mkostemps", calls); code != 0) return errno = code, -1;
    return original<int(char*, int, int)>("mkostemps")(path, suffix, flags);
}

[[gnu::visibility("default")]] int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                                               const posix_spawnattr_t* attributes, char* const* arguments,
                                               char* const* variables) {
    static std::atomic<long> calls{0};
    if (const int code = refusal("posix_spawn", calls); code != 0) return code;
    return original<int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*, char* const*,
                        char* const*)>("posix_spawn")(pid, path, actions, attributes, arguments, variables);
}

}  // extern "C"
