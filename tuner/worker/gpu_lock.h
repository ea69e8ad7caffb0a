#pragma once

#include <optional>
#include <string>

#include "src/core/system/file_descriptor.h"

namespace autotune::tuner {

// Where a GPU's lock is taken: in both folders.
struct LockFolders {
    std::string host{};   // that all users of the host share: mode 1777, made by the first of them or by tmpfiles; empty: none
    std::string state{};  // of this user; empty: none
};

// One tuner per GPU: flock on files named by the GPU's UUID. Freed by the kernel when its holder dies, however it dies.
class GpuLock {
  public:
    struct Attempt;
    static Attempt try_take(const LockFolders& folders, const std::string& uuid);
    // "process 4711", "process 4711 of user 1001" or "unknown", for people.
    static std::string holder(const LockFolders& folders, const std::string& uuid);

  private:
    GpuLock() = default;
    FileDescriptor host_, state_;
};

// What became of one try. Without a lock and a failure, another process holds it.
struct GpuLock::Attempt {
    std::optional<GpuLock> lock;
    // Why it can be taken by nobody: a folder that cannot be written, a file system without locks. Empty: it can.
    std::string failure{};
    // Why only this user's processes are kept apart. Empty: all are.
    std::string only_this_user{};
};

// `name` reduced to letters, digits, '-' and '_', so that it can be part of a file name.
std::string file_stem(const std::string& name);

}  // namespace autotune::tuner
