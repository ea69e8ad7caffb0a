#include "tuner/fleet/store/fleet_store.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tuner/fleet/store/schema.h"

namespace autotune::fleet {
namespace {

constexpr std::size_t kFreezeBatch = 200;

Field number(std::int64_t value) {
    return std::to_string(value);
}

std::vector<StoredLine> lines_of(const Rows& rows) {
    std::vector<StoredLine> lines;
    for (std::size_t i = 0; i < rows.rows.size(); ++i) lines.push_back({rows.integer(i, 0), rows.text(i, 1)});
    return lines;
}

// Rolls back unless commit() was called.
class Transaction {
  public:
    explicit Transaction(Connection& connection) : connection_(connection) { connection_.query("BEGIN"); }
    ~Transaction() {
        if (is_done_) return;
        try {
            connection_.query("ROLLBACK");
        } catch (const StoreError&) {
            // The server ends the transaction with the connection.
        }
    }
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void commit() {
        connection_.query("COMMIT");
        is_done_ = true;
    }

  private:
    Connection& connection_;
    bool is_done_ = false;
};

}  // namespace

std::string_view to_string(Loss loss) {
    switch (loss) {
        case Loss::released:
            return "released";
        case Loss::failed:
            return "failed";
        case Loss::crashed:
            return "crashed";
        case Loss::impossible:
            return "impossible";
    }
    return "";
}

FleetStore::FleetStore(const Connection::Options& options) : connection_(options) {
    check_version();
}

StoreVersion FleetStore::version() {
    const Rows exists = connection_.query("SELECT to_regclass('autotune.schema_step') IS NOT NULL");
    if (exists.text(0, 0) != "t") return {};
    const Rows found = connection_.query("SELECT * FROM autotune.version()");
    if (found.empty()) return {};
    return {static_cast<int>(found.integer(0, 0)), static_cast<int>(found.integer(0, 1))};
}

void FleetStore::check_version() {
    StoreVersion found;
    try {
        found = version();
    } catch (const StoreError& error) {
        if (error.sqlstate() != "42501") throw;
        throw StoreError(
            "this role may not use the store; its owner grants it autotune_worker, autotune_client or autotune_curator (" +
                std::string(error.what()) + ")",
            error.sqlstate(), false);
    }
    const std::string ours = "schema " + std::to_string(kSchema);
    if (found.version == 0)
        throw StoreError("the store is empty; its owner runs `autotune fleet migrate --store ADDRESS`", "AT426", false);
    if (found.version < kSchema)
        throw StoreError("the store has schema " + std::to_string(found.version) + ", this autotune needs " + ours +
                             "; the store's owner runs `autotune fleet migrate` of this version",
                         "AT426", false);
    if (found.oldest > kSchema)
        throw StoreError("the store has schema " + std::to_string(found.version) + ", which programs of schema " +
                             std::to_string(found.oldest) + " and later can use; this autotune is of " + ours + ": update it",
                         "AT426", false);
}

FleetStore::Terms FleetStore::enlist(const std::string& worker, const std::string& host, const std::string& tool) {
    const Rows rows = connection_.query("SELECT * FROM autotune.enlist($1, $2, $3)", {worker, host, tool});
    return {rows.number(0, 0), rows.number(0, 1)};
}

std::vector<Claim> FleetStore::claim(const std::string& worker, const std::string& gpu, const std::string& device_key,
                                     const std::vector<std::string>& catalogues, const std::vector<std::int64_t>& has) {
    const Rows rows = connection_.query("SELECT * FROM autotune.claim($1, $2, $3, $4, $5)",
                                        {worker, gpu, device_key, array_of(catalogues), array_of(has)});
    std::vector<Claim> claims;
    for (std::size_t i = 0; i < rows.rows.size(); ++i)
        claims.push_back({rows.integer(i, 0), rows.integer(i, 1), rows.text(i, 2), rows.text(i, 3), rows.integer(i, 4)});
    return claims;
}

std::vector<std::int64_t> FleetStore::beat(const std::string& worker, const std::vector<Claim>& held) {
    std::vector<std::int64_t> ids, fences, lost;
    for (const Claim& each : held) {
        ids.push_back(each.id);
        fences.push_back(each.fence);
    }
    const Rows rows = connection_.query("SELECT * FROM autotune.beat($1, $2, $3)", {worker, array_of(ids), array_of(fences)});
    for (std::size_t i = 0; i < rows.rows.size(); ++i) lost.push_back(rows.integer(i, 0));
    return lost;
}

std::string FleetStore::complete(const std::string& worker, const Claim& claim, const std::string& line) {
    return connection_.query("SELECT autotune.complete($1, $2, $3, $4)", {worker, number(claim.id), number(claim.fence), line})
        .text(0, 0);
}

std::string FleetStore::fail(const std::string& worker, const Claim& claim, Loss loss, const std::string& why) {
    return connection_
        .query("SELECT autotune.fail($1, $2, $3, $4, $5)",
               {worker, number(claim.id), number(claim.fence), std::string(to_string(loss)), why})
        .text(0, 0);
}

std::int64_t FleetStore::reap() {
    return connection_.query("SELECT autotune.reap()").integer(0, 0);
}

WantReport FleetStore::want(const std::vector<Wanted>& wanted, int priority) {
    WantReport all;
    for (std::size_t begin = 0; begin < wanted.size(); begin += kMostWanted) {
        nlohmann::json list = nlohmann::json::array();
        for (std::size_t i = begin; i < std::min(begin + kMostWanted, wanted.size()); ++i)
            list.push_back({{"class", wanted[i].class_key},
                            {"shape", wanted[i].shape},
                            {"device", wanted[i].device_key},
                            {"catalogue", wanted[i].catalogue},
                            {"calls", wanted[i].calls}});
        const Rows rows = connection_.query("SELECT * FROM autotune.want($1, $2)", {list.dump(), number(priority)});
        all.added += rows.integer(0, 0);
        all.raised += rows.integer(0, 1);
        all.known += rows.integer(0, 2);
        all.refused += rows.integer(0, 3);
    }
    return all;
}

VerdictReport FleetStore::post_verdicts(const std::vector<PostedVerdict>& verdicts) {
    VerdictReport all;
    for (std::size_t begin = 0; begin < verdicts.size(); begin += kMostWanted) {
        nlohmann::json list = nlohmann::json::array();
        for (std::size_t i = begin; i < std::min(begin + kMostWanted, verdicts.size()); ++i)
            list.push_back({{"problem", verdicts[i].problem},
                            {"device", verdicts[i].device},
                            {"rival", verdicts[i].rival},
                            {"in_stream", verdicts[i].in_stream},
                            {"in_graphs", verdicts[i].in_graphs},
                            {"measured", verdicts[i].measured}});
        const Rows rows = connection_.query("SELECT * FROM autotune.post_verdicts($1)", {list.dump()});
        all.added += rows.integer(0, 0);
        all.known += rows.integer(0, 1);
        all.refused += rows.integer(0, 2);
    }
    return all;
}

std::vector<PostedVerdict> FleetStore::verdicts() {
    std::vector<PostedVerdict> all;
    for (std::int64_t after = 0;;) {
        const Rows rows =
            connection_.query("SELECT * FROM autotune.verdicts_after($1, $2)", {number(after), number(kMostWanted)});
        if (rows.empty()) return all;
        for (std::size_t i = 0; i < rows.rows.size(); ++i)
            all.push_back(
                {rows.text(i, 1), rows.text(i, 2), rows.text(i, 3), rows.number(i, 4), rows.number(i, 5), rows.text(i, 6)});
        after = rows.integer(rows.rows.size() - 1, 0);
    }
}

std::optional<LabelFacts> FleetStore::label(const std::string& name) {
    const Rows rows = connection_.query("SELECT * FROM autotune.label_named($1)", {name});
    if (rows.empty()) return std::nullopt;
    return LabelFacts{rows.text(0, 0), rows.text(0, 1), rows.text(0, 3), rows.integer(0, 2)};
}

std::vector<StoredLine> FleetStore::label_lines(const std::string& label, std::int64_t after, int most) {
    return lines_of(connection_.query("SELECT * FROM autotune.label_lines($1, $2, $3)", {label, number(after), number(most)}));
}

std::vector<StoredLine> FleetStore::winners(std::int64_t after, int most) {
    return lines_of(connection_.query("SELECT * FROM autotune.winners_after($1, $2)", {number(after), number(most)}));
}

LabelFacts FleetStore::freeze(const std::string& label, const std::string& note, const std::vector<StoredLine>& lines) {
    Transaction transaction(connection_);
    connection_.query("SELECT autotune.freeze_begin($1, $2)", {label, note});
    for (std::size_t begin = 0; begin < lines.size(); begin += kFreezeBatch) {
        std::vector<std::int64_t> results;
        std::vector<std::string> texts;
        for (std::size_t i = begin; i < std::min(begin + kFreezeBatch, lines.size()); ++i) {
            results.push_back(lines[i].id);
            texts.push_back(lines[i].line);
        }
        connection_.query("SELECT autotune.freeze_lines($1, $2, $3)", {label, array_of(results), array_of(texts)});
    }
    const Rows rows = connection_.query("SELECT * FROM autotune.freeze_end($1)", {label});
    transaction.commit();
    return {label, rows.text(0, 0), note, rows.integer(0, 1)};
}

std::string FleetStore::publish(const std::string& channel, const std::string& label, const std::string& note) {
    return connection_.query("SELECT autotune.publish($1, $2, $3)", {channel, label, note}).text(0, 0);
}

std::string FleetStore::withdraw(std::int64_t result, const std::string& why) {
    return connection_.query("SELECT autotune.withdraw($1, $2)", {number(result), why}).text(0, 0);
}

std::int64_t FleetStore::retry() {
    return connection_.query("SELECT autotune.retry()").integer(0, 0);
}

// REQUIRES: the names are literals of this program.
Rows FleetStore::table(const std::string& view, const std::vector<std::string>& columns, std::size_t limit) {
    std::string list;
    for (const std::string& each : columns) list += (list.empty() ? "" : ", ") + each;
    return connection_.query("SELECT " + list + " FROM autotune." + view + " ORDER BY 1, 2 LIMIT " + std::to_string(limit));
}

std::vector<std::string> FleetStore::migrate(const std::string& tool) {
    std::vector<std::string> applied;
    Transaction transaction(connection_);
    connection_.run("SET LOCAL lock_timeout = '5s'");
    connection_.query("SELECT pg_advisory_xact_lock(hashtextextended('autotune.migrate', 0))");
    const StoreVersion found = version();
    if (found.version > kSchema)
        throw StoreError("the store has schema " + std::to_string(found.version) + ", newer than schema " +
                             std::to_string(kSchema) + " of this autotune; migrate with the version that made it",
                         "AT426", false);
    for (const SchemaStep& step : schema_steps()) {
        if (step.version <= found.version) continue;
        connection_.run(step.sql);
        connection_.query("INSERT INTO autotune.schema_step(version, oldest, name, tool) VALUES ($1, $2, $3, $4)",
                          {number(step.version), number(step.oldest), step.name, tool});
        applied.push_back(step.name);
    }
    connection_.run(schema_roles());
    transaction.commit();
    return applied;
}

std::string migration_text(int from) {
    std::string text;
    for (const SchemaStep& step : schema_steps())
        if (step.version > from) text += step.sql;
    return text + schema_roles();
}

}  // namespace autotune::fleet
