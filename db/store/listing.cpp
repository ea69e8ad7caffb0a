#include "db/store/listing.h"

#include <algorithm>
#include <functional>

#include "db/store/matching.h"
#include "db/store/pairs.h"
#include "src/core/immortal.h"
#include "src/core/problem/device_key.h"

namespace autotune::db {
namespace {

bool is_for_all(const Filter& filter) {
    return filter.op.empty() && filter.class_key.empty() && filter.device_key.empty() && filter.extents.empty();
}

// Binds ?1..?4 of every filtered statement: class and device. An empty text matches all.
void bind_filter(Query& query, const Filter& filter) {
    std::vector<std::string> names;
    for (const Extent& extent : filter.extents) names.push_back(extent.name);
    query.bind_all(filter.op, filter.class_key, words_to_text(names), todays_device_key(filter.device_key));
}

// The SQL condition whose parameters bind_filter() binds. Statements that contain it are static, because prepared statements are
// cached by their text.
std::string of_filter() {
    return std::string(
               "class_id IN (SELECT id FROM problem_class WHERE ?1 IN ('', op) AND ?2 IN ('', class_key) AND ?3 IN ('', "
               "extent_names)) AND device_id IN (SELECT id FROM device WHERE ?4 IN ('', ") +
           kDeviceKeySql + "))";
}

void bind_extents(Query& query, const Filter& filter) {
    for (std::size_t at = 0; at < records::kMaxExtents; ++at)
        query.bind(at < filter.extents.size() ? filter.extents[at].value : 0);
}

std::int64_t limit_of(const Filter& filter) {
    return static_cast<std::int64_t>(std::min<std::size_t>(filter.limit, std::size_t{INT64_MAX}));
}

std::vector<std::int64_t> integers(Query& query) {
    std::vector<std::int64_t> values;
    while (query.next()) values.push_back(query.integer());
    return values;
}

// Newest first.
std::vector<std::int64_t> ids_at(Connection& connection, const RowKey& row_key) {
    // Without INDEXED BY, SQLite would read all rows of the class through winner_place to sort them (10 ms instead of 10 us).
    Query query = connection.query(
        "SELECT id FROM winner INDEXED BY winner_key WHERE class_id = ?1 AND device_id = ?2 AND e0 = ?3 AND e1 = ?4 AND e2 = ?5 "
        "AND "
        "e3 = ?6 AND e4 = ?7 AND e5 = ?8 AND e6 = ?9 AND e7 = ?10 ORDER BY id DESC");
    bind_row_key(query, row_key);
    return integers(query);
}

}  // namespace

std::vector<std::int64_t> ids_of(Connection& connection, const ProblemKey& problem_key) {
    std::vector<std::int64_t> ids;
    for (const RowKey& row_key : find_row_keys(connection, problem_key)) {
        for (const std::int64_t id : ids_at(connection, row_key)) ids.push_back(id);
    }
    std::sort(ids.begin(), ids.end(), std::greater<>());
    return ids;
}

std::vector<std::int64_t> ids_of(Connection& connection, const Filter& filter) {
    if (is_for_all(filter)) {
        Query query = connection.query("SELECT id FROM winner ORDER BY id DESC LIMIT ?1");
        query.bind(limit_of(filter));
        return integers(query);
    }
    if (filter.extents.empty()) {
        static const Immortal<std::string> sql("SELECT id FROM winner INDEXED BY winner_place WHERE " + of_filter() +
                                               " ORDER BY id DESC LIMIT ?5");
        Query query = connection.query(*sql);
        bind_filter(query, filter);
        query.bind(limit_of(filter));
        return integers(query);
    }
    static const Immortal<std::string> sql(
        "SELECT id FROM winner INDEXED BY winner_key WHERE " + of_filter() +
        " AND e0 = ?5 AND e1 = ?6 AND e2 = ?7 AND e3 = ?8 AND e4 = ?9 AND e5 = ?10 AND e6 = ?11 "
        "AND e7 = ?12 ORDER BY id DESC LIMIT ?13");
    Query query = connection.query(*sql);
    bind_filter(query, filter);
    bind_extents(query, filter);
    query.bind(limit_of(filter));
    return integers(query);
}

std::int64_t count_of(Connection& connection, const Filter& filter) {
    if (is_for_all(filter)) {
        Query query = connection.query("SELECT count(*) FROM winner");
        return query.next() ? query.integer() : 0;
    }
    if (!filter.extents.empty()) {
        Filter all = filter;
        all.limit = SIZE_MAX;
        return static_cast<std::int64_t>(ids_of(connection, all).size());
    }
    static const Immortal<std::string> sql("SELECT count(*) FROM winner INDEXED BY winner_place WHERE " + of_filter());
    Query query = connection.query(*sql);
    bind_filter(query, filter);
    return query.next() ? query.integer() : 0;
}

std::int64_t remove_matching(Connection& connection, const Filter& filter) {
    Filter all = filter;
    all.limit = SIZE_MAX;
    const std::vector<std::int64_t> ids = ids_of(connection, all);
    for (const std::int64_t id : ids) {
        connection
            .query(
                "DELETE FROM trial WHERE (class_id, device_id, e0, e1, e2, e3, e4, e5, e6, e7) = "
                "(SELECT class_id, device_id, e0, e1, e2, e3, e4, e5, e6, e7 FROM winner WHERE id = ?1)")
            .bind(id)
            .run();
        connection.query("DELETE FROM winner WHERE id = ?1").bind(id).run();
    }
    return static_cast<std::int64_t>(ids.size());
}

}  // namespace autotune::db
