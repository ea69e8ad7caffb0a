#pragma once

#include <optional>
#include <string>

#include "src/core/system/file_descriptor.h"

namespace autotune::tuner {

// Makes sure that only one process of a host tunes a problem: flock on a file named by a hash of the task. The kernel releases it
// when its holder dies; the file is deleted with the claim.
class ProblemClaim {
  public:
    ProblemClaim(ProblemClaim&& other) noexcept;
    ProblemClaim& operator=(ProblemClaim&& other) noexcept;
    ~ProblemClaim();

    // nullopt: another process has it. `what`: everything that makes two searches the same. If nobody can claim (no folder, a
    // file system without locks), the claim has no file, and two processes may do the same work.
    static std::optional<ProblemClaim> try_take(const std::string& folder, const std::string& what);

  private:
    ProblemClaim() = default;
    void release();

    std::string path_;
    FileDescriptor file_;
};

}  // namespace autotune::tuner
