#pragma once

#include <sqlite3.h>

#include <functional>

namespace autotune::db::test {

enum class Fault {
    once,      // one operation fails, later ones work: a bad sector
    from_now,  // all operations fail from then on, as on a disk that is gone or before a process dies
    full,      // writes report a full disk from then on
};

// SQLite's default file layer with operations that fail on demand, during the lifetime of the object. One at a time.
class FaultVfs {
  public:
    FaultVfs();
    ~FaultVfs();
    FaultVfs(const FaultVfs&) = delete;
    FaultVfs& operator=(const FaultVfs&) = delete;

    // Lets `operations` operations (open, read, write, sync, truncate, delete) succeed, and then fails.
    void arm(int operations, Fault fault);
    // Makes everything work again. Returns whether anything failed since arm().
    bool disarm();

  private:
    sqlite3_vfs* previous_ = nullptr;
    sqlite3_vfs shim_{};
};

}  // namespace autotune::db::test
