#include "db/integrity.h"

#include "db/listing.h"
#include "db/rows.h"
#include "db/schema.h"
#include "src/core/error.h"

namespace autotune::db {
namespace {

std::string one_text(Connection& connection, std::string_view sql) {
    Query query = connection.query(sql);
    return query.next() ? query.text() : std::string();
}

// First winner that the validators refuse, or whose device's columns do not make its key.
std::string winners_of(Connection& connection) {
    for (const std::int64_t id : ids_of(connection, Filter{})) {
        const auto row = read_winner(connection, id, Detail::full);
        if (row && row->wrong) return "winner in row " + std::to_string(id) + ": " + *row->wrong;
        if (!row) return "winner in row " + std::to_string(id) + " cannot be joined";
    }
    Query query = connection.query("SELECT key, cc_major, cc_minor, sm_count, l2_mib, memory_gib, bus_bits FROM device");
    while (query.next()) {
        const std::string key = query.text();
        DeviceIdentity device;
        for (int* field :
             {&device.cc_major, &device.cc_minor, &device.sm_count, &device.l2_mib, &device.memory_gib, &device.bus_bits}) {
            *field = query.small();
        }
        if (device.key() != key) return "device " + key + " has other columns than its key says";
    }
    return {};
}

}  // namespace

std::string describe_database(Connection& connection) {
    Query query = connection.query(
        "SELECT (SELECT count(*) FROM winner), (SELECT page_count * page_size / 1024 FROM pragma_page_count, pragma_page_size)");
    std::string text = "SQLite " + sqlite_version() + ", schema " + std::to_string(schema_version()) + ", journal " +
                       one_text(connection, "PRAGMA journal_mode");
    if (connection.is_read_only()) text += ", read-only";
    if (!query.next()) return text;
    text += ", " + std::to_string(query.integer()) + " winners";
    return text + ", " + std::to_string(query.integer()) + " KiB";
}

std::string quick_check_of(Connection& connection) {
    try {
        const std::string found = one_text(connection, "PRAGMA quick_check(1)");
        return found == "ok" ? std::string() : found;
    } catch (const Error& error) {
        return error.what();
    }
}

std::string integrity_of(Connection& connection) {
    const std::string damage = quick_check_of(connection);
    if (!damage.empty()) return damage;
    try {
        const std::string dangling = one_text(connection, "PRAGMA foreign_key_check");
        if (!dangling.empty()) return "a row of table " + dangling + " refers to one that is not there";
        return winners_of(connection);
    } catch (const Error& error) {
        return error.what();
    }
}

}  // namespace autotune::db
