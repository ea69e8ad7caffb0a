#include "src/gpu/shared_library.h"

#include <dlfcn.h>
#include <link.h>

namespace autotune::gpu {

std::optional<SharedLibrary> SharedLibrary::open(const std::string& name_or_path, std::string* why) {
    // RTLD_LOCAL, because a host program may hold another copy of the same library, and neither may see the other's symbols.
    void* handle = dlopen(name_or_path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return SharedLibrary(handle);
    const char* words = dlerror();
    if (why != nullptr) *why = words != nullptr ? words : "unknown loader error";
    return std::nullopt;
}

void* SharedLibrary::symbol(const char* name) const {
    return dlsym(handle_, name);
}

std::string SharedLibrary::path() const {
    link_map* map = nullptr;
    if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || map->l_name == nullptr) return {};
    return map->l_name;
}

}  // namespace autotune::gpu
