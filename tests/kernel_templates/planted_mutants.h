#pragma once

#include <string>
#include <vector>

#include "tests/kernel_templates/mutants.h"

// Declarations for the mutants of one family. CMake finds them in kernel_templates/<op>/<family>/mutants.cpp.
namespace autotune::test {

using MutantsOfAFamily = std::vector<Mutant> (*)();

// Adds them to mutants().
struct Planted {
    explicit Planted(MutantsOfAFamily make);
};
// Adds mutants to overlap_mutants().
struct PlantedInChain {
    explicit PlantedInChain(MutantsOfAFamily make);
};

inline const std::string kWait = "dependent_launch::wait_for_earlier_grids();\n";

// Prefixes each mutant with the family's name, and its config with `config`.
std::vector<Mutant> of_family(const std::string& family, const std::string& config, std::vector<Mutant> list);

// Mutants of attention, whose problems are causal unless they say otherwise.
std::vector<Mutant> of_attention(const std::string& family, std::vector<Mutant> list);

// Mutants on f32 operands, with the compute type `compute`.
std::vector<Mutant> with_f32(const char* compute, std::vector<Mutant> list);

}  // namespace autotune::test
