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
    // `explicit_path` alone if it is given (AUTOTUNE_NVRTC's value); else libnvrtc.so.13, then .12, each by the loader first and
    // then in `folders` (library_folders.h). Also opens the builtins library that lies beside the one found: NVRTC opens it by
    // name, which the loader resolves for a toolkit in its path, not for a pip package. Throws Error{no_compiler} listing what
    // was looked for; where all that was found is newer than the driver, it names that and what to install.
    struct Search {
        std::string explicit_path{};
        std::vector<std::string> folders{};
        int driver_major = 0;
    };
    static std::shared_ptr<const Nvrtc> load(const Search& search);

    std::string version() const;  // "13.0"
    std::string path() const;     // file from which it was loaded
    bool has_own_cache() const;   // 12.9 and newer: --no-cache is known

    struct Source {
        std::string text{};
        std::string name{};                                          // for messages
        std::vector<std::pair<std::string, std::string>> headers{};  // name, text: the only files an #include can reach
        std::vector<std::string> options{};                          // from our allow-list alone
    };
    struct Output {
        bool ok = false;
        // Whether another try would end alike: it compiled, or the source itself was refused. False where the compiler failed by
        // what it lacks: memory, its builtins, a file.
        bool is_verdict = false;
        std::vector<std::byte> cubin;
        std::string log;
        double milliseconds = 0;
    };
    // Compiles to a cubin for the exact architecture named in options. A refused source is a result, not an
    // exception; std::bad_alloc where NVRTC finds no memory.
    Output compile(const Source& source) const;
    ~Nvrtc();

  private:
    Nvrtc();
    struct Api;
    std::unique_ptr<Api> api_;
};

}  // namespace autotune::gpu
