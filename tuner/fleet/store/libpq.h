#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/core/error.h"

namespace autotune::fleet {

// A failure of the store. After a `lost` one the connection is gone, and the same call may succeed on a new one.
class StoreError : public Error {
  public:
    StoreError(const std::string& message, std::string sqlstate, bool lost)
        : Error(ErrorCode::database, message), sqlstate_(std::move(sqlstate)), lost_(lost) {}
    // Five characters; empty: the server did not answer.
    const std::string& sqlstate() const { return sqlstate_; }
    bool lost() const { return lost_; }

  private:
    std::string sqlstate_;
    bool lost_;
};

// A parameter or a field; nullopt is NULL.
using Field = std::optional<std::string>;

struct Rows {
    std::vector<std::vector<Field>> rows;
    bool empty() const { return rows.empty(); }
    // REQUIRES: both exist. NULL is "".
    std::string text(std::size_t row, std::size_t column) const { return rows.at(row).at(column).value_or(""); }
    std::int64_t integer(std::size_t row, std::size_t column) const;
    double number(std::size_t row, std::size_t column) const;
};

// '{1,2}' and '{"a","b"}': arrays as parameters.
std::string array_of(const std::vector<std::int64_t>& values);
std::string array_of(const std::vector<std::string>& values);

// A connection to PostgreSQL by libpq.so.5, which is opened when the first one is made. No call waits longer than its limit,
// whatever the server or the network does.
class Connection {
  public:
    struct Options {
        // "postgresql://...", or "name=value ..." as libpq takes it; libpq's variables, service file and password file fill in
        // what it leaves out.
        std::string address;
        std::string program = "autotune";  // shown in pg_stat_activity
        bool writes = true;                // refuse a server that only reads, such as a standby
        std::chrono::seconds connect_limit{5}, query_limit{15};
    };
    // Throws StoreError; Error{system} if there is no libpq.
    explicit Connection(const Options& options);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // One statement with parameters.
    Rows query(const std::string& sql, const std::vector<Field>& parameters = {});
    // Statements without parameters, separated by semicolons.
    void run(const std::string& sql);

  private:
    struct Api;
    static const Api& api();
    Rows finish(const std::string& what);
    [[noreturn]] void lose(const std::string& why);
    std::string last_message() const;
    void wait_for(short events, std::chrono::steady_clock::time_point until, const std::string& what);

    void* connection_ = nullptr;
    std::chrono::seconds query_limit_;
};

}  // namespace autotune::fleet
