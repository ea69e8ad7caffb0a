#include "db/sqlite/orphans.h"

#include <array>

namespace autotune::db {
namespace {

// Parents come before their children, because deleting a winner also deletes its evidence.
constexpr std::array<const char*, 5> kRemovals = {{
    "DELETE FROM winner WHERE class_id NOT IN (SELECT id FROM problem_class) OR device_id NOT IN (SELECT id FROM device) "
    "OR template_id NOT IN (SELECT id FROM template)",
    "DELETE FROM trial WHERE class_id NOT IN (SELECT id FROM problem_class) OR device_id NOT IN (SELECT id FROM device) "
    "OR template_id NOT IN (SELECT id FROM template)",
    "DELETE FROM miss WHERE class_id NOT IN (SELECT id FROM problem_class) OR device_id NOT IN (SELECT id FROM device)",
    "DELETE FROM evidence WHERE winner_id NOT IN (SELECT id FROM winner)",
    "DELETE FROM finalist WHERE winner_id NOT IN (SELECT id FROM winner)",
}};

}  // namespace

Orphans count_orphans(Connection& connection) {
    Orphans orphans;
    Query query = connection.query("PRAGMA foreign_key_check");  // The check lists a row once for each parent that it lacks.
    while (query.next()) {
        const std::string table = query.text();
        if (orphans.count++ == 0) orphans.table = table;
    }
    return orphans;
}

std::int64_t remove_orphans(Connection& connection) {
    std::int64_t removed = 0;
    for (const char* sql : kRemovals) {
        connection.query(sql).run();
        removed += connection.changes();
    }
    return removed;
}

}  // namespace autotune::db
