#pragma once

#include <string_view>
#include <vector>

#include "src/core/family/family.h"
#include "src/core/op/op.h"

namespace autotune {

// A file of device text below kernel_templates: {"gemm/mma/kernel.cuh", text}.
struct EmbeddedFile {
    std::string_view name;
    std::string_view text;
};

// What the build found in the folders. The definition of registry() is generated.
struct Registry {
    std::vector<const Op*> ops;
    std::vector<const Family*> families;
    std::vector<EmbeddedFile> files;
};
const Registry& registry();

}  // namespace autotune
