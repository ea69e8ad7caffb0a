#pragma once

namespace autotune::runtime {

// How many forks lie between the first process that asked and this one. A value that has changed since an object was made tells
// that the object is the parent's. A plain load: fit for the hot path, where getpid() would be a system call.
int fork_generation() noexcept;

}  // namespace autotune::runtime
