#include "db/sqlite/sqlite_handle.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "db/sqlite/failure.h"
#include "src/core/error.h"

namespace autotune::db {
namespace {

constexpr int kOldestVersion = 3'037'000;  // STRICT tables

// A damaged or hostile file must not make SQLite work or allocate without bound; our own statements need far less.
constexpr std::array<std::pair<int, int>, 8> kLimits = {{
    {SQLITE_LIMIT_LENGTH, 1 << 24},
    {SQLITE_LIMIT_SQL_LENGTH, 100'000},
    {SQLITE_LIMIT_COLUMN, 100},
    {SQLITE_LIMIT_EXPR_DEPTH, 100},
    {SQLITE_LIMIT_FUNCTION_ARG, 16},
    {SQLITE_LIMIT_ATTACHED, 1},  // VACUUM INTO attaches its target database
    {SQLITE_LIMIT_VARIABLE_NUMBER, 100},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
}};

constexpr std::array<std::pair<int, int>, 6> kSwitches = {{
    {SQLITE_DBCONFIG_DEFENSIVE, 1},
    {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
    {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
    {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
    {SQLITE_DBCONFIG_DQS_DML, 0},
    {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
}};

}  // namespace

void StatementDeleter::operator()(sqlite3_stmt* raw) const noexcept {
    sqlite3_finalize(raw);
}

Query::Query(const Connection& connection, sqlite3_stmt* raw) : connection_(connection), raw_(raw) {}

Query::~Query() {
    sqlite3_reset(raw_);
    sqlite3_clear_bindings(raw_);
}

void Query::bound(int code) const {
    if (code != SQLITE_OK) connection_.fail(code);
}

Query& Query::bind(double value) {
    bound(sqlite3_bind_double(raw_, ++parameter_, value));
    return *this;
}

Query& Query::bind(std::string_view value) {
    const char* data = value.empty() ? "" : value.data();  // a null pointer would bind NULL
    bound(sqlite3_bind_text64(raw_, ++parameter_, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
    return *this;
}

Query& Query::bind_null() {
    bound(sqlite3_bind_null(raw_, ++parameter_));
    return *this;
}

Query& Query::bind_integer(std::int64_t value) {
    bound(sqlite3_bind_int64(raw_, ++parameter_, value));
    return *this;
}

bool Query::next() {
    column_ = 0;
    errno = 0;
    const int code = sqlite3_step(raw_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) connection_.fail(code);
    return false;
}

bool Query::is_null() const {
    return sqlite3_column_type(raw_, column_) == SQLITE_NULL;
}

std::int64_t Query::integer() {
    return sqlite3_column_int64(raw_, column_++);
}

int Query::small() {
    constexpr std::int64_t low = std::numeric_limits<int>::min();
    constexpr std::int64_t high = std::numeric_limits<int>::max();
    return static_cast<int>(std::clamp(integer(), low, high));
}

double Query::real() {
    return sqlite3_column_double(raw_, column_++);
}

std::string Query::text() {
    const void* data = sqlite3_column_blob(raw_, column_);
    const int size = sqlite3_column_bytes(raw_, column_++);
    return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), static_cast<std::size_t>(size));
}

std::optional<std::int64_t> Query::maybe_integer() {
    if (!is_null()) return integer();
    ++column_;
    return std::nullopt;
}

std::optional<double> Query::maybe_real() {
    if (!is_null()) return real();
    ++column_;
    return std::nullopt;
}

Connection::Connection(const ConnectionOptions& options) : options_(options) {
    if (sqlite3_libversion_number() < kOldestVersion) {
        throw Error(ErrorCode::database, "SQLite " + sqlite_version() + " is too old for database " + options_.path +
                                             ": 3.37 or newer is needed, install a newer libsqlite3");
    }
    // SQLite may be configured to read a leading "file:" as a URI. With "./" in front it is a file name.
    const bool looks_like_uri = options_.path.starts_with("file:");
    const std::string name = looks_like_uri ? "./" + options_.path : options_.path;
    const int mode = options_.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    errno = 0;
    const int code = sqlite3_open_v2(name.c_str(), &raw_, mode | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
    try {
        if (code != SQLITE_OK) fail(code);
        configure();
    } catch (...) {
        sqlite3_close_v2(raw_);
        throw;
    }
}

void Connection::configure() {
    sqlite3_busy_handler(raw_, &Connection::on_busy, this);
    for (const auto& [id, value] : kLimits) sqlite3_limit(raw_, id, value);
    for (const auto& [id, value] : kSwitches) sqlite3_db_config(raw_, id, value, nullptr);
    run("PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA foreign_keys=ON; PRAGMA synchronous=FULL; PRAGMA "
        "temp_store=MEMORY");
}

Connection::~Connection() {
    if (raw_ == nullptr) return;
    statements_.clear();
    sqlite3_close_v2(raw_);
}

void Connection::run(const char* sql) {
    errno = 0;
    const int code = sqlite3_exec(raw_, sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) fail(code);
}

Query Connection::query(std::string_view sql) {
    if (is_left_in_transaction_) {  // Writes of an unfinished transaction must not be read, nor committed with later ones.
        prepared("ROLLBACK").run();
        is_left_in_transaction_ = false;
    }
    return prepared(sql);
}

Query Connection::prepared(std::string_view sql) {
    auto found = statements_.find(sql);
    if (found == statements_.end()) {
        sqlite3_stmt* raw = nullptr;
        errno = 0;
        const int code =
            sqlite3_prepare_v3(raw_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
        if (code != SQLITE_OK) fail(code);
        found = statements_.emplace(sql, StatementHandle(raw)).first;
    }
    check(sqlite3_stmt_busy(found->second.get()) == 0, "a statement is used while it is in use");
    return Query(*this, found->second.get());
}

bool Connection::is_read_only() const {
    return sqlite3_db_readonly(raw_, "main") == 1;
}

bool Connection::in_transaction() const {
    return sqlite3_get_autocommit(raw_) == 0;
}

void Connection::begin(std::string_view sql) {
    (void)query("ROLLBACK");
    query(sql).run();
}

void Connection::roll_back() noexcept {
    if (!in_transaction()) return;  // SQLite rolls back some failures by itself
    try {
        prepared("ROLLBACK").run();
    } catch (...) {
        is_left_in_transaction_ = in_transaction();
    }
}

std::int64_t Connection::last_insert_id() const {
    return sqlite3_last_insert_rowid(raw_);
}

std::int64_t Connection::changes() const {
    return sqlite3_changes64(raw_);
}

void Connection::interrupt() const noexcept {
    sqlite3_interrupt(raw_);
}

void Connection::abandon() noexcept {
    for (auto& [sql, handle] : statements_) (void)handle.release();
    statements_.clear();
    raw_ = nullptr;
}

int Connection::system_errno(int code) const {
    if (raw_ == nullptr) return 0;
    if (const int known = sqlite3_system_errno(raw_)) return known;
    // After a failed COMMIT only the file object has the errno.
    int last = 0;
    const bool is_input_output = (code & 0xff) == SQLITE_IOERR;
    if (is_input_output) sqlite3_file_control(raw_, "main", SQLITE_FCNTL_LAST_ERRNO, &last);
    return last;
}

namespace {

// SQLite also reports busy if the system has no locks to give (ENOLCK), without keeping the errno. But the failed call's errno is
// still in the thread.
bool has_no_locks(int last_errno) {
    return last_errno == ENOLCK || last_errno == ENOSYS || last_errno == EOPNOTSUPP;
}

}  // namespace

int Connection::on_busy(void* connection, int tries) noexcept {
    if (has_no_locks(errno)) return 0;  // waiting does not help
    constexpr std::array<int, 9> kPauses_ms = {1, 2, 5, 10, 15, 20, 25, 50, 100};
    Connection& self = *static_cast<Connection*>(connection);
    if (tries == 0) self.waited_ms_ = 0;
    const int left_ms = self.options_.busy_timeout_ms - self.waited_ms_;
    if (left_ms <= 0) return 0;
    const int pause_ms = std::min(left_ms, kPauses_ms[std::min(static_cast<std::size_t>(tries), kPauses_ms.size() - 1)]);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    self.waited_ms_ += pause_ms;
    errno = 0;
    return 1;
}

int Connection::lock_errno(int code, int last_errno) {
    return (code & 0xff) == SQLITE_BUSY && has_no_locks(last_errno) ? last_errno : 0;
}

void Connection::fail(int code) const {
    const int last_errno = errno;
    throw database_error({.path = options_.path,
                          .code = code,
                          .system_errno = system_errno(code),
                          .lock_errno = lock_errno(code, last_errno),
                          .detail = raw_ == nullptr ? "" : sqlite3_errmsg(raw_),
                          .busy_timeout_ms = options_.busy_timeout_ms});
}

Snapshot::Snapshot(Connection& connection) : connection_(connection) {
    connection_.begin("BEGIN");
}

Snapshot::~Snapshot() {
    connection_.roll_back();
}

Transaction::Transaction(Connection& connection) : connection_(connection) {
    connection_.begin("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
    if (open_) connection_.roll_back();
}

void Transaction::commit() {
    connection_.query("COMMIT").run();
    open_ = false;
}

InterruptWhen::InterruptWhen(const Connection& connection, std::function<bool()> stopped) {
    if (!stopped) return;
    thread_ = std::thread([this, &connection, stopped = std::move(stopped)] { watch(connection, stopped); });
}

InterruptWhen::~InterruptWhen() {
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    ended_.notify_all();
    if (thread_.joinable()) thread_.join();
}

// Interrupts repeatedly, because SQLite drops an interrupt if no statement is running.
void InterruptWhen::watch(const Connection& connection, const std::function<bool()>& stopped) {
    constexpr std::chrono::milliseconds kPause{20};
    std::unique_lock lock(mutex_);
    while (!is_over_) {
        if (stopped()) {
            has_interrupted_ = true;
            connection.interrupt();
        }
        ended_.wait_for(lock, kPause);
    }
}

std::string sqlite_version() {
    return sqlite3_libversion();
}

}  // namespace autotune::db
