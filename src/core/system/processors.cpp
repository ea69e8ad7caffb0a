#include "src/core/system/processors.h"

#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string_view>
#include <vector>

namespace autotune {
namespace {

constexpr std::int64_t kCompilerBytes = std::int64_t{512} << 20;  // compiling the largest templates takes some 300 MiB
constexpr int kCompilerProcesses = 2;
constexpr int kProcessesKept =
    16;  // kept for the GPU worker, whose driver starts threads of its own, and for other processes under the limit

// The number of processors in the affinity mask, on machines of any size.
int processors_of_mask() {
    for (std::size_t bits = 1024; bits <= (std::size_t{1} << 20); bits *= 2) {
        const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(bits), [](cpu_set_t* made) { CPU_FREE(made); });
        if (set == nullptr) break;
        const std::size_t bytes = CPU_ALLOC_SIZE(bits);
        CPU_ZERO_S(bytes, set.get());
        if (::sched_getaffinity(0, bytes, set.get()) == 0) return CPU_COUNT_S(bytes, set.get());
    }
    return static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN));
}

std::optional<double> number_of(std::string_view word) {
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || rest == word.data()) return std::nullopt;  // "max"
    return static_cast<double>(value);
}

std::vector<std::string> words_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> words;
    for (std::string word; file >> word;) words.push_back(std::move(word));
    return words;
}

std::optional<double> number_in(const std::string& path) {
    const std::vector<std::string> words = words_of(path);
    return words.empty() ? std::nullopt : number_of(words.front());
}

// The number that follows `name` in a file of lines "name number".
std::optional<double> number_after(const std::string& path, std::string_view name) {
    const std::vector<std::string> words = words_of(path);
    const auto found = std::find(words.begin(), words.end(), name);
    return found == words.end() || found + 1 == words.end() ? std::nullopt : number_of(*(found + 1));
}

// Folders of the control groups that this process is in, each with its ancestors: the limits of all of them count. A container
// often sees its own group as the root, whatever /proc/self/cgroup says.
std::vector<std::string> group_folders(const std::string& root, std::string_view controller) {
    std::vector<std::string> folders;
    const auto add = [&](const std::string& mount, std::string path) {
        while (true) {
            folders.push_back(mount + path);
            const std::size_t slash = path.rfind('/');
            if (path.size() <= 1 || slash == std::string::npos) break;
            path.resize(slash);
        }
    };
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        const std::size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string names = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
        if (names.empty()) {
            add(root + "/sys/fs/cgroup", path);
            add(root + "/sys/fs/cgroup/unified", path);
        } else if ((',' + names + ',').find(',' + std::string(controller) + ',') != std::string::npos) {
            add(root + "/sys/fs/cgroup/" + names, path);
            add(root + "/sys/fs/cgroup/" + std::string(controller), path);
        }
    }
    return folders;
}

std::optional<double> quota_of(const std::string& folder) {
    const std::vector<std::string> both = words_of(folder + "/cpu.max");  // "150000 100000"
    std::optional<double> quota, period;
    if (both.size() == 2) {
        quota = number_of(both[0]);
        period = number_of(both[1]);
    } else {
        quota = number_in(folder + "/cpu.cfs_quota_us");  // -1: none
        period = number_in(folder + "/cpu.cfs_period_us");
    }
    if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;
    return *quota / *period;
}

// The memory that a group has left. Cached files that are not in use count as used, but the kernel frees them when memory is
// needed.
std::optional<double> memory_left(const std::string& folder) {
    auto limit = number_in(folder + "/memory.max");
    auto used = number_in(folder + "/memory.current");
    auto cached = number_after(folder + "/memory.stat", "inactive_file");
    if (!limit && !used) {
        limit = number_in(folder + "/memory.limit_in_bytes");
        used = number_in(folder + "/memory.usage_in_bytes");
        cached = number_after(folder + "/memory.stat", "total_inactive_file");
    }
    if (!limit) return std::nullopt;
    return std::max(0.0, *limit - std::max(0.0, used.value_or(0) - cached.value_or(0)));
}

// Threads that run under our user's real id, by the link counts of /proc/PID/task.
int threads_of_user(const std::string& root) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir((root + "/proc").c_str()), ::closedir);
    int threads = 0;
    while (open != nullptr) {
        const dirent* entry = ::readdir(open.get());
        if (entry == nullptr) break;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        struct stat facts = {};
        const std::string task = root + "/proc/" + entry->d_name + "/task";
        if (::stat(task.c_str(), &facts) == 0 && facts.st_uid == ::getuid()) threads += static_cast<int>(facts.st_nlink) - 2;
    }
    return threads;
}

int as_int(double value) {
    return static_cast<int>(std::clamp(value, 0.0, static_cast<double>(std::numeric_limits<int>::max())));
}

}  // namespace

int usable_processors(const std::string& root) {
    double processors = std::max(1, processors_of_mask());
    for (const std::string& folder : group_folders(root, "cpu")) {
        if (const auto quota = quota_of(folder)) processors = std::min(processors, std::ceil(*quota));
    }
    return std::max(1, as_int(processors));
}

std::optional<std::int64_t> available_memory_bytes(const std::string& root) {
    std::optional<double> bytes = number_after(root + "/proc/meminfo", "MemAvailable:");
    if (bytes) *bytes *= 1024;
    for (const std::string& folder : group_folders(root, "memory")) {
        if (const auto left = memory_left(folder)) bytes = std::min(bytes.value_or(*left), *left);
    }
    return bytes ? std::optional(static_cast<std::int64_t>(*bytes)) : std::nullopt;
}

std::optional<int> startable_processes(const std::string& root) {
    std::optional<int> left;
    rlimit limit{};
    // The kernel does not count root's processes.
    if (::getuid() != 0 && ::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        left = std::max(0, as_int(static_cast<double>(limit.rlim_cur)) - threads_of_user(root));
    for (const std::string& folder : group_folders(root, "pids")) {
        const auto most = number_in(folder + "/pids.max"), now = number_in(folder + "/pids.current");
        if (most && now) left = std::min(left.value_or(std::numeric_limits<int>::max()), as_int(*most - *now));
    }
    return left;
}

int usable_compilers(int spare, const std::string& root) {
    std::int64_t compilers = usable_processors(root) - spare;
    if (const auto bytes = available_memory_bytes(root)) compilers = std::min(compilers, *bytes / kCompilerBytes);
    if (const auto left = startable_processes(root))
        compilers = std::min<std::int64_t>(compilers, (*left - kProcessesKept) / kCompilerProcesses);
    return static_cast<int>(std::max<std::int64_t>(1, compilers));
}

}  // namespace autotune
