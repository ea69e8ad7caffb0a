#include "tuner/worker/run_folder.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace autotune::tuner {

RunFolder::~RunFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string RunFolder::or_named(const std::string& named) {
    if (!named.empty()) return named;
    if (path_.empty()) {
        std::error_code failed;
        const std::filesystem::path parent = std::filesystem::temp_directory_path(failed);
        std::string made = (failed ? "/tmp" : parent.string()) + "/autotune-XXXXXX";
        if (::mkdtemp(made.data()) != nullptr) path_ = made;
    }
    return path_;
}

}  // namespace autotune::tuner
