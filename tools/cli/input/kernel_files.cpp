#include "tools/cli/input/kernel_files.h"

#include <filesystem>
#include <utility>

#include "src/catalogue/op_names.h"
#include "src/core/spelling.h"
#include "tools/cli/command.h"

namespace autotune::cli {
namespace {

namespace fs = std::filesystem;

// Folders of headers of the first toolkit that has some: CUDA 13 keeps those of its C++ libraries in one of their own.
std::vector<std::string> toolkit_folders(const Environment& environment, Services& services) {
    std::vector<fs::path> candidates;
    for (const char* variable : {"CUDA_PATH", "CUDA_HOME"})
        if (const auto root = environment.get(variable)) candidates.push_back(fs::path(*root) / "include");
    candidates.emplace_back("/usr/local/cuda/include");
    for (const std::string& folder : services.library_folders()) candidates.push_back(fs::path(folder).parent_path() / "include");
    std::error_code ignored;
    for (const fs::path& folder : candidates) {
        if (!fs::exists(folder / "cuda_fp16.h", ignored)) continue;
        std::vector<std::string> found = {folder.string()};
        if (fs::exists(folder / "cccl", ignored)) found.push_back((folder / "cccl").string());
        return found;
    }
    return {};
}

}  // namespace

std::vector<std::string> kernel_paths_in(const std::vector<std::string>& words) {
    constexpr std::string_view kFlag = "--kernel";
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string path;
        if (words[i] == kFlag && i + 1 < words.size()) path = words[i + 1];
        if (words[i].starts_with(std::string(kFlag) + "=")) path = words[i].substr(kFlag.size() + 1);
        // The parser tells of an empty one.
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
            .toolkit_folders = toolkit_folders(environment, services)};
}

}  // namespace autotune::cli
