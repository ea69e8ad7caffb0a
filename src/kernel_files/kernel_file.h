#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/core/family/family_definition.h"
#include "src/core/op/op_definition.h"
#include "src/kernel_files/finding.h"
#include "src/kernel_files/toolkit.h"

namespace autotune::kernel_files {

// A user's kernel file after reading: an op, its only family, and the places of its expressions. README.md describes the format.
struct KernelFile {
    std::string path;
    std::string text;
    FamilyDefinition family;                      // with its op
    std::map<std::string, Place> expressions;     // by their text; the first place of each
    std::vector<std::string> bad_expressions;     // expressions that do not parse, which has been reported
    std::vector<std::string> unseen_parameters;   // compile parameters that the source does not use, which has been reported
    std::map<std::string, std::string> defaults;  // of the command's flags, by [search] and [measure]: "budget" -> "60s"

    const OpDefinition& op() const { return *family.op; }
    // The finding of an expression's error, at its place.
    Finding finding_of(const ExpressionError& error) const;
    std::string line(std::size_t number) const;
};

struct Loaded {
    KernelFile file;
    std::vector<Finding> findings;  // `file` is complete if this is empty or has only warnings
    bool is_whole() const;
};

struct LoadOptions {
    std::vector<std::string> taken_names = {};    // names of existing ops and aliases
    std::vector<std::string> taken_options = {};  // flags of the command, which no attribute may be named after
    // Whether the files with contents of tensors must exist; false if the caller brings its own data
    bool needs_data = true;
    Toolkit toolkit = {};  // the toolkit whose headers a source may include
};

// The words for types of computed arguments, such as "i32" in "i32: n * 2".
const std::map<std::string, StepDefinition::Argument::Kind>& computed_argument_types();

// Reads a kernel file, its source and the headers that the source includes. Starts no process and compiles nothing. Every fault
// becomes a finding.
Loaded load(const std::string& path, const LoadOptions& options);

// Checks that need no compiler, on every example and config: names, types, geometry, sizes. REQUIRES: the file is complete.
std::vector<Finding> check(const KernelFile& file, const std::vector<Device>& devices);

// The file. Throws Error{usage} with the first finding and the number of others.
KernelFile load_file_or_throw(const std::string& path, const LoadOptions& options);
// Its definition. Throws Error{usage} with the first finding and the number of others.
FamilyDefinition load_or_throw(const std::string& path, const LoadOptions& options);

}  // namespace autotune::kernel_files
