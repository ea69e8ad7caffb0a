#include "tools/cli/input/kernel_files.h"

#include <utility>

#include "src/catalogue/op_names.h"
#include "src/core/spelling.h"
#include "tools/cli/command.h"

namespace autotune::cli {
namespace {

// Folders of toolkits that may have headers beside those of the libraries.
std::vector<std::string> toolkit_roots(const Environment& environment) {
    std::vector<std::string> roots;
    for (const char* variable : {"CUDA_PATH", "CUDA_HOME"})
        if (const auto root = environment.get(variable)) roots.push_back(*root);
    roots.emplace_back("/usr/local/cuda");
    return roots;
}

}  // namespace

std::vector<std::string> kernel_paths_in(const std::vector<std::string>& words) {
    constexpr std::string_view kFlag = "--kernel";
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string path;
        if (words[i] == kFlag && i + 1 < words.size()) path = words[i + 1];
        if (words[i].starts_with(std::string(kFlag) + "=")) path = words[i].substr(kFlag.size() + 1);
        // The parser reports an empty path.
        if (!trimmed(path).empty()) paths.push_back(std::move(path));
    }
    return paths;
}

kernel_files::LoadOptions kernel_load_options(const Catalogue& built_in, const Environment& environment, Services& services) {
    std::vector<std::string> flags;
    for (const Command& command : all_commands())
        for (const Flag& flag : command.flags) flags.push_back(flag.name);
    return {.taken_names = op_names(built_in),
            .taken_options = std::move(flags),
            .toolkit = kernel_files::find_toolkit(toolkit_roots(environment), services.library_folders())};
}

}  // namespace autotune::cli
