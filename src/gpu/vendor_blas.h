#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "src/core/problem.h"
#include "src/gpu/driver.h"

namespace autotune::gpu {

// cuBLAS and cuBLASLt, where found (dlopen, own prototypes): the rivals of `bench --against`. Only problems of op "gemm".
class VendorBlas {
  public:
    // Searches the loader's own path, then `folders` (library_folders.h). nullptr if the libraries are not there. REQUIRES: a
    // context is current when a call is made.
    static std::shared_ptr<VendorBlas> load(std::shared_ptr<const Driver> driver, const std::vector<std::string>& folders = {});
    ~VendorBlas();
    std::string version() const;  // "13.1.0"

    // Whether the vendor has an entry for these dtypes, accumulator and layouts; a reason if not.
    std::string refuses(const Problem& problem) const;

    // Enqueues C = alpha A B + beta C with the default heuristic of cublasGemmEx (strided batch where batch > 1).
    void run_default(const Problem& problem, const std::vector<DeviceAddress>& tensors, StreamHandle stream);

    // cuBLASLt's heuristics for the problem, best-first by its own ranking; `requested` >= 32.
    int lt_prepare(const Problem& problem, int requested, std::size_t workspace_bytes);
    void lt_run(int index, const Problem& problem, const std::vector<DeviceAddress>& tensors, DeviceAddress workspace,
                StreamHandle stream);

  private:
    VendorBlas();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace autotune::gpu
