#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "src/core/error.h"

namespace autotune::test::host_cuda {

// A folder that is removed with all that is in it.
class ScratchFolder {
  public:
    ScratchFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "host_cuda_XXXXXX").string();
        check(::mkdtemp(name.data()) != nullptr, "no temporary folder can be made: " + name);
        path_ = name;
    }
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    void write(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream(path_ / name, std::ios::binary) << text;
    }
    std::string read(const std::string& name) const {
        std::ostringstream text;
        text << std::ifstream(path_ / name, std::ios::binary).rdbuf();
        return text.str();
    }
    // Runs a command in the folder, with its output in the file "said"; returns whether it succeeded.
    bool try_run(const std::string& command) const {
        return std::system(("cd '" + path_.string() + "' && " + command + " > said 2>&1").c_str()) == 0;
    }
    // Throws with the command's output if it fails.
    void run(const std::string& command) const {
        if (!try_run(command)) throw Error(ErrorCode::usage, command + " failed:\n" + read("said"));
    }
    std::string file(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

}  // namespace autotune::test::host_cuda
