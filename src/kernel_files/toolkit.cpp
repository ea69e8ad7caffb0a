#include "src/kernel_files/toolkit.h"

#include <algorithm>
#include <filesystem>

#include "src/core/system/read_file.h"
#include "src/core/text.h"

namespace autotune::kernel_files {
namespace {

namespace fs = std::filesystem;

// The number that a header defines `name` as; empty if it does not.
std::string defined_number(const fs::path& header, std::string_view name) {
    constexpr std::size_t kMostBytes = std::size_t{4} << 20;
    const FileContent content = read_regular_file(header.string(), kMostBytes);
    if (!content.is_read) return "";
    const std::string wanted = "#define " + std::string(name) + " ";
    for (std::size_t at = content.text.find(wanted); at != std::string::npos; at = content.text.find(wanted, at + 1)) {
        std::size_t digit = content.text.find_first_not_of(' ', at + wanted.size());
        std::string number;
        while (digit < content.text.size() && content.text[digit] >= '0' && content.text[digit] <= '9')
            number += content.text[digit++];
        if (!number.empty()) return number;
    }
    return "";
}

std::string first_number(const std::vector<std::string>& folders, const char* header, const char* name) {
    for (const std::string& folder : folders)
        if (std::string number = defined_number(fs::path(folder) / header, name); !number.empty()) return number;
    return "0";
}

}  // namespace

Toolkit find_toolkit(const std::vector<std::string>& roots, const std::vector<std::string>& library_folders) {
    std::vector<fs::path> candidates;
    for (const std::string& root : roots) candidates.push_back(fs::path(root) / "include");
    for (const std::string& folder : library_folders) candidates.push_back(fs::path(folder).parent_path() / "include");
    // pip's packages for CUDA 12 have a folder each.
    for (const std::string& folder : library_folders)
        candidates.push_back(fs::path(folder).parent_path().parent_path() / "cuda_runtime" / "include");
    std::error_code ignored;
    for (const fs::path& folder : candidates) {
        if (!fs::exists(folder / "cuda_fp16.h", ignored)) continue;
        Toolkit found{{folder.string()}, ""};
        const auto add = [&](const fs::path& more) {
            if (fs::is_directory(more, ignored)) found.folders.push_back(more.string());
        };
        add(folder / "cccl");  // CUDA 13 has the headers of its C++ libraries in a separate folder
        const fs::path packages = folder.parent_path().parent_path();
        add(packages / "cuda_cccl" / "include");
        add(packages / "cuda_cccl" / "include" / "cccl");
        found.version = first_number(found.folders, "cuda_runtime_api.h", "CUDART_VERSION") + "/" +
                        first_number(found.folders, "cuda/std/__cccl/version.h", "CCCL_VERSION");
        return found;
    }
    return {};
}

}  // namespace autotune::kernel_files
