#include "tuner/fleet/store/libpq.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "src/gpu/shared_library.h"
#include "tuner/fleet/store/libpq_api.h"

namespace autotune::fleet {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStatusOk = 0;                                 // CONNECTION_OK
constexpr int kEmpty = 0, kCommand = 1, kTuples = 2;         // ExecStatusType
constexpr int kSqlState = 'C', kPrimary = 'M', kHint = 'H';  // PG_DIAG_*
constexpr std::array<const char*, 5> kConnectionStates = {"08", "57P", "25006", "53", "XX"};

std::string one_line(const char* text) {
    std::string line = text == nullptr ? "" : text;
    for (char& each : line)
        if (each == '\n' || each == '\t') each = ' ';
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

// Whether a statement that failed in this way may succeed on another connection: the server stops, is full or has become a
// standby.
bool ends_connection(const std::string& state) {
    for (const char* const each : kConnectionStates)
        if (state.starts_with(each)) return true;
    return false;
}

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char each : text) {
        if (each == '"' || each == '\\') result += '\\';
        result += each;
    }
    return result + "\"";
}

}  // namespace

// Loaded once; never closed.
struct Connection::Api : LibpqApi {};

const Connection::Api& Connection::api() {
    static const Api* const loaded = [] {
        std::string why;
        const auto library = gpu::SharedLibrary::open("libpq.so.5", &why);
        if (!library)
            throw Error(ErrorCode::system, "the fleet needs PostgreSQL's client library, which cannot be opened: " + why +
                                               "; install libpq5 (Debian) or libpq (conda, Fedora)");
        auto* const api = new Api;
        const bool has_all = library->find("PQconnectdbParams", api->connect) && library->find("PQfinish", api->finish) &&
                             library->find("PQstatus", api->status) && library->find("PQerrorMessage", api->error_message) &&
                             library->find("PQsocket", api->socket) && library->find("PQsetnonblocking", api->set_nonblocking) &&
                             library->find("PQsendQueryParams", api->send_parameters) &&
                             library->find("PQsendQuery", api->send) && library->find("PQflush", api->flush) &&
                             library->find("PQconsumeInput", api->consume) && library->find("PQisBusy", api->is_busy) &&
                             library->find("PQgetResult", api->result) && library->find("PQresultStatus", api->result_status) &&
                             library->find("PQresultErrorField", api->error_field) && library->find("PQclear", api->clear) &&
                             library->find("PQntuples", api->tuples) && library->find("PQnfields", api->fields) &&
                             library->find("PQgetvalue", api->value) && library->find("PQgetisnull", api->is_null) &&
                             library->find("PQgetlength", api->length);
        if (!has_all)
            throw Error(ErrorCode::system,
                        "libpq.so.5 lacks functions that the fleet calls; install PostgreSQL's libpq 12 or later");
        return api;
    }();
    return *loaded;
}

std::int64_t Rows::integer(std::size_t row, std::size_t column) const {
    return std::strtoll(text(row, column).c_str(), nullptr, 10);
}

double Rows::number(std::size_t row, std::size_t column) const {
    return std::strtod(text(row, column).c_str(), nullptr);
}

std::string array_of(const std::vector<std::int64_t>& values) {
    std::string text = "{";
    for (const std::int64_t each : values) text += (text.size() > 1 ? "," : "") + std::to_string(each);
    return text + "}";
}

std::string array_of(const std::vector<std::string>& values) {
    std::string text = "{";
    for (const std::string& each : values) text += (text.size() > 1 ? "," : "") + quoted(each);
    return text + "}";
}

Connection::Connection(const Options& options) : query_limit_(options.query_limit) {
    const Api& pq = api();
    const std::string limit = std::to_string(options.connect_limit.count());
    // The address comes last, so its own settings win.
    const std::array<const char*, 11> names = {"connect_timeout",
                                               "tcp_user_timeout",
                                               "keepalives_idle",
                                               "keepalives_interval",
                                               "keepalives_count",
                                               "fallback_application_name",
                                               "client_encoding",
                                               "target_session_attrs",
                                               "gssencmode",
                                               "dbname",
                                               nullptr};
    const std::array<const char*, 11> values = {limit.c_str(), "10000",
                                                "30",          "10",
                                                "3",           options.program.c_str(),
                                                "UTF8",        options.writes ? "read-write" : "any",
                                                "disable",     options.address.c_str(),
                                                nullptr};
    connection_ = pq.connect(names.data(), values.data(), 1);
    if (connection_ == nullptr) throw std::bad_alloc();
    if (pq.status(connection_) != kStatusOk) {
        const std::string why = last_message();
        pq.finish(connection_);
        throw StoreError("the store cannot be reached: " + why, "", true);
    }
    pq.set_nonblocking(connection_, 1);
}

Connection::~Connection() {
    if (connection_ != nullptr) api().finish(connection_);
}

std::string Connection::last_message() const {
    return one_line(api().error_message(connection_));
}

void Connection::lose(const std::string& why) {
    api().finish(connection_);
    connection_ = nullptr;
    throw StoreError("the connection to the store is lost: " + why, "", true);
}

void Connection::wait_for(short events, Clock::time_point until, const std::string& what) {
    while (true) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        if (left <= 0) lose("no answer to " + what + " within " + std::to_string(query_limit_.count()) + " s");
        pollfd fd{api().socket(connection_), events, 0};
        if (::poll(&fd, 1, static_cast<int>(left)) > 0) return;
        if (errno != EINTR && errno != 0 && errno != EAGAIN) lose(std::strerror(errno));
    }
}

Rows Connection::finish(const std::string& what) {
    const Api& pq = api();
    const auto until = Clock::now() + query_limit_;
    while (const int unsent = pq.flush(connection_)) {
        if (unsent < 0) lose(last_message());
        wait_for(POLLIN | POLLOUT, until, what);
        if (pq.consume(connection_) == 0) lose(last_message());
    }
    Rows rows;
    std::string failure, state;
    while (true) {
        while (pq.is_busy(connection_) != 0) {
            errno = 0;
            wait_for(POLLIN, until, what);
            if (pq.consume(connection_) == 0) lose(last_message());
        }
        void* const result = pq.result(connection_);
        if (result == nullptr) break;
        const int status = pq.result_status(result);
        if (status == kTuples) {
            rows.rows.clear();
            for (int row = 0; row < pq.tuples(result); ++row) {
                std::vector<Field>& fields = rows.rows.emplace_back();
                for (int column = 0; column < pq.fields(result); ++column) {
                    Field& field = fields.emplace_back();
                    if (pq.is_null(result, row, column) == 0)
                        field.emplace(pq.value(result, row, column), static_cast<std::size_t>(pq.length(result, row, column)));
                }
            }
        } else if (status != kCommand && status != kEmpty && failure.empty()) {
            state = one_line(pq.error_field(result, kSqlState));
            failure = one_line(pq.error_field(result, kPrimary));
            if (const std::string hint = one_line(pq.error_field(result, kHint)); !hint.empty()) failure += " (" + hint + ")";
            if (failure.empty()) failure = last_message();
        }
        pq.clear(result);
    }
    if (pq.status(connection_) != kStatusOk) lose(failure.empty() ? last_message() : failure);
    if (failure.empty()) return rows;
    if (ends_connection(state)) {
        pq.finish(connection_);
        connection_ = nullptr;
        throw StoreError("the store cannot answer now: " + failure, state, true);
    }
    throw StoreError("the store refuses " + what + ": " + failure, state, false);
}

Rows Connection::query(const std::string& sql, const std::vector<Field>& parameters) {
    if (connection_ == nullptr) throw StoreError("the connection to the store is lost", "", true);
    std::vector<const char*> values;
    for (const Field& each : parameters) values.push_back(each ? each->c_str() : nullptr);
    const std::string what = sql.substr(0, sql.find('('));
    if (api().send_parameters(connection_, sql.c_str(), static_cast<int>(values.size()), nullptr, values.data(), nullptr, nullptr,
                              0) == 0)
        lose(last_message());
    return finish(what);
}

void Connection::run(const std::string& sql) {
    if (connection_ == nullptr) throw StoreError("the connection to the store is lost", "", true);
    if (api().send(connection_, sql.c_str()) == 0) lose(last_message());
    finish("a change of the schema");
}

}  // namespace autotune::fleet
