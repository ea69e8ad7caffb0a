#include "db/store/former_rows.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/store/rows.h"
#include "db/text/transfer.h"

namespace autotune::db {
namespace {

// A template whose rows in the file get today's identity.
struct FormerTemplate {
    std::int64_t id = 0;
    std::string family, present;
};

std::vector<FormerTemplate> former_templates_in(Connection& connection, const FormerTemplates& former) {
    std::vector<FormerTemplate> found;
    if (!former.present_identity) return found;
    Query query = connection.query("SELECT id, family, identity FROM template");
    while (query.next()) {
        FormerTemplate each{.id = query.integer(), .family = query.text(), .present = {}};
        if (auto present = former.present_identity(each.family, query.text())) {
            each.present = std::move(*present);
            found.push_back(std::move(each));
        }
    }
    return found;
}

struct TextRow {
    std::int64_t id = 0, position = 0;
    std::string family, config, words;
};

std::vector<TextRow> texts_of(Query& query) {
    std::vector<TextRow> rows;
    while (query.next()) {
        TextRow& row = rows.emplace_back();
        row.id = query.integer();
        row.position = query.integer();
        row.family = query.text();
        row.config = query.text();
        row.words = query.text();
    }
    return rows;
}

// The row with today's names, or nullopt if it has them already. `renamed_words` renames the words of one column.
std::optional<TextRow> renamed(const TextRow& row, const FormerTemplates& former, decltype(renamed_name)& renamed_words) {
    TextRow present = row;
    present.config = renamed_name(row.config, row.family, former);
    present.words = renamed_words(row.words, row.family, former);
    if (present.config == row.config && present.words == row.words) return std::nullopt;
    return present;
}

void rename_parameters_of(Connection& connection, const FormerTemplate& from, const FormerTemplates& former) {
    const auto rows_of = [&](std::string_view sql) {
        Query query = connection.query(sql);
        query.bind(from.id);
        return texts_of(query);
    };
    for (const TextRow& row : rows_of("SELECT w.id, 0, t.family, w.config, w.restricted_to FROM winner w "
                                      "JOIN template t ON t.id = w.template_id WHERE t.id = ?1"))
        if (const auto present = renamed(row, former, renamed_restriction)) {
            Query query = connection.query("UPDATE winner SET config = ?2, restricted_to = ?3 WHERE id = ?1");
            query.bind_all(row.id, present->config, present->words).run();
        }
    for (const TextRow& row : rows_of("SELECT f.winner_id, f.position, f.family, f.config, f.name FROM finalist f "
                                      "JOIN winner w ON w.id = f.winner_id WHERE w.template_id = ?1 AND f.family <> ''"))
        if (const auto present = renamed(row, former, renamed_name)) {
            Query query = connection.query("UPDATE finalist SET config = ?3, name = ?4 WHERE winner_id = ?1 AND position = ?2");
            query.bind_all(row.id, row.position, present->config, present->words).run();
        }
    for (const TextRow& row :
         rows_of("SELECT r.id, 0, t.family, r.config, '' FROM trial r JOIN template t ON t.id = r.template_id "
                 "WHERE t.id = ?1"))
        if (const auto present = renamed(row, former, renamed_name)) {
            Query query = connection.query("UPDATE trial SET config = ?2 WHERE id = ?1");
            query.bind_all(row.id, present->config).run();
        }
}

std::int64_t count(Connection& connection, std::string_view sql, std::int64_t template_id) {
    Query query = connection.query(sql);
    query.bind(template_id);
    return query.next() ? query.integer() : 0;
}

void run(Connection& connection, std::string_view sql, std::int64_t template_id) {
    Query query = connection.query(sql);
    query.bind(template_id).run();
}

void remove_winner(Connection& connection, std::int64_t id) {
    run(connection, "DELETE FROM finalist WHERE winner_id = ?1", id);
    run(connection, "DELETE FROM evidence WHERE winner_id = ?1", id);
    run(connection, "DELETE FROM winner WHERE id = ?1", id);
}

// Chooses which of two winners of one key stays: the one that import would keep, and always a readable one.
bool is_former_better(Connection& connection, std::int64_t former, std::int64_t present) {
    const auto of_former = read_winner(connection, former, Detail::brief),
               of_present = read_winner(connection, present, Detail::brief);
    if (!of_former || of_former->wrong) return false;
    return !of_present || of_present->wrong || takes_over(of_former->winner, of_present->winner);
}

// Leaves one winner of each key that both templates have, and returns how many keys there were.
std::int64_t settle_rivals(Connection& connection, std::int64_t from, std::int64_t to) {
    std::vector<std::pair<std::int64_t, std::int64_t>> rivals;
    {
        Query query = connection.query(
            "SELECT f.id, p.id FROM winner f JOIN winner p ON p.class_id = f.class_id AND p.device_id = f.device_id AND "
            "p.e0 = f.e0 AND p.e1 = f.e1 AND p.e2 = f.e2 AND p.e3 = f.e3 AND p.e4 = f.e4 AND p.e5 = f.e5 AND p.e6 = f.e6 AND "
            "p.e7 = f.e7 AND p.template_id = ?2 AND p.restricted_to = f.restricted_to WHERE f.template_id = ?1");
        query.bind_all(from, to);
        while (query.next()) {
            const std::int64_t former = query.integer();
            rivals.emplace_back(former, query.integer());
        }
    }
    for (const auto& [former, present] : rivals)
        remove_winner(connection, is_former_better(connection, former, present) ? present : former);
    return static_cast<std::int64_t>(rivals.size());
}

// Moves the rows of a template to another one. If two trials have one key, the later one stays.
std::int64_t move_rows(Connection& connection, std::int64_t from, std::int64_t to) {
    const std::int64_t rivals = settle_rivals(connection, from, to);
    for (const std::string_view sql :
         {"DELETE FROM trial WHERE template_id = ?2 AND EXISTS (SELECT 1 FROM trial f INDEXED BY trial_key WHERE "
          "f.class_id = trial.class_id AND f.device_id = trial.device_id AND f.e0 = trial.e0 AND f.e1 = trial.e1 AND "
          "f.e2 = trial.e2 AND f.e3 = trial.e3 AND f.e4 = trial.e4 AND f.e5 = trial.e5 AND f.e6 = trial.e6 AND "
          "f.e7 = trial.e7 AND f.template_id = ?1 AND f.nvrtc = trial.nvrtc AND f.config = trial.config AND f.date > trial.date)",
          "UPDATE winner SET template_id = ?2 WHERE template_id = ?1",
          "UPDATE OR IGNORE trial SET template_id = ?2 WHERE template_id = ?1"}) {
        Query query = connection.query(sql);
        query.bind_all(from, to).run();
    }
    run(connection, "DELETE FROM trial WHERE template_id = ?1", from);
    run(connection, "DELETE FROM template WHERE id = ?1", from);
    return rivals;
}

std::optional<std::int64_t> find_template(Connection& connection, const std::string& family, const std::string& identity) {
    Query query = connection.query("SELECT id FROM template WHERE identity = ?1 AND family = ?2");
    query.bind_all(identity, family);
    return query.next() ? query.maybe_integer() : std::nullopt;
}

}  // namespace

void bring_up_to_date(Portfolio& portfolio, const FormerTemplates& former) {
    if (!former.present_identity || !former.present_parameter) return;
    for (auto& [family, identity] : portfolio.templates)
        if (auto present = former.present_identity(family, identity)) identity = std::move(*present);
    for (Candidate& candidate : portfolio.candidates) candidate.config = renamed(candidate.config, candidate.family, former);
}

bool has_former_rows(Connection& connection, const FormerTemplates& former) {
    return !former_templates_in(connection, former).empty();
}

UpdatedRows update_former_rows(Connection& connection, const FormerTemplates& former) {
    UpdatedRows updated;
    for (const FormerTemplate& from : former_templates_in(connection, former)) {
        updated.winners += count(connection, "SELECT count(*) FROM winner WHERE template_id = ?1", from.id);
        updated.trials += count(connection, "SELECT count(*) FROM trial WHERE template_id = ?1", from.id);
        rename_parameters_of(connection, from, former);
        if (const auto to = find_template(connection, from.family, from.present)) {
            updated.rivals += move_rows(connection, from.id, *to);
        } else {
            Query query = connection.query("UPDATE template SET identity = ?2 WHERE id = ?1");
            query.bind_all(from.id, from.present).run();
        }
    }
    return updated;
}

}  // namespace autotune::db
