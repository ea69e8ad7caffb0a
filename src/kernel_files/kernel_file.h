#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/core/family/family_definition.h"
#include "src/core/op/op_definition.h"
#include "src/kernel_files/finding.h"

namespace autotune::kernel_files {

// A user's kernel file as read: an op and its only family, and where its expressions stand. README.md has the format.
struct KernelFile {
    std::string path;
    std::string text;
    FamilyDefinition family;                   // with its op
    std::map<std::string, Place> expressions;  // by their text; the first place of each
    std::vector<std::string> bad_expressions;  // that do not parse: told already

    const OpDefinition& op() const { return *family.op; }
    // The finding of an expression's error, at its place.
    Finding finding_of(const ExpressionError& error) const;
    std::string line(std::size_t number) const;
};

struct Loaded {
    KernelFile file;
    std::vector<Finding> findings;  // empty, or warnings alone: `file` is whole
    bool is_whole() const;
};

struct LoadOptions {
    std::vector<std::string> taken_names = {};      // ops and aliases that there are
    std::vector<std::string> taken_options = {};    // flags of the command, whose names no attribute can have
    std::vector<std::string> toolkit_folders = {};  // where cuda_fp16.h and its like may lie
};

// Reads a kernel file, its source and the headers that the source includes. Starts nothing, compiles nothing. Everything that is
// wrong is a finding.
Loaded load(const std::string& path, const LoadOptions& options);

// Checks that need no compiler, on every example and config: names, types, geometry, sizes. REQUIRES: the file is whole.
std::vector<Finding> check(const KernelFile& file, const std::vector<Device>& devices);

// The definition. Throws Error{usage} with the first finding, and how many more there are.
FamilyDefinition load_or_throw(const std::string& path, const LoadOptions& options);

}  // namespace autotune::kernel_files
