#pragma once

#include <cstddef>
#include <string>

#include "src/core/system/file_descriptor.h"

namespace autotune {

// "Read-only file system": the system's words for an errno.
std::string errno_text(int code);

// Makes a folder and its missing parents, each for its owner alone (0700). 0, or the errno of what cannot be made; `failed_at`
// gets its path.
int make_private_folders(const std::string& folder, std::string* failed_at = nullptr);

// A new file in an existing folder with a name that nobody else has: `folder`/`prefix`.XXXXXX`suffix`, mode 0600. Random, because
// process ids repeat among containers that share a folder. Not open, with errno set, where it cannot be made.
struct TemporaryFile {
    FileDescriptor file;
    std::string path;
};
TemporaryFile make_temporary_file(const std::string& folder, const std::string& prefix, const std::string& suffix);

// Why a file of so many bytes cannot be kept in `folder`, in words; empty if it can. Makes the folder and writes such a file in
// it, for only that finds read-only mounts, quotas and full disks. The file is removed.
std::string why_folder_not_writable(const std::string& folder, std::size_t bytes = 512);
// The same as far as it can be known without making anything: looks at the nearest folder that exists.
std::string why_folder_not_makeable(const std::string& folder);

// A user's home, or why nothing of ours can be kept in it.
struct Home {
    std::string path;     // without a slash at its end: empty for "/"
    std::string trouble;  // empty: it can be used
};
// `value`: of the variable HOME, empty where it is not set. A home that is missing is never made, and one of another user, as
// `sudo` and `su` leave it, is not used: files of this user there would lock its owner out.
Home usable_home(const std::string& value);

// The folder of this user under /tmp that stands in for a HOME that cannot be used: /tmp/autotune-UID. Never getpwuid: containers
// run under ids that no user has.
std::string fallback_home();
// Makes it. Why it cannot be used, empty if it can: under /tmp somebody else may have been first, so a link, another user's
// folder and one that others can enter are refused.
std::string make_fallback_home();
// The same of one that is there already; a missing one is no trouble.
std::string why_fallback_home_is_unsafe();

}  // namespace autotune
