#include "tests/support/nvrtc_for_tests.h"

#include <cstdlib>

#include "src/core/error.h"
#include "src/gpu/library_folders.h"

namespace autotune::test {

gpu::Nvrtc::Search nvrtc_search(int driver_major) {
    const char* path = std::getenv("AUTOTUNE_NVRTC");
    gpu::Nvrtc::Search search{.explicit_path = path == nullptr ? "" : path,
                              .folders = gpu::library_folders([](const char* name) { return std::getenv(name); }),
                              .driver_major = driver_major};
    const std::string build_tree = AUTOTUNE_BUILD_TREE_COMPILER;
    if (!build_tree.empty()) search.folders.push_back(build_tree);
    return search;
}

std::shared_ptr<const gpu::Nvrtc> nvrtc_or_skip(std::string& why) {
    try {
        return gpu::Nvrtc::load(nvrtc_search());
    } catch (const Error& error) {
        const char* required = std::getenv("AUTOTUNE_REQUIRE_NVRTC");
        if (required != nullptr && std::string(required) == "1") throw;
        why = error.what();
        return nullptr;
    }
}

}  // namespace autotune::test
