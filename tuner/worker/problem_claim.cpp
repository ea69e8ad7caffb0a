#include "tuner/worker/problem_claim.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "src/catalogue/hash.h"
#include "src/core/system/private_folder.h"

namespace autotune::tuner {
namespace {

std::string path_of(const std::string& folder, const std::string& what) {
    Hash hash;
    hash.field(what);
    const Hash::Digest digest = hash.digest();
    return folder + "/claim-" + to_hex(std::span(digest).first(16));
}

// Whether this is still the file at the path. Its holder deletes the file before releasing it.
bool is_at(const FileDescriptor& file, const std::string& path) {
    struct stat held {
    }, named{};
    return ::fstat(file.get(), &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

}  // namespace

ProblemClaim::ProblemClaim(ProblemClaim&& other) noexcept
    : path_(std::exchange(other.path_, "")), file_(std::move(other.file_)) {}

ProblemClaim& ProblemClaim::operator=(ProblemClaim&& other) noexcept {
    if (this == &other) return *this;
    release();
    path_ = std::exchange(other.path_, "");
    file_ = std::move(other.file_);
    return *this;
}

ProblemClaim::~ProblemClaim() {
    release();
}

void ProblemClaim::release() {
    if (file_.open()) ::unlink(path_.c_str());
    (void)file_.close();
}

std::optional<ProblemClaim> ProblemClaim::try_take(const std::string& folder, const std::string& what) {
    ProblemClaim claim;
    if (folder.empty() || make_private_folders(folder) != 0) return claim;
    const std::string path = path_of(folder, what);
    for (int attempt = 0; attempt < 8; ++attempt) {
        FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
        if (!file.open()) return claim;
        int result = 0;
        do result = ::flock(file.get(), LOCK_EX | LOCK_NB);
        while (result != 0 && errno == EINTR);
        if (result != 0 && errno == EWOULDBLOCK) return std::nullopt;
        if (result != 0) return claim;
        if (!is_at(file, path)) continue;  // the holder deleted the file between our two calls
        claim.path_ = path;
        claim.file_ = std::move(file);
        break;
    }
    return claim;
}

}  // namespace autotune::tuner
