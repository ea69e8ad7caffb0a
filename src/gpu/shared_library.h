#pragma once

#include <optional>
#include <string>

namespace autotune::gpu {

// A library opened with dlopen and never closed, because its threads, atexit handlers and thread-locals may outlive our objects.
class SharedLibrary {
  public:
    // `name_or_path` as for dlopen. nullopt if the loader refuses; `why`, if given, then holds the loader's message.
    static std::optional<SharedLibrary> open(const std::string& name_or_path, std::string* why = nullptr);

    // Address of an exported symbol, nullptr if there is none.
    void* symbol(const char* name) const;
    // Sets `function` from an exported symbol; false (and nullptr) if there is none.
    template <typename F>
    bool find(const char* name, F*& function) const {
        function = reinterpret_cast<F*>(symbol(name));
        return function != nullptr;
    }
    // The file that the loader chose.
    std::string path() const;

  private:
    explicit SharedLibrary(void* handle) : handle_(handle) {}
    void* handle_ = nullptr;
};

}  // namespace autotune::gpu
