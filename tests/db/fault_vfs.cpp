#include "tests/db/fault_vfs.h"

#include <cstring>
#include <new>

namespace autotune::db::test {
namespace {

// The state is global, because SQLite's callbacks have no user argument.
struct State {
    sqlite3_vfs* real = nullptr;
    bool armed = false;
    int left = 0;
    Fault fault = Fault::once;
    bool fired = false;
} state;

bool fails(bool is_write) {
    if (!state.armed) return false;
    if (state.left > 0) {
        --state.left;
        return false;
    }
    if (state.fault == Fault::full && !is_write) return false;
    if (state.fault == Fault::once && state.fired) return false;
    state.fired = true;
    return true;
}

struct File {
    sqlite3_file base;
    sqlite3_file* real;
};

sqlite3_file* real_of(sqlite3_file* file) {
    return reinterpret_cast<File*>(file)->real;
}

int close_file(sqlite3_file* file) {
    return real_of(file)->pMethods->xClose(real_of(file));
}

int read_file(sqlite3_file* file, void* data, int size, sqlite3_int64 at) {
    if (fails(false)) return SQLITE_IOERR_READ;
    return real_of(file)->pMethods->xRead(real_of(file), data, size, at);
}

// If a write fails, it has written half of its data.
int write_file(sqlite3_file* file, const void* data, int size, sqlite3_int64 at) {
    if (!fails(true)) return real_of(file)->pMethods->xWrite(real_of(file), data, size, at);
    if (state.fault == Fault::full) return SQLITE_FULL;
    real_of(file)->pMethods->xWrite(real_of(file), data, size / 2, at);
    return SQLITE_IOERR_WRITE;
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
    if (fails(false)) return SQLITE_IOERR_TRUNCATE;
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

int sync_file(sqlite3_file* file, int flags) {
    if (fails(false)) return SQLITE_IOERR_FSYNC;
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}
int lock_file(sqlite3_file* file, int level) {
    return real_of(file)->pMethods->xLock(real_of(file), level);
}
int unlock_file(sqlite3_file* file, int level) {
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}
int is_reserved(sqlite3_file* file, int* result) {
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), result);
}
int control_file(sqlite3_file* file, int op, void* argument) {
    return real_of(file)->pMethods->xFileControl(real_of(file), op, argument);
}
int sector_size(sqlite3_file* file) {
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}
int characteristics(sqlite3_file*) {
    return 0;
}  // A disk that promises nothing is the worst case.

constexpr sqlite3_io_methods kMethods = {.iVersion = 1,
                                         .xClose = close_file,
                                         .xRead = read_file,
                                         .xWrite = write_file,
                                         .xTruncate = truncate_file,
                                         .xSync = sync_file,
                                         .xFileSize = file_size,
                                         .xLock = lock_file,
                                         .xUnlock = unlock_file,
                                         .xCheckReservedLock = is_reserved,
                                         .xFileControl = control_file,
                                         .xSectorSize = sector_size,
                                         .xDeviceCharacteristics = characteristics,
                                         .xShmMap = nullptr,
                                         .xShmLock = nullptr,
                                         .xShmBarrier = nullptr,
                                         .xShmUnmap = nullptr,
                                         .xFetch = nullptr,
                                         .xUnfetch = nullptr};

int open_file(sqlite3_vfs*, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
    file->pMethods = nullptr;
    if (fails(false)) return SQLITE_CANTOPEN;
    auto* const wrapped = new (file) File{};
    wrapped->real = reinterpret_cast<sqlite3_file*>(wrapped + 1);
    const int code = state.real->xOpen(state.real, name, wrapped->real, flags, out_flags);
    if (wrapped->real->pMethods != nullptr) wrapped->base.pMethods = &kMethods;
    return code;
}

int delete_file(sqlite3_vfs*, const char* name, int sync_folder) {
    if (fails(false)) return SQLITE_IOERR_DELETE;
    return state.real->xDelete(state.real, name, sync_folder);
}

}  // namespace

FaultVfs::FaultVfs() : previous_(sqlite3_vfs_find(nullptr)) {
    state = {};
    state.real = previous_;
    shim_ = *previous_;
    shim_.zName = "autotune-faults";
    shim_.pNext = nullptr;
    shim_.szOsFile = static_cast<int>(sizeof(File)) + previous_->szOsFile;
    shim_.xOpen = open_file;
    shim_.xDelete = delete_file;
    sqlite3_vfs_register(&shim_, 1);
}

FaultVfs::~FaultVfs() {
    sqlite3_vfs_unregister(&shim_);
    sqlite3_vfs_register(previous_, 1);
}

void FaultVfs::arm(int operations, Fault fault) {
    state.armed = true;
    state.left = operations;
    state.fault = fault;
    state.fired = false;
}

bool FaultVfs::disarm() {
    state.armed = false;
    return state.fired;
}

}  // namespace autotune::db::test
