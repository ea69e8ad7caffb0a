#pragma once

#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "tests/support/host_cuda/kernel.h"

namespace autotune::test::host_cuda {

// Few, so that small problems have more tiles than SMs.
constexpr int kSmCount = 12;

// The device for which a candidate of the family is planned: kArch, or kLaterArch if it refuses that; with few SMs.
Device device_for(const Family& family, const Problem& problem, int sm_count = kSmCount);

// The family's default for a problem with `changes`: "stages=2 warps=4". Throws Error{usage} if that is not legal.
Config config_with(const Family& family, const Problem& problem, const std::string& changes, int sm_count = kSmCount);

// One config of a family, compiled for the host.
class HostCandidate {
  public:
    // Throws Error for a problem that the family refuses, a config that is not legal, and a text that does not compile. REQUIRES:
    // the catalogue outlives this.
    HostCandidate(const Catalogue& catalogue, const Family& family, const Problem& problem, const Config& config,
                  int sm_count = kSmCount);

    // Runs the op's tests for a problem, checked by its reference on the host and with its bounds, with two schedules each, or
    // three on sm_90a. It also checks that nothing but the outputs' elements is written, nothing outside a tensor is read, zeroed
    // workspace is zero again, and every schedule gives the same bits in the typical test. Empty if all is well; else the first
    // fault. REQUIRES: the problem has the facts of the one that this was made for (throws Error{internal} otherwise).
    std::string examine(const Problem& problem);

  private:
    const Catalogue& catalogue_;
    const Family& family_;
    Config config_;
    int sm_count_;
    std::string facts_;
    HostKernel kernel_;
};

// An op's reference for devices, compiled for the host.
class HostReference {
  public:
    // Throws Error for a text that does not compile. REQUIRES: the catalogue outlives this.
    HostReference(const Catalogue& catalogue, const Problem& problem);

    // The candidate's results for each output of a test. Throws KernelFault. REQUIRES: the problem has the facts of the problem
    // that this was made for.
    std::vector<Expected> compute(const Problem& problem, const OpTest& test);

  private:
    const Op& op_;
    HostKernel kernel_;
};

}  // namespace autotune::test::host_cuda
