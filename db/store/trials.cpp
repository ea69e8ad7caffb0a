#include "db/store/trials.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <utility>

#include "db/store/pairs.h"
#include "src/core/immortal.h"

namespace autotune::db {
namespace {

// Reads the columns of `trial` from the template on. Returns nullopt if another program wrote the row.
std::optional<StoredTrial> read_trial(Query& query) {
    StoredTrial stored;
    Trial& trial = stored.trial;
    trial.candidate.family = query.text();
    stored.template_identity = query.text();
    stored.nvrtc = query.text();
    const auto config = pairs_from_text(query.text());
    const auto status = parse_trial_status(query.text());
    trial.timing = read_timing(query);
    if (trial.timing && !std::isfinite(trial.timing->median_us)) trial.timing.reset();
    trial.max_error = query.maybe_real();
    trial.compile = read_compile(query);
    trial.detail = query.text();
    stored.date = records::cleaned(query.text());
    stored.method = records::cleaned(query.text());
    if (!config || !status) return std::nullopt;
    trial.status = *status;
    for (const auto& [name, value] : *config) trial.candidate.config.set(name, value);
    return stored;
}

Winner key_of(const ProblemKey& problem_key) {
    Winner key;
    key.op = problem_key.op;
    key.class_key = problem_key.class_key;
    key.extents = problem_key.extents;
    key.device = problem_key.device;
    return key;
}

using NumberedTrials = std::vector<std::pair<std::int64_t, StoredTrial>>;

// With their row numbers.
void read_trials_at(Connection& connection, const RowKey& row_key, const ProblemKey& problem_key, NumberedTrials& trials,
                    int& skipped) {
    Query query = connection.query(
        "SELECT r.id, t.family, t.identity, r.nvrtc, r.config, r.status, r.median_us, r.low_us, r.high_us, r.min_us, r.samples, "
        "r.max_error, "
        "r.registers, r.spill_bytes, r.static_smem_bytes, r.wgmma_serialised, r.setmaxnreg_ignored, r.compile_ms, r.cubin_bytes, "
        "r.detail, r.date, r.method FROM trial r INDEXED BY trial_key JOIN template t ON t.id = r.template_id WHERE r.class_id = "
        "?1 AND "
        "r.device_id = ?2 AND r.e0 = ?3 "
        "AND "
        "r.e1 = ?4 AND r.e2 = ?5 AND r.e3 = ?6 AND r.e4 = ?7 AND r.e5 = ?8 AND r.e6 = ?9 AND r.e7 = ?10 ORDER BY r.id");
    bind_row_key(query, row_key);
    while (query.next()) {
        const std::int64_t id = query.integer();
        auto trial = read_trial(query);
        if (trial && !why_invalid(problem_key, *trial)) {
            trials.emplace_back(id, std::move(*trial));
        } else {
            ++skipped;
        }
    }
}

void count_miss(Connection& connection, const Miss& miss, const std::string& now) {
    const RowKey row_key = make_row_key(connection, problem_key_of(miss.problem, miss.device));
    Query query = connection.query(
        "INSERT INTO miss(class_id, device_id, e0, e1, e2, e3, e4, e5, e6, e7, shape, date, count, origin) VALUES(?1, ?2, ?3, "
        "?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT DO UPDATE SET count = count + excluded.count, "
        "date = excluded.date, origin = excluded.origin");
    bind_row_key(query, row_key);
    query.bind_all(records::cleaned(miss.problem.shape()), now, miss.count, records::cleaned(miss.origin)).run();
}

}  // namespace

std::optional<std::string> why_invalid(const ProblemKey& problem_key, const StoredTrial& trial) {
    if (auto why = records::why_invalid_key(key_of(problem_key))) return why;
    if (!records::is_family_name(trial.trial.candidate.family)) return "the family's name is not one of [a-z0-9_/]";
    if (trial.template_identity.empty() || !records::is_text(trial.template_identity))
        return "the template's identity is missing or too long";
    return records::why_invalid(trial.trial.candidate.config);
}

void write_trial(Connection& connection, const PendingTrial& pending) {
    const Trial& trial = pending.trial.trial;
    const RowKey row_key = make_row_key(connection, pending.problem_key);
    const std::int64_t template_id = make_template(connection, trial.candidate.family, pending.trial.template_identity);
    Query query = connection.query(
        "INSERT OR REPLACE INTO trial(class_id, device_id, e0, e1, e2, e3, e4, e5, e6, e7, template_id, nvrtc, config, status, "
        "median_us, low_us, high_us, min_us, samples, max_error, registers, spill_bytes, static_smem_bytes, wgmma_serialised, "
        "setmaxnreg_ignored, compile_ms, cubin_bytes, detail, date, method) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, "
        "?12, "
        "?13, ?14, "
        "?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)");
    bind_row_key(query, row_key);
    query.bind_all(template_id, records::cleaned(pending.trial.nvrtc), pairs_to_text(trial.candidate.config.values()),
                   to_string(trial.status));
    bind_timing(query, trial.timing);
    query.bind(trial.max_error);
    bind_compile(query, trial.compile);
    query.bind_all(records::cleaned(trial.detail, records::kMaxDetail), pending.date, records::cleaned(pending.trial.method))
        .run();
}

std::vector<StoredTrial> read_trials(Connection& connection, const ProblemKey& problem_key, int& skipped) {
    NumberedTrials numbered;
    for (const RowKey& row_key : find_row_keys(connection, problem_key))
        read_trials_at(connection, row_key, problem_key, numbered, skipped);
    std::stable_sort(numbered.begin(), numbered.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<StoredTrial> trials;
    trials.reserve(numbered.size());
    for (auto& [id, trial] : numbered) trials.push_back(std::move(trial));
    return trials;
}

void count_misses(Connection& connection, std::span<const Miss> misses) {
    const std::string now = utc_now();
    for (const Miss& miss : misses) count_miss(connection, miss, now);
    const std::int64_t excess = number_of_misses(connection) - kMostMisses;
    if (excess <= 0) return;
    // Misses that are being recorded stay even if they were called only once, because otherwise a full table would never accept
    // new misses.
    Query query =
        connection.query("DELETE FROM miss WHERE id IN (SELECT id FROM miss ORDER BY date >= ?1, count, date, id LIMIT ?2)");
    query.bind_all(now, excess).run();
}

std::int64_t number_of_misses(Connection& connection) {
    Query query = connection.query("SELECT count(*) FROM miss");
    return query.next() ? query.integer() : 0;
}

std::vector<MissRow> read_misses(Connection& connection, std::size_t limit) {
    static const Immortal<std::string> sql(
        std::string("SELECT c.op, c.class_key, m.shape, ") + kDeviceKeySql +
        ", m.date, m.origin, m.count FROM miss m JOIN problem_class c ON c.id = m.class_id JOIN device d ON d.id = m.device_id "
        "ORDER BY m.count DESC, m.date DESC, m.id LIMIT ?1");
    Query query = connection.query(*sql);
    query.bind(static_cast<std::int64_t>(std::min<std::size_t>(limit, kMostMisses)));
    std::vector<MissRow> rows;
    while (query.next()) {
        MissRow& row = rows.emplace_back();
        for (std::string* text : {&row.op, &row.class_key, &row.shape, &row.device_key, &row.date, &row.origin})
            *text = records::cleaned(query.text(), records::kMaxClassKey);
        row.count = query.integer();
        row.problem_key = row.class_key + " " + row.shape;
    }
    return rows;
}

std::string utc_now() {
    return utc_in(0);
}

std::string utc_in(int seconds) {
    const std::time_t now = std::time(nullptr) + seconds;
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return {text.data(), length};
}

}  // namespace autotune::db
