// The share of a machine that a process may use, on simulated machines made of files.
#include "src/core/system/processors.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace autotune::processors_test {
namespace {

namespace fs = std::filesystem;

class Processors : public testing::Test {
  protected:
    Processors() {
        std::string pattern = testing::TempDir() + "processors-XXXXXX";
        root_ = ::mkdtemp(pattern.data());
        ::sched_getaffinity(0, sizeof before_, &before_);
    }
    ~Processors() override {
        ::sched_setaffinity(0, sizeof before_, &before_);
        fs::remove_all(root_);
    }
    void file(const std::string& path, const std::string& text) const {
        fs::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
        std::ofstream(root_ + path) << text;
    }
    int all() const { return CPU_COUNT(&before_); }

    std::string root_;
    cpu_set_t before_{};
};

TEST_F(Processors, AreThoseOfTheAffinityMask) {
    EXPECT_EQ(usable_processors(root_), all());
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
        if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_processors(root_), 1);
}

TEST_F(Processors, AreLimitedByAQuotaOfVersion2) {
    file("/proc/self/cgroup", "0::/user.slice/job\n");
    file("/sys/fs/cgroup/user.slice/job/cpu.max", "50000 100000\n");
    EXPECT_EQ(usable_processors(root_), 1) << "half a processor is one";
    file("/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
    EXPECT_EQ(usable_processors(root_), all());
    file("/sys/fs/cgroup/user.slice/cpu.max", "100000 100000\n");
    EXPECT_EQ(usable_processors(root_), 1) << "a group is limited by what holds it";
}

TEST_F(Processors, AreLimitedByTheGroupThatAContainerSeesAsItsRoot) {
    file("/proc/self/cgroup", "0::/system.slice/docker-1234.scope\n");
    file("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    EXPECT_EQ(usable_processors(root_), 1);
}

TEST_F(Processors, AreLimitedByAQuotaOfVersion1) {
    file("/proc/self/cgroup", "4:cpu,cpuacct:/job\n3:memory:/job\n");
    file("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
    file("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(usable_processors(root_), 1);
    file("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    EXPECT_EQ(usable_processors(root_), all());
}

TEST_F(Processors, MemoryIsWhatIsAvailableWithinTheGroupsLimit) {
    EXPECT_EQ(available_memory_bytes(root_), std::nullopt);
    file("/proc/meminfo", "MemTotal: 4096000 kB\nMemAvailable: 2048000 kB\n");
    EXPECT_EQ(available_memory_bytes(root_), 2048000LL * 1024);
    file("/proc/self/cgroup", "0::/\n");
    file("/sys/fs/cgroup/memory.max", "1000000000\n");
    file("/sys/fs/cgroup/memory.current", "700000000\n");
    file("/sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 100000000\n");
    EXPECT_EQ(available_memory_bytes(root_), 400000000) << "cached files go when memory is wanted";
}

TEST_F(Processors, CompilersFitIntoMemoryAndProcesses) {
    file("/proc/meminfo", "MemAvailable: 600000 kB\n");
    EXPECT_EQ(usable_compilers(0, root_), 1);
    file("/proc/meminfo", "MemAvailable: 600000000 kB\n");
    EXPECT_EQ(usable_compilers(0, root_), all());
    EXPECT_EQ(usable_compilers(1'000'000, root_), 1) << "one always";
    file("/proc/self/cgroup", "0::/\n");
    file("/sys/fs/cgroup/pids.max", "100\n");
    file("/sys/fs/cgroup/pids.current", "82\n");
    EXPECT_EQ(startable_processes(root_), 18);
    EXPECT_EQ(usable_compilers(0, root_), 1) << "the GPU worker needs some";
}

}  // namespace
}  // namespace autotune::processors_test
