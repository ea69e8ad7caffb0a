#pragma once

#include <string>
#include <vector>

#include "tests/kernel_templates/mutants.h"

// For the mutants of one family: kernel_templates/<op>/<family>/mutants.cpp, which CMake finds.
namespace autotune::test {

using MutantsOfAFamily = std::vector<Mutant> (*)();

// Adds them to mutants().
struct Planted {
    explicit Planted(MutantsOfAFamily make);
};
// Adds them to overlap_mutants().
struct PlantedInChain {
    explicit PlantedInChain(MutantsOfAFamily make);
};

inline const std::string kWait = "dependent_launch::wait_for_earlier_grids();\n";

// The family's name is put before that of each mutant, and `config` before its config.
std::vector<Mutant> of_family(const std::string& family, const std::string& config, std::vector<Mutant> list);

// Of attention, whose problems are causal unless they say otherwise.
std::vector<Mutant> of_attention(const std::string& family, std::vector<Mutant> list);

// On f32 operands, computed as `compute` says.
std::vector<Mutant> with_f32(const char* compute, std::vector<Mutant> list);

}  // namespace autotune::test
