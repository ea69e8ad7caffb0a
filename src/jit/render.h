#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/core/family/family.h"
#include "src/core/op/op.h"
#include "src/core/problem/problem.h"
#include "src/core/space/config.h"

namespace autotune::jit {

// A template with its values filled in, ready to compile. `identity` = hash(code of the template and of everything it includes,
// the values, options, NVRTC version, architecture), 64 hex digits: comments, white space and the folders of headers do not
// count. `symbol` = <op>_<family>_<first 16 of the identity>.
struct Rendered {
    std::string symbol;
    std::string identity;
    std::string source;
    std::vector<std::pair<std::string, std::string>> headers;
    std::vector<std::string> options;
    std::string arch;
    // Template kernels of a user's source: the name by which they are loaded, and their name in the source, "gemm<128, float>".
    std::vector<std::pair<std::string, std::string>> kernel_names = {};
};

// The target of a rendering: the compiler's version changes the options and the identity.
struct Target {
    std::string arch;           // "sm_90a"
    std::string nvrtc_version;  // "13.0"
};

// Fills the placeholders of `text`, which may appear only in its first block (from the top to the line `// ---- end of parameters
// ----`). Integers are printed as decimals, dtypes as their word, `${symbol}` as the symbol. Throws Error{internal} with file and
// line for a name that is unknown, missing or unused, or a placeholder outside the block.
std::string fill(const std::string& text, const std::string& file, const std::vector<Binding>& bindings,
                 const std::string& symbol);

// Launch parameters of `config` do not count: configs with equal compile parameters render to the same identity.
Rendered render(const Catalogue& catalogue, const Family& family, const Problem& problem, const SearchSpace& space,
                const Config& config, const Target& target);
Rendered render_reference(const Catalogue& catalogue, const Op& op, const Problem& problem, const Target& target);
// The other kernels of an instance, as suffixes of its symbol: "_reduce". Some of them may be compiled out.
std::vector<std::string> second_entries(const Rendered& rendered);
// The harness kernels (fill, poison, compare, canary): the same text for every problem.
Rendered render_harness(const Catalogue& catalogue, const Target& target);

}  // namespace autotune::jit
