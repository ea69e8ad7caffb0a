#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>

// Thin owners of SQLite objects. Only the sources in this folder include sqlite3.h.
struct sqlite3;
struct sqlite3_stmt;

namespace autotune::db {

class Connection;

struct StatementDeleter {
    void operator()(sqlite3_stmt* raw) const noexcept;
};
using StatementHandle = std::unique_ptr<sqlite3_stmt, StatementDeleter>;

// A prepared statement on loan from its connection: bind, step, read. Reset when it goes out of scope, so that no read lock
// outlives the call that needed it.
class Query {
  public:
    Query(const Connection& connection, sqlite3_stmt* raw);
    ~Query();
    Query(const Query&) = delete;
    Query& operator=(const Query&) = delete;

    // Binds the next parameter; all are bound in the order of their ?N.
    Query& bind(double value);
    Query& bind(std::string_view value);
    Query& bind_null();
    template <class T>
    requires std::is_integral_v<T> Query& bind(T value) { return bind_integer(static_cast<std::int64_t>(value)); }
    template <class T>
    Query& bind(const std::optional<T>& value) {
        return value ? bind(*value) : bind_null();
    }
    template <class... T>
    Query& bind_all(const T&... values) {
        (bind(values), ...);
        return *this;
    }

    // True while there is a row. Throws Error{database}.
    bool next();
    // Steps a statement that returns nothing.
    void run() { (void)next(); }

    // Columns are read from left to right; each call reads the next one.
    std::int64_t integer();
    int small();  // clamped to int, because a damaged file may hold any number
    double real();
    std::string text();
    std::optional<std::int64_t> maybe_integer();
    std::optional<double> maybe_real();

  private:
    Query& bind_integer(std::int64_t value);
    void bound(int code) const;
    bool is_null() const;

    const Connection& connection_;
    sqlite3_stmt* raw_;
    int parameter_ = 0;
    int column_ = 0;
};

struct ConnectionOptions {
    std::string path;  // the path as the user wrote it, or ":memory:"
    bool read_only = false;
    int busy_timeout_ms = 0;
};

// One open database with defensive settings. Not thread-safe. Every failure is a DatabaseError made by database_error().
class Connection {
  public:
    explicit Connection(const ConnectionOptions& options);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // Runs one or more statements without results or parameters. REQUIRES: `sql` is a literal of ours, never input.
    void run(const char* sql);
    // REQUIRES: `sql` is a literal of ours (it is the key of the cache of prepared statements) and not in use now.
    Query query(std::string_view sql);

    bool is_read_only() const;
    bool in_transaction() const;
    // BEGIN or BEGIN IMMEDIATE.
    void begin(std::string_view sql);
    // Ends a transaction, if there is one. begin() has prepared the statement; if SQLite still has no memory for it, the next
    // query() ends the transaction.
    void roll_back() noexcept;
    std::int64_t last_insert_id() const;
    std::int64_t changes() const;
    const std::string& path() const { return options_.path; }
    const ConnectionOptions& options() const { return options_; }

    // Makes a statement that another thread runs on the connection fail.
    void interrupt() const noexcept;

    // Drops the handle without touching the file or its locks. A forked child calls this, because the handle is the parent's.
    void abandon() noexcept;

    // Throws DatabaseError for an SQLite result code.
    [[noreturn]] void fail(int code) const;

  private:
    Query prepared(std::string_view sql);
    void configure();
    int system_errno(int code) const;
    // Waits briefly for a lock that another process holds; does not wait if the file system has no locks to give.
    static int on_busy(void* connection, int tries) noexcept;
    static int lock_errno(int code, int last_errno);

    ConnectionOptions options_;
    sqlite3* raw_ = nullptr;
    int waited_ms_ = 0;                    // for the current lock
    bool is_left_in_transaction_ = false;  // roll_back() failed
    std::map<std::string_view, StatementHandle> statements_;
};

// Gives several reads one state of the file and one lock instead of many. It ends with the scope.
class Snapshot {
  public:
    explicit Snapshot(Connection& connection);
    ~Snapshot();
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;

  private:
    Connection& connection_;
};

// BEGIN IMMEDIATE now, ROLLBACK at the end of the scope unless committed.
class Transaction {
  public:
    explicit Transaction(Connection& connection);
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void commit();

  private:
    Connection& connection_;
    bool open_ = true;
};

// During its lifetime, a running statement of the connection ends with a DatabaseError soon after `stopped` returns true.
// `stopped` is called 50 times a second, on a thread of its own. REQUIRES: the connection outlives it.
class InterruptWhen {
  public:
    InterruptWhen(const Connection& connection, std::function<bool()> stopped);  // empty: never
    ~InterruptWhen();
    InterruptWhen(const InterruptWhen&) = delete;
    InterruptWhen& operator=(const InterruptWhen&) = delete;
    bool has_interrupted() const { return has_interrupted_; }

  private:
    void watch(const Connection& connection, const std::function<bool()>& stopped);

    std::mutex mutex_;
    std::condition_variable ended_;
    bool is_over_ = false;
    std::atomic<bool> has_interrupted_ = false;
    std::thread thread_;
};

std::string sqlite_version();

}  // namespace autotune::db
