#pragma once

#include <optional>
#include <string>

#include "src/core/system/file_descriptor.h"
#include "tuner/worker/worker_process.h"

namespace autotune::tuner {

// One tuner per GPU: flock on a file named by the GPU's UUID. Freed by the kernel when its holder dies, however it dies.
class GpuLock {
  public:
    struct Attempt;
    static Attempt try_take(const std::string& folder, const std::string& uuid);
    // "process 4711" or "unknown", for people.
    static std::string holder(const std::string& folder, const std::string& uuid);

  private:
    explicit GpuLock(FileDescriptor fd) : fd_(std::move(fd)) {}
    FileDescriptor fd_;
};

// What became of one try. Without a lock and a failure, another process holds it.
struct GpuLock::Attempt {
    std::optional<GpuLock> lock;
    // Why it can be taken by nobody: a folder that cannot be written, a file system without locks. Empty: it can.
    std::string failure;
};

// `name` reduced to letters, digits, '-' and '_', so that it can be part of a file name.
std::string file_stem(const std::string& name);

}  // namespace autotune::tuner
