#include "db/store/integrity.h"

#include "db/sqlite/orphans.h"
#include "db/sqlite/schema.h"
#include "db/store/listing.h"
#include "db/store/rows.h"
#include "src/core/error.h"
#include "src/core/problem/device_key.h"

namespace autotune::db {
namespace {

std::string one_text(Connection& connection, std::string_view sql) {
    Query query = connection.query(sql);
    return query.next() ? query.text() : std::string();
}

void note(FileHealth& health, const std::string& example) {
    if (health.example.empty()) health.example = example;
}

// Calls `use` with each winner that the validators refuse. Does not check for orphans.
template <class Use>
void each_invalid(Connection& connection, const Use& use) {
    for (const std::int64_t id : ids_of(connection, Filter{})) {
        const auto row = read_winner(connection, id, Detail::full);
        if (row && row->wrong) use(id, *row->wrong);
    }
}

// A device whose columns do not match its key; empty if there is none.
std::string forged_device(Connection& connection) {
    Query query = connection.query("SELECT key, cc_major, cc_minor, sm_count, l2_mib, memory_gib, bus_bits FROM device");
    while (query.next()) {
        const std::string key = query.text();
        DeviceIdentity device;
        for (int* field :
             {&device.cc_major, &device.cc_minor, &device.sm_count, &device.l2_mib, &device.memory_gib, &device.bus_bits}) {
            *field = query.small();
        }
        if (device.key() != todays_device_key(key)) return "device " + key + " has other columns than its key says";
    }
    return {};
}

void look_at_rows(Connection& connection, FileHealth& health) {
    const Orphans orphans = count_orphans(connection);
    health.orphans = orphans.count;
    if (orphans.count > 0) note(health, "a row of table " + orphans.table + " refers to one that is not there");
    each_invalid(connection, [&](std::int64_t id, const std::string& why) {
        ++health.invalid;
        note(health, "winner in row " + std::to_string(id) + ": " + why);
    });
}

}  // namespace

std::string describe_database(Connection& connection) {
    Query query = connection.query("SELECT page_count * page_size / 1024 FROM pragma_page_count, pragma_page_size");
    std::string text = "SQLite " + sqlite_version() + ", schema " + std::to_string(schema_version()) + ", journal " +
                       one_text(connection, "PRAGMA journal_mode");
    if (!query.next()) return text;
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

FileHealth health_of(Connection& connection) {
    FileHealth health{.damage = quick_check_of(connection)};
    if (!health.damage.empty()) return health;
    try {
        look_at_rows(connection, health);
        health.damage = forged_device(connection);
    } catch (const Error& error) {
        health.damage = error.what();
    }
    return health;
}

std::int64_t remove_invalid(Connection& connection) {
    std::vector<std::int64_t> ids;
    each_invalid(connection, [&](std::int64_t id, const std::string&) { ids.push_back(id); });
    for (const std::int64_t id : ids) connection.query("DELETE FROM winner WHERE id = ?1").bind(id).run();
    return static_cast<std::int64_t>(ids.size());
}

}  // namespace autotune::db
