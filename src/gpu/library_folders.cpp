#include "src/gpu/library_folders.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

namespace autotune::gpu {
namespace {

namespace fs = std::filesystem;

// The entries of a folder, or none if it cannot be read. std::filesystem's iterator is not used, because without memory it ends
// the program instead of throwing.
std::vector<std::string> names_in(const fs::path& folder) {
    struct Closer {
        void operator()(DIR* open) const { ::closedir(open); }
    };
    const std::unique_ptr<DIR, Closer> open(::opendir(folder.c_str()));
    std::vector<std::string> names;
    if (open == nullptr) return names;
    while (const dirent* entry = ::readdir(open.get())) names.emplace_back(entry->d_name);
    return names;
}

// Folders in `parent` whose names are `prefix` and a number, the highest number first: cu13 before cu12, python3.11 before
// python3.9.
std::vector<fs::path> numbered_folders(const fs::path& parent, std::string_view prefix) {
    std::vector<std::pair<int, fs::path>> found;
    for (const std::string& name : names_in(parent)) {
        if (!name.starts_with(prefix)) continue;
        int number = -1;
        const auto [rest, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
        if (error == std::errc{} && rest == name.data() + name.size()) found.emplace_back(-number, parent / name);
    }
    std::sort(found.begin(), found.end());
    std::vector<fs::path> folders;
    for (auto& [number, path] : found) folders.push_back(std::move(path));
    return folders;
}

bool belongs_to_us(const fs::path& folder) {
    struct stat facts = {};
    return ::stat(folder.c_str(), &facts) == 0 && facts.st_uid == ::geteuid();
}

class FolderList {
  public:
    explicit FolderList(std::string root) : root_(std::move(root)) {}

    void add(const fs::path& folder) {
        std::error_code ignored;
        if (!fs::is_directory(folder, ignored)) return;
        const std::string text = folder.string();
        if (std::find(folders_.begin(), folders_.end(), text) == folders_.end()) folders_.push_back(text);
    }

    void add_toolkit(const fs::path& toolkit) {
        for (const char* folder : {"lib64", "targets/x86_64-linux/lib", "lib"}) add(toolkit / folder);
    }

    // Adds the folders of pip's CUDA packages. Since 13.0 there is one folder per release, before that one per package.
    void add_packages(const fs::path& packages) {
        const fs::path nvidia = packages / "nvidia";
        for (const fs::path& release : numbered_folders(nvidia, "cu")) add(release / "lib");
        for (const char* package : {"cuda_nvrtc", "cublas"}) add(nvidia / package / "lib");
    }

    // The package folders of an installation of Python: PREFIX/lib/python3.11/site-packages and Debian's dist-packages.
    void add_python(const fs::path& prefix) {
        for (const char* lib : {"lib", "lib64"}) {
            std::vector<fs::path> versions = numbered_folders(prefix / lib, "python3.");
            versions.push_back(prefix / lib / "python3");
            for (const fs::path& version : versions) {
                add_packages(version / "site-packages");
                add_packages(version / "dist-packages");
            }
        }
    }

    // The installation that the first python3 on the path belongs to. This is the folder as named (a virtual environment), the
    // one it links to, or any of pyenv's if the name is a pyenv shim.
    void add_python_on_path(std::string_view path) {
        while (!path.empty()) {
            const std::size_t colon = std::min(path.find(':'), path.size());
            const fs::path folder(path.substr(0, colon));
            path.remove_prefix(std::min(colon + 1, path.size()));
            const fs::path python = folder / "python3";
            if (!folder.is_absolute() || ::access(python.c_str(), X_OK) != 0) continue;
            add_python(folder.parent_path());
            std::error_code error;
            const fs::path real = fs::canonical(python, error);
            if (!error) add_python(real.parent_path().parent_path());
            if (folder.filename() == "shims") add_pyenv(folder.parent_path() / "versions");
            return;
        }
    }

    void add_system() {
        for (const char* prefix : {"/usr/local", "/usr"}) add_python(root_ + prefix);
    }

    std::vector<std::string> take() { return std::move(folders_); }

  private:
    void add_pyenv(const fs::path& versions) {
        std::vector<std::string> names = names_in(versions);
        std::sort(names.rbegin(), names.rend());
        for (const std::string& name : names) {
            if (!name.starts_with('.')) add_python(versions / name);
        }
    }

    std::string root_;
    std::vector<std::string> folders_;
};

}  // namespace

std::vector<std::string> library_folders(const EnvironmentVariable& variable, const std::string& root) {
    // Relative folders are left out, because they would depend on the process's working folder.
    const auto absolute = [&](const char* name) -> std::string {
        const char* value = variable(name);
        return value != nullptr && *value == '/' ? value : "";
    };
    FolderList list(root);
    for (const char* name : {"CUDA_PATH", "CUDA_HOME"}) {
        if (const std::string toolkit = absolute(name); !toolkit.empty()) list.add_toolkit(toolkit);
    }
    if (const std::string prefix = absolute("VIRTUAL_ENV"); !prefix.empty()) list.add_python(prefix);
    if (const std::string prefix = absolute("CONDA_PREFIX"); !prefix.empty()) {
        list.add(prefix + "/lib");
        list.add_python(prefix);
    }
    for (const char* toolkit : {"/usr/local/cuda", "/opt/cuda"}) list.add_toolkit(root + toolkit);
    if (const char* path = variable("PATH"); path != nullptr) list.add_python_on_path(path);
    if (const std::string home = absolute("HOME"); !home.empty() && belongs_to_us(home)) list.add_python(home + "/.local");
    list.add_system();
    return list.take();
}

}  // namespace autotune::gpu
