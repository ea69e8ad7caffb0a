#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"

namespace autotune::test {

// A small fault planted in one of our templates, and a candidate that shows it: a verifier must find it.
struct Mutant {
    std::string name{};
    std::string family{};
    std::string file{};  // below kernel_templates; if empty, the family's kernel.cuh
    std::string find{};  // occurs there exactly once
    std::string replace{};
    std::string config{};  // the differences from the family's default, such as "stages=3 split_k=2"
    std::string shape{};
    std::string host_shape{};                      // the shape on the host, which has few SMs; empty: the same
    std::map<std::string, std::string> options{};  // options of the problem besides its shape; the default is f16 with f32 sums
    bool races = false;                            // only the timing is wrong: a single run may give the right result
    bool hangs = false;                            // waits forever: tested on the host, which notices that no thread can continue

    std::string path() const { return file.empty() ? family + "/kernel.cuh" : file; }
};

inline void PrintTo(const Mutant& mutant, std::ostream* out) {
    *out << mutant.name;
}

const std::vector<Mutant>& mutants();
// Whether tests/support/host_cuda can run its family: mutants_host_test must reject all of these.
bool runs_on_host(const Mutant& mutant);
// Kernels that do not wait for the previous one: right alone, wrong in a chain (tests/conformance/overlap_gpu_test.cpp). Two
// waits have no mutant, because no result of these chains can show it: those of the consumer warpgroups of gemm/wgmma and
// gemm/wgmma_nonpersistent. Without beta these access memory only after tiles have arrived that were requested after the
// producer's wait. With beta, gemm/wgmma loads C right after its own wait, but in a chain of two buffers that C was written two
// launches before.
const std::vector<Mutant>& overlap_mutants();

// The embedded text of a file below kernel_templates.
std::string text_of_template(const Catalogue& catalogue, const std::string& path);
// How often `part` occurs in `text`.
int occurrences(const std::string& text, const std::string& part);
// Templates with the mutant's fault, made through a temporary folder. REQUIRES: mutant.find occurs there exactly once.
Catalogue mutated(const Mutant& mutant);
// The mutant's problem, and its config in the family's space; throws Error{internal} if the space has no such config.
Problem problem_of(const Mutant& mutant, const Catalogue& catalogue);
Config config_of(const Mutant& mutant, const SearchSpace& space);

}  // namespace autotune::test
