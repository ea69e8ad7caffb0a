#pragma once

#include <unistd.h>

#include <memory>

#include "db/sqlite/sqlite_handle.h"
#include "db/sqlite/warning_log.h"
#include "db/winner_store.h"

namespace autotune::db {

// The connection of one store: opened as its options say, opened again in a forked child, and usable again after another process
// died in the middle of a write. Throws DatabaseError.
class OpenFile {
  public:
    // Keeps a reference to the log.
    OpenFile(const OpenOptions& options, WarningLog& log);
    ~OpenFile();
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    // This process's own connection. A forked child drops its parent's without touching the file.
    Connection& use();
    bool is_forked_child() const;
    bool is_read_only() const { return read_only_; }
    const std::string& path() const { return options_.path; }

    // Runs body(use()), and once more if an unfinished transaction stopped it and has been rolled back. REQUIRES: body may run
    // twice.
    template <class Body>
    auto reading(const Body& body) {
        try {
            return body(use());
        } catch (const DatabaseError& error) {
            if (error.fault() != DatabaseFault::unfinished || !roll_back_unfinished()) throw;
        }
        return body(use());
    }

  private:
    void connect();
    void open_handle();
    void open_or_fall_back();
    bool stands_in_for_missing() const;
    bool roll_back_unfinished();
    void bring_rows_up_to_date(Connection& connection);

    OpenOptions options_;
    WarningLog& log_;
    bool read_only_ = false;
    std::unique_ptr<Connection> connection_;
    pid_t owner_ = ::getpid();
};

}  // namespace autotune::db
