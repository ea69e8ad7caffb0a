#pragma once

#include <string_view>
#include <vector>

#include "src/core/family/family.h"
#include "src/core/op/op.h"

namespace autotune {

// A file of device code below kernel_templates, such as {"gemm/mma/kernel.cuh", text}.
struct EmbeddedFile {
    std::string_view name;
    std::string_view text;
};

// The contents of the folders, found by the build. The definition of registry() is generated.
struct Registry {
    std::vector<const Op*> ops;
    std::vector<const Family*> families;
    std::vector<EmbeddedFile> files;
};
const Registry& registry();

}  // namespace autotune
