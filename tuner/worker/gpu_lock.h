#pragma once

#include <optional>
#include <string>

#include "src/core/file_descriptor.h"
#include "tuner/worker/worker_process.h"

namespace autotune::tuner {

// One tuner per GPU: flock on a file named by the GPU's UUID. Freed by the kernel when its holder dies, however it dies.
class GpuLock {
  public:
    // nullopt if another process holds it. Throws Error{internal} if the folder cannot be used.
    static std::optional<GpuLock> try_take(const std::string& folder, const std::string& uuid);
    // "process 4711" or "unknown", for people.
    static std::string holder(const std::string& folder, const std::string& uuid);

  private:
    explicit GpuLock(FileDescriptor fd) : fd_(std::move(fd)) {}
    FileDescriptor fd_;
};

// `name` reduced to letters, digits, '-' and '_', so that it can be part of a file name.
std::string file_stem(const std::string& name);
// Makes a folder and its parents, ours alone (0700). Throws Error{internal} naming it if that fails.
void make_private_folder(const std::string& folder);

}  // namespace autotune::tuner
