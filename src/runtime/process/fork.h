#pragma once

namespace autotune::runtime {

// The number of forks between the first process that called this and the present one. If it has changed since an object was made,
// the object is the parent's. A plain load, because on the hot path getpid() would be a system call.
int fork_generation() noexcept;

}  // namespace autotune::runtime
