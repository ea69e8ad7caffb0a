#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "src/rivals/rival.h"

namespace autotune {

// An op's rivals as the build found them. The definition of rival_registry() is generated.
struct RivalsOfOp {
    std::string_view op;
    std::vector<std::unique_ptr<Rival>> (*make)();
};
const std::vector<RivalsOfOp>& rival_registry();

}  // namespace autotune
