#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"

namespace autotune::test {

// A small fault planted in one of our own templates, and the candidate that shows it: what a verifier must find.
struct Mutant {
    std::string name{};
    std::string family{};
    std::string file{};  // below kernel_templates; empty: the family's kernel.cuh
    std::string find{};  // stands there exactly once
    std::string replace{};
    std::string config{};  // "stages=3 split_k=2": what differs from the family's default
    std::string shape{};
    std::string host_shape{};                      // in its place on the host, which has few SMs; empty: the same
    std::map<std::string, std::string> options{};  // of the problem, beside its shape; f16 with f32 sums unless they say more
    bool races = false;                            // wrong by timing alone: one run may give the right answer
    bool hangs = false;                            // waits for ever: shown on the host, which sees that no thread can go on

    std::string path() const { return file.empty() ? family + "/kernel.cuh" : file; }
};

inline void PrintTo(const Mutant& mutant, std::ostream* out) {
    *out << mutant.name;
}

const std::vector<Mutant>& mutants();
// Whether its family is one that tests/support/host_cuda can run: mutants_host_test has all of these rejected.
bool runs_on_host(const Mutant& mutant);
// Kernels that do not wait for the one in front of them: right alone, wrong in a chain (tests/conformance/overlap_gpu_test.cpp).
// Two waits have no mutant, since no result of these chains can show it: those of the consumer warpgroups of gemm/wgmma and
// gemm/wgmma_nonpersistent. Without beta they touch memory only after tiles have come that were asked for behind the producer's
// wait; what beta multiplies gemm/wgmma asks for at once behind its own wait, but in a chain of two buffers it was written two
// launches before.
const std::vector<Mutant>& overlap_mutants();

// The embedded text of a file below kernel_templates.
std::string text_of_template(const Catalogue& catalogue, const std::string& path);
// How often `part` stands in `text`.
int occurrences(const std::string& text, const std::string& part);
// Templates with the mutant's fault, by way of a folder that is removed again. REQUIRES: mutant.find stands there exactly once.
Catalogue mutated(const Mutant& mutant);
// The mutant's problem, and its config in the family's space there; throws Error{internal} where the space has no such config.
Problem problem_of(const Mutant& mutant, const Catalogue& catalogue);
Config config_of(const Mutant& mutant, const SearchSpace& space);

}  // namespace autotune::test
