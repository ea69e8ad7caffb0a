#include "tools/cli/output/terminal/output_file.h"

#include "src/core/error.h"
#include "src/core/system/write_file.h"

namespace autotune::cli {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& flag, const std::string& why) {
    throw Error(ErrorCode::usage, "cannot write '" + path + "': " + why + "; choose another --" + flag);
}

}  // namespace

void require_writable(const std::string& path, const std::string& flag) {
    if (const std::error_code failed = why_not_writable(path)) refuse(path, flag, failed.message());
}

void write_output(const std::string& path, const std::string& text, const std::string& flag) {
    if (const std::error_code failed = replace_file(path, text))
        refuse(path, flag, failed.message() + (holds_something(path) ? ", what it held before is intact" : ""));
}

}  // namespace autotune::cli
