#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace autotune::gpu {

// NVRTC, opened with dlopen: the newest found whose major version is not above `driver_major` (0: any). Needs no GPU.
class Nvrtc {
  public:
    // If `explicit_path` (the value of AUTOTUNE_NVRTC) is given, only this path is tried. Otherwise libnvrtc.so.13 is tried, then
    // .12, each first by the loader and then in `folders` (library_folders.h). The builtins library next to the found library is
    // opened too, because NVRTC opens it by name, and the loader does not find it in a pip package. Throws Error{no_compiler}
    // with a list of what was tried. If all found libraries are newer than the driver, the error names them and what to install.
    struct Search {
        std::string explicit_path{};
        std::vector<std::string> folders{};
        int driver_major = 0;
    };
    static std::shared_ptr<const Nvrtc> load(const Search& search);

    std::string version() const;  // "13.0"
    std::string path() const;     // file from which it was loaded
    bool has_own_cache() const;   // 12.9 and newer: has --no-cache

    struct Source {
        std::string text{};
        std::string name{};                                          // for messages
        std::vector<std::pair<std::string, std::string>> headers{};  // name and text of the only files that an #include can reach
        std::vector<std::string> options{};                          // only from our allow-list
        // Kernels that are templates: the name under which they are loaded, and their expression, "ns::gemm<128, float>".
        std::vector<std::pair<std::string, std::string>> kernel_names{};
    };
    struct Output {
        bool ok = false;
        // Whether another try would give the same result: it compiled, or the source itself was refused. False if the compiler
        // lacked something: memory, its builtins, a file.
        bool is_verdict = false;
        std::vector<std::byte> cubin;
        std::string log;
        double milliseconds = 0;
    };
    // Compiles to a cubin for the exact architecture named in options. A refused source is a result, not an exception;
    // std::bad_alloc if NVRTC runs out of memory.
    Output compile(const Source& source) const;
    ~Nvrtc();

  private:
    Nvrtc();
    struct Api;
    std::unique_ptr<Api> api_;
};

}  // namespace autotune::gpu
