#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace autotune::test {

// A PostgreSQL server on a Unix socket in a temporary folder, run as an ordinary user. It ends with this process.
class PostgresServer {
  public:
    // The server of this process, started at the first call. REQUIRES: why_missing() is empty.
    static PostgresServer& shared();
    // Why there is no server, in one sentence; empty if there is one. With AUTOTUNE_REQUIRE_POSTGRES=1 a missing server ends the
    // process.
    static std::string why_missing();

    ~PostgresServer();
    PostgresServer(const PostgresServer&) = delete;
    PostgresServer& operator=(const PostgresServer&) = delete;

    // A new database; returns its name.
    std::string new_database();
    std::string address(const std::string& database, const std::string& role = "postgres") const;
    const std::string& folder() const { return folder_; }
    std::string socket_path() const { return folder_ + "/.s.PGSQL.5432"; }

    // Stops the server at once: everything in its memory is lost, as in a crash.
    void kill();
    void start();
    // Sends a signal to a random server process that is not the postmaster: SIGKILL makes the postmaster restart all of them.
    void kill_a_backend();
    pid_t pid() const { return pid_; }

    // Runs a program of PostgreSQL against this server; returns what it printed. Throws std::runtime_error if it fails.
    std::string run(const std::string& program, const std::vector<std::string>& arguments, const std::string& input = "") const;
    std::string sql(const std::string& database, const std::string& text) const;

  private:
    PostgresServer();
    pid_t spawn(const std::string& program, const std::vector<std::string>& arguments, int in, int out) const;

    std::string bin_, folder_;
    uid_t uid_ = 0;
    gid_t gid_ = 0;
    pid_t pid_ = -1;
    int databases_ = 0;
};

}  // namespace autotune::test
