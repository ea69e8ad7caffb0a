#include "db/store/rows.h"

#include <algorithm>
#include <bit>

#include "db/store/pairs.h"
#include "src/core/problem/device_key.h"

namespace autotune::db {
namespace {

std::vector<std::string> names_of(const std::vector<Extent>& extents) {
    std::vector<std::string> names;
    for (const Extent& extent : extents) names.push_back(extent.name);
    return names;
}

std::optional<std::int64_t> find_class(Connection& connection, const ProblemKey& problem_key) {
    Query query = connection.query("SELECT id FROM problem_class WHERE class_key = ?1 AND extent_names = ?2");
    query.bind_all(problem_key.class_key, words_to_text(names_of(problem_key.extents)));
    return query.next() ? query.maybe_integer() : std::nullopt;
}

// Finds all rows of the device. The row whose key has today's form comes first.
std::vector<std::int64_t> find_devices(Connection& connection, const DeviceIdentity& device, Cards cards) {
    Query query = connection.query(
        "SELECT id FROM device WHERE cc_major = ?1 AND cc_minor = ?2 AND sm_count = ?3 AND l2_mib = ?4 AND "
        "(bus_bits = ?5 AND CASE WHEN memory_gib > 0 THEN (memory_gib + 7) / 8 * 8 ELSE memory_gib END = ?6) = ?7 "
        "ORDER BY key <> ?8, id LIMIT 64");
    query.bind_all(device.cc_major, device.cc_minor, device.sm_count, device.l2_mib, device.bus_bits,
                   labelled_memory_gib(device.memory_gib), cards == Cards::this_card, device.key());
    std::vector<std::int64_t> ids;
    while (query.next()) ids.push_back(query.integer());
    return ids;
}

std::array<std::int64_t, records::kMaxExtents> values_of(const std::vector<Extent>& extents) {
    std::array<std::int64_t, records::kMaxExtents> values{};
    for (std::size_t at = 0; at < std::min(extents.size(), records::kMaxExtents); ++at) values.at(at) = extents[at].value;
    return values;
}

std::int64_t make_class(Connection& connection, const ProblemKey& problem_key) {
    if (const auto id = find_class(connection, problem_key)) return *id;
    Query query = connection.query("INSERT INTO problem_class(op, class_key, extent_names) VALUES(?1, ?2, ?3)");
    query.bind_all(problem_key.op, problem_key.class_key, words_to_text(names_of(problem_key.extents))).run();
    return connection.last_insert_id();
}

std::int64_t make_device(Connection& connection, const DeviceIdentity& device) {
    const std::string key = device.key();
    if (const auto ids = find_devices(connection, device, Cards::this_card); !ids.empty()) return ids.front();
    Query query = connection.query(
        "INSERT INTO device(key, cc_major, cc_minor, sm_count, l2_mib, memory_gib, bus_bits) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)");
    query.bind_all(key, device.cc_major, device.cc_minor, device.sm_count, device.l2_mib, device.memory_gib, device.bus_bits)
        .run();
    return connection.last_insert_id();
}

void remove_same_key(Connection& connection, const std::vector<RowKey>& row_keys, std::int64_t template_id,
                     const std::string& restricted_to) {
    for (const RowKey& row_key : row_keys) {
        Query query = connection.query(
            "DELETE FROM winner WHERE class_id = ?1 AND device_id = ?2 AND e0 = ?3 AND e1 = ?4 AND e2 = ?5 AND e3 = ?6 AND e4 = "
            "?7 AND e5 = ?8 AND e6 = ?9 AND e7 = ?10 AND template_id = ?11 AND restricted_to = ?12");
        bind_row_key(query, row_key);
        query.bind_all(template_id, restricted_to).run();
    }
}

std::int64_t insert_winner(Connection& connection, const Winner& winner) {
    const RowKey row_key = make_row_key(connection, problem_key_of(winner));
    const std::vector<RowKey> row_keys = find_row_keys(connection, problem_key_of(winner));
    const std::int64_t template_id = make_template(connection, winner.candidate.family, winner.template_identity);
    remove_same_key(connection, row_keys, template_id, winner.restricted_to);
    if (winner.doubt.empty() && winner.restricted_to.empty()) remove_miss(connection, row_keys);
    Query query = connection.query(
        "INSERT INTO winner(class_id, device_id, e0, e1, e2, e3, e4, e5, e6, e7, template_id, config, median_us, low_us, "
        "high_us, "
        "min_us, samples, registers, spill_bytes, static_smem_bytes, wgmma_serialised, setmaxnreg_ignored, compile_ms, "
        "cubin_bytes, "
        "driver, nvrtc, device_name, power_limit_w, method, tool_version, date, doubt, restricted_to) VALUES(?1, ?2, ?3, ?4, ?5, "
        "?6, ?7, ?8, "
        "?9, ?10, "
        "?11, "
        "?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33)");
    bind_row_key(query, row_key);
    query.bind_all(template_id, pairs_to_text(winner.candidate.config.values()));
    bind_timing(query, winner.timing);
    bind_compile(query, winner.compile);
    const Provenance& from = winner.provenance;
    const std::string& device_name = from.device_name.empty() ? winner.device.name : from.device_name;
    query
        .bind_all(from.driver, from.nvrtc, device_name, from.power_limit_w, from.method, from.tool_version, from.date,
                  winner.doubt, winner.restricted_to)
        .run();
    return connection.last_insert_id();
}

std::optional<std::int64_t> bits_of(const std::optional<std::uint64_t>& value) {
    return value ? std::optional(std::bit_cast<std::int64_t>(*value)) : std::nullopt;
}

void insert_evidence(Connection& connection, std::int64_t winner_id, const Evidence& evidence) {
    Query query = connection.query(
        "INSERT INTO evidence(winner_id, rounds, decided_by, max_error, space_legal, tried, failed, seconds, compile_seconds, "
        "verify_seconds, measure_seconds, stopped_by, seed, sm_clock_mhz, power_w, temperature_c, throttle_reasons, failures, "
        "accumulation_error, expected_gain) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
        "?18, ?19, ?20)");
    Pairs failures;
    for (const auto& [status, count] : evidence.failures) failures.emplace_back(status, count);
    query.bind_all(winner_id, evidence.rounds, evidence.decided_by, evidence.max_error,
                   std::bit_cast<std::int64_t>(evidence.space_legal), evidence.tried, evidence.failed, evidence.seconds,
                   evidence.compile_seconds, evidence.verify_seconds);
    const Conditions& conditions = evidence.conditions;
    query
        .bind_all(evidence.measure_seconds, evidence.stopped_by, std::bit_cast<std::int64_t>(evidence.seed),
                  conditions.sm_clock_mhz, conditions.power_w, conditions.temperature_c, bits_of(conditions.throttle_reasons),
                  pairs_to_text(failures), evidence.accumulation_error, evidence.expected_gain)
        .run();
}

void insert_finalist(Connection& connection, std::pair<std::int64_t, std::size_t> key, const Finalist& finalist) {
    Query query = connection.query(
        "INSERT INTO finalist(winner_id, position, name, family, config, median_us, low_us, high_us, min_us, samples, ratio, "
        "ratio_low, "
        "ratio_high, tie, after_itself_us, after_trigger_us, sm_clock_mhz, power_w) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, "
        "?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)");
    // A rival has no candidate: its row has an empty family.
    const Candidate candidate = finalist.candidate.value_or(Candidate{});
    query.bind_all(key.first, key.second, finalist.name, candidate.family, pairs_to_text(candidate.config.values()));
    bind_timing(query, finalist.timing);
    query.bind_all(finalist.ratio, finalist.ratio_low, finalist.ratio_high, finalist.tie, finalist.after_itself_us,
                   finalist.after_trigger_us);
    query.bind_all(finalist.conditions.sm_clock_mhz, finalist.conditions.power_w).run();
}

// Another program may have deleted a winner but not its evidence, and SQLite may have reused the winner's number.
void remove_leftovers(Connection& connection, std::int64_t winner_id) {
    connection.query("DELETE FROM evidence WHERE winner_id = ?1").bind(winner_id).run();
    connection.query("DELETE FROM finalist WHERE winner_id = ?1").bind(winner_id).run();
}

// Fills `config` from its text. Returns false if the text is not canonical.
bool read_config(const std::string& text, Config& config) {
    const auto pairs = pairs_from_text(text);
    if (!pairs) return false;
    for (const auto& [name, value] : *pairs) config.set(name, value);
    return true;
}

bool read_extents(Query& query, std::vector<Extent>& extents) {
    const std::vector<std::string> names = words_from_text(query.text());
    for (std::size_t at = 0; at < records::kMaxExtents; ++at) {
        const std::int64_t value = query.integer();
        if (at < names.size()) extents.push_back({names[at], value});
    }
    return names.size() <= records::kMaxExtents;
}

DeviceIdentity read_device(Query& query) {
    DeviceIdentity device;
    for (int* field :
         {&device.cc_major, &device.cc_minor, &device.sm_count, &device.l2_mib, &device.memory_gib, &device.bus_bits}) {
        *field = query.small();
    }
    return device;
}

Provenance read_provenance(Query& query) {
    Provenance from;
    from.driver = query.text();
    from.nvrtc = query.text();
    from.device_name = query.text();
    from.power_limit_w = query.small();
    from.method = query.text();
    from.tool_version = query.text();
    from.date = query.text();
    return from;
}

std::optional<int> maybe_small(Query& query) {
    const auto value = query.maybe_integer();
    return value ? std::optional(static_cast<int>(std::clamp<std::int64_t>(*value, INT32_MIN, INT32_MAX))) : std::nullopt;
}

// Reads the columns of the evidence table. Returns its failures as text, which is the last column.
std::string read_evidence(Query& query, Evidence& evidence) {
    evidence.rounds = query.small();
    evidence.decided_by = query.text();
    evidence.max_error = query.maybe_real();
    evidence.accumulation_error = query.maybe_real();
    evidence.space_legal = std::bit_cast<std::uint64_t>(query.integer());
    evidence.tried = query.small();
    evidence.failed = query.small();
    for (double* seconds : {&evidence.seconds, &evidence.compile_seconds, &evidence.verify_seconds, &evidence.measure_seconds}) {
        *seconds = query.real();
    }
    evidence.stopped_by = query.text();
    evidence.expected_gain = query.maybe_real();
    evidence.seed = std::bit_cast<std::uint64_t>(query.integer());
    evidence.conditions.sm_clock_mhz = maybe_small(query);
    evidence.conditions.power_w = maybe_small(query);
    evidence.conditions.temperature_c = maybe_small(query);
    if (const auto bits = query.maybe_integer()) evidence.conditions.throttle_reasons = std::bit_cast<std::uint64_t>(*bits);
    return query.text();
}

bool read_failures(const std::string& text, Evidence& evidence) {
    const auto pairs = pairs_from_text(text);
    if (!pairs) return false;
    for (const auto& [status, count] : *pairs) {
        evidence.failures.emplace_back(status, static_cast<int>(std::clamp<std::int64_t>(count, -1, INT32_MAX)));
    }
    return true;
}

bool read_finalists(Connection& connection, std::int64_t winner_id, Evidence& evidence) {
    Query query = connection.query(
        "SELECT name, family, config, median_us, low_us, high_us, min_us, samples, ratio, ratio_low, ratio_high, tie, "
        "after_itself_us, after_trigger_us, sm_clock_mhz, power_w FROM finalist "
        "WHERE winner_id = ?1 ORDER BY position LIMIT 65");
    query.bind(winner_id);
    bool sound = true;
    while (query.next()) {
        Finalist& finalist = evidence.finalists.emplace_back();
        finalist.name = query.text();
        Candidate candidate{.family = query.text(), .config = {}};
        sound = read_config(query.text(), candidate.config) && sound;
        if (!candidate.family.empty()) finalist.candidate = candidate;
        finalist.timing = read_timing(query).value_or(Timing{});
        finalist.ratio = query.real();
        finalist.ratio_low = query.real();
        finalist.ratio_high = query.real();
        finalist.tie = query.integer() != 0;
        finalist.after_itself_us = query.maybe_real();
        finalist.after_trigger_us = query.maybe_real();
        finalist.conditions.sm_clock_mhz = maybe_small(query);
        finalist.conditions.power_w = maybe_small(query);
    }
    return sound;
}

}  // namespace

ProblemKey problem_key_of(const Problem& problem, const DeviceIdentity& device) {
    return {.op = problem.op, .class_key = problem.class_key(), .extents = problem.extents, .device = device};
}

ProblemKey problem_key_of(const Winner& winner) {
    return {.op = winner.op, .class_key = winner.class_key, .extents = winner.extents, .device = winner.device};
}

std::vector<RowKey> find_row_keys(Connection& connection, const ProblemKey& problem_key, Cards cards) {
    std::vector<RowKey> row_keys;
    const auto class_id = find_class(connection, problem_key);
    if (!class_id) return row_keys;
    for (const std::int64_t device_id : find_devices(connection, problem_key.device, cards))
        row_keys.push_back({.class_id = *class_id, .device_id = device_id, .extents = values_of(problem_key.extents)});
    return row_keys;
}

RowKey make_row_key(Connection& connection, const ProblemKey& problem_key) {
    return {.class_id = make_class(connection, problem_key),
            .device_id = make_device(connection, problem_key.device),
            .extents = values_of(problem_key.extents)};
}

std::int64_t make_template(Connection& connection, const std::string& family, const std::string& identity) {
    {
        Query query = connection.query("SELECT id FROM template WHERE identity = ?1 AND family = ?2");
        query.bind_all(identity, family);
        if (query.next()) return query.integer();
    }
    Query query = connection.query("INSERT INTO template(identity, family) VALUES(?1, ?2)");
    query.bind_all(identity, family).run();
    return connection.last_insert_id();
}

void bind_row_key(Query& query, const RowKey& row_key) {
    query.bind_all(row_key.class_id, row_key.device_id);
    for (const std::int64_t extent : row_key.extents) query.bind(extent);
}

void bind_timing(Query& query, const std::optional<Timing>& timing) {
    if (!timing) {
        for (int column = 0; column < 5; ++column) query.bind_null();
        return;
    }
    query.bind_all(timing->median_us, timing->low_us, timing->high_us, timing->min_us, timing->samples);
}

std::optional<Timing> read_timing(Query& query) {
    const auto median_us = query.maybe_real();
    Timing timing;
    timing.median_us = median_us.value_or(0);
    timing.low_us = query.real();
    timing.high_us = query.real();
    timing.min_us = query.real();
    timing.samples = query.small();
    return median_us ? std::optional(timing) : std::nullopt;
}

void bind_compile(Query& query, const CompileReport& report) {
    query.bind_all(report.registers, report.spill_bytes, report.static_smem_bytes, report.wgmma_serialised,
                   report.setmaxnreg_ignored, report.compile_ms, report.cubin_bytes);
}

CompileReport read_compile(Query& query) {
    CompileReport report;
    report.registers = query.small();
    report.spill_bytes = query.small();
    report.static_smem_bytes = query.small();
    report.wgmma_serialised = query.integer() != 0;
    report.setmaxnreg_ignored = query.integer() != 0;
    report.compile_ms = query.real();
    report.cubin_bytes = static_cast<std::size_t>(query.integer());
    return report;
}

void write_winner(Connection& connection, const Winner& winner) {
    const std::int64_t id = insert_winner(connection, winner);
    remove_leftovers(connection, id);
    insert_evidence(connection, id, winner.evidence);
    for (std::size_t at = 0; at < winner.evidence.finalists.size(); ++at) {
        insert_finalist(connection, {id, at}, winner.evidence.finalists[at]);
    }
}

std::optional<ReadRow> read_winner(Connection& connection, std::int64_t id, Detail detail) {
    Query query = connection.query(
        "SELECT c.op, c.class_key, c.extent_names, w.e0, w.e1, w.e2, w.e3, w.e4, w.e5, w.e6, w.e7, d.cc_major, d.cc_minor, "
        "d.sm_count, "
        "d.l2_mib, d.memory_gib, d.bus_bits, t.identity, t.family, w.config, w.median_us, w.low_us, w.high_us, w.min_us, "
        "w.samples, "
        "w.registers, w.spill_bytes, w.static_smem_bytes, w.wgmma_serialised, w.setmaxnreg_ignored, w.compile_ms, w.cubin_bytes, "
        "w.driver, w.nvrtc, w.device_name, w.power_limit_w, w.method, w.tool_version, w.date, w.doubt, w.restricted_to, "
        "v.rounds, v.decided_by, "
        "v.max_error, v.accumulation_error, "
        "v.space_legal, v.tried, v.failed, v.seconds, v.compile_seconds, v.verify_seconds, v.measure_seconds, v.stopped_by, "
        "v.expected_gain, "
        "v.seed, "
        "v.sm_clock_mhz, v.power_w, v.temperature_c, v.throttle_reasons, v.failures FROM winner w "
        "JOIN problem_class c ON c.id = w.class_id JOIN device d ON d.id = w.device_id JOIN template t ON t.id = w.template_id "
        "LEFT JOIN evidence v ON v.winner_id = w.id WHERE w.id = ?1");
    query.bind(id);
    if (!query.next()) return std::nullopt;
    ReadRow row;
    Winner& winner = row.winner;
    winner.op = query.text();
    winner.class_key = query.text();
    bool sound = read_extents(query, winner.extents);
    winner.device = read_device(query);
    winner.template_identity = query.text();
    winner.candidate.family = query.text();
    sound = read_config(query.text(), winner.candidate.config) && sound;
    winner.timing = read_timing(query).value_or(Timing{});
    winner.compile = read_compile(query);
    winner.provenance = read_provenance(query);
    winner.doubt = query.text();
    winner.restricted_to = query.text();
    winner.device.name = winner.provenance.device_name;
    const std::string failures = read_evidence(query, winner.evidence);
    if (detail == Detail::full) {
        sound = read_failures(failures, winner.evidence) && sound;
        sound = read_finalists(connection, id, winner.evidence) && sound;
    }
    row.wrong = records::why_invalid(winner);
    if (!sound && !row.wrong) row.wrong = "its extents, config or failures are not in the stored form";
    return row;
}

void remove_miss(Connection& connection, const std::vector<RowKey>& row_keys) {
    for (const RowKey& row_key : row_keys) {
        Query query = connection.query(
            "DELETE FROM miss WHERE class_id = ?1 AND device_id = ?2 AND e0 = ?3 AND e1 = ?4 AND e2 = ?5 AND e3 = ?6 AND e4 = ?7 "
            "AND e5 = ?8 AND e6 = ?9 AND e7 = ?10");
        bind_row_key(query, row_key);
        query.run();
    }
}

bool has_winner(Connection& connection, std::int64_t id) {
    Query query = connection.query("SELECT 1 FROM winner WHERE id = ?1");
    query.bind(id);
    return query.next();
}

}  // namespace autotune::db
