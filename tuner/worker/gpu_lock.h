#pragma once

#include <optional>
#include <string>

#include "src/core/system/file_descriptor.h"

namespace autotune::tuner {

// The folders of a GPU's lock. The lock is taken in both.
struct LockFolders {
    // The folder that all users of the host share, of mode 1777, made by the first of them or by tmpfiles; or empty.
    std::string host{};
    std::string state{};  // the state folder of this user, or empty
};

// One tuner per GPU: flock on files named by the GPU's UUID. The kernel releases the lock when its holder ends, in whatever way.
class GpuLock {
  public:
    struct Attempt;
    static Attempt try_take(const LockFolders& folders, const std::string& uuid);
    // The holder for messages: "process 4711", "process 4711 of user 1001" or "unknown".
    static std::string holder(const LockFolders& folders, const std::string& uuid);

  private:
    GpuLock() = default;
    FileDescriptor host_, state_;
};

// The outcome of one try. Without a lock and without a failure, another process holds it.
struct GpuLock::Attempt {
    std::optional<GpuLock> lock;
    // Why no process can take it: a folder that cannot be written, a file system without locks. Empty: it can be taken.
    std::string failure{};
    // Why only this user's processes are excluded; empty if all users' processes are.
    std::string only_this_user{};
};

// `name` reduced to letters, digits, '-' and '_', so that it can be part of a file name.
std::string file_stem(const std::string& name);

}  // namespace autotune::tuner
