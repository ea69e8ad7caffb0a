#pragma once

#include <sqlite3.h>

#include <functional>

namespace autotune::db::test {

enum class Fault {
    once,      // one operation fails, later ones work: a bad sector
    from_now,  // all fail from then on: a disk that is gone, or a process that is about to die
    full,      // writes say that the disk is full from then on
};

// SQLite's default file layer with operations that fail on demand, for as long as the object lives. One at a time.
class FaultVfs {
  public:
    FaultVfs();
    ~FaultVfs();
    FaultVfs(const FaultVfs&) = delete;
    FaultVfs& operator=(const FaultVfs&) = delete;

    // Lets `operations` opens, reads, writes, syncs, cuts and deletes pass, and then fails.
    void arm(int operations, Fault fault);
    // Everything works again. Whether anything failed since arm().
    bool disarm();

  private:
    sqlite3_vfs* previous_ = nullptr;
    sqlite3_vfs shim_{};
};

}  // namespace autotune::db::test
