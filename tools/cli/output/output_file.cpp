#include "tools/cli/output/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/core/error.h"

namespace autotune::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& flag) {
    throw Error(ErrorCode::usage, "cannot write '" + path + "': " + std::strerror(errno) + "; choose another --" + flag);
}

}  // namespace

void require_writable(const std::string& path, const std::string& flag) {
    std::error_code unknown;
    const bool is_new = !std::filesystem::exists(std::filesystem::symlink_status(path, unknown));
    if (!std::ofstream(path, std::ios::app)) refuse(path, flag);
    if (is_new) std::filesystem::remove(path, unknown);
}

void write_output(const std::string& path, const std::string& text, const std::string& flag) {
    std::ofstream file(path, std::ios::trunc);
    file << text;
    file.close();
    if (!file) refuse(path, flag);
}

}  // namespace autotune::cli
