#pragma once

#include <cstddef>
#include <string>

#include "src/core/system/file_descriptor.h"

namespace autotune {

// The system's words for an errno, such as "Read-only file system".
std::string errno_text(int code);

// Makes a folder and its missing parents, each accessible to its owner only (0700). Returns 0, or the errno of the first folder
// that cannot be made; `failed_at` gets its path.
int make_private_folders(const std::string& folder, std::string* failed_at = nullptr);

// A new file in an existing folder with a unique name: `folder`/`prefix`.XXXXXX`suffix`, mode 0600. The name is random, because
// process ids repeat among containers that share a folder. If it cannot be made, the file is not open and errno is set.
struct TemporaryFile {
    FileDescriptor file;
    std::string path;
};
TemporaryFile make_temporary_file(const std::string& folder, const std::string& prefix, const std::string& suffix);

// Why a file of this many bytes cannot be kept in `folder`, in words, or "" if it can. It makes the folder and writes such a file
// in it, because only that detects read-only mounts, quotas and full disks. The file is removed.
std::string why_folder_not_writable(const std::string& folder, std::size_t bytes = 512);
// Makes the same check without making anything: it looks at the nearest folder that exists.
std::string why_folder_not_makeable(const std::string& folder);

// A user's home, or why our files cannot be kept in it.
struct Home {
    std::string path;     // without a slash at its end: empty for "/"
    std::string trouble;  // empty: the home can be used
};
// `value`: the variable HOME, empty if it is not set. A missing home is never made. A home of another user, which `sudo` and `su`
// may leave in HOME, is not used: files of this user there would lock its owner out.
Home usable_home(const std::string& value);

// This user's folder under /tmp, used if HOME cannot be: /tmp/autotune-UID. Never uses getpwuid: containers run under ids that no
// user has.
std::string fallback_home();
// Makes the folder. Returns why it cannot be used, empty if it can: under /tmp another user may have made the name first, so a
// link, another user's folder and one that others can enter are refused.
std::string make_fallback_home();
// Makes the same check without making the folder. A missing folder is no fault.
std::string why_fallback_home_is_unsafe();

}  // namespace autotune
