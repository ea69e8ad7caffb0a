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
    // Search order: AUTOTUNE_NVRTC's value if given in `explicit_path`, then libnvrtc.so.13, .12 by the loader, then CUDA_PATH,
    // /usr/local/cuda, and `extra_folders` (a wheel's lib folder). Throws Error{no_gpu} listing what was looked for.
    struct Search {
        std::string explicit_path{};
        std::vector<std::string> extra_folders{};
        int driver_major = 0;
    };
    static std::shared_ptr<const Nvrtc> load(const Search& search);

    std::string version() const;  // "13.0"
    std::string path() const;     // where it was found
    bool has_own_cache() const;   // 12.9 and newer: --no-cache is known

    struct Source {
        std::string text{};
        std::string name{};                                          // for messages
        std::vector<std::pair<std::string, std::string>> headers{};  // name, text: the only files an #include can reach
        std::vector<std::string> options{};                          // from our allow-list alone
    };
    struct Output {
        bool ok = false;
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
