#include "db/store/former_rows.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/store/pairs.h"
#include "src/records/validate.h"

namespace autotune::db {
namespace {

Config renamed(const Config& config, const std::string& family, const FormerTemplates& former) {
    Config present;
    for (const auto& [name, value] : config.values()) present.set(former.present_parameter(family, name), value);
    return present;
}

// "gemm/mma stages=3": a candidate's name or a config, with today's names of its parameters in the same order.
std::string renamed_name(const std::string& words, const std::string& family, const FormerTemplates& former) {
    std::vector<std::string> present;
    for (const std::string& word : words_from_text(words)) {
        const std::size_t equals = word.find('=');
        const bool is_parameter = equals != std::string::npos && equals > 0;
        present.push_back(is_parameter ? former.present_parameter(family, word.substr(0, equals)) + word.substr(equals) : word);
    }
    return records::cleaned(words_to_text(present), records::kMaxDetail);
}

// "family=gemm/mma group=4 stages=3": what a search was narrowed to. Its parameters stand in the order of today's names, because
// a later search finds the row by the whole text.
std::string renamed_restriction(const std::string& words, const std::string& family, const FormerTemplates& former) {
    std::vector<std::string> present;
    std::map<std::string, std::string> pins;
    for (const std::string& word : words_from_text(words)) {
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        if (equals == std::string::npos || name == "family" || name == "config")
            present.push_back(word);
        else
            pins[former.present_parameter(family, name)] = word.substr(equals);
    }
    for (const auto& [name, value] : pins) present.push_back(name + value);
    return records::cleaned(words_to_text(present));
}

void rename(Finalist& finalist, const FormerTemplates& former) {
    if (!finalist.candidate) return;
    finalist.candidate->config = renamed(finalist.candidate->config, finalist.candidate->family, former);
    finalist.name = renamed_name(finalist.name, finalist.candidate->family, former);
}

std::optional<std::string> present_identity(const FormerTemplates& former, const std::string& family,
                                            const std::string& identity) {
    return former.present_identity ? former.present_identity(family, identity) : std::nullopt;
}

// A template of the file whose rows are to be today's.
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

// The row with today's names; nullopt if it has them. `renamed_words`: for what its words are.
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

// Gives the rows of a template to another one. A row whose key the other has is older than that, and goes.
std::int64_t move_rows(Connection& connection, std::int64_t from, std::int64_t to) {
    for (const std::string_view sql : {"UPDATE OR IGNORE winner SET template_id = ?2 WHERE template_id = ?1",
                                       "UPDATE OR IGNORE trial SET template_id = ?2 WHERE template_id = ?1"}) {
        Query query = connection.query(sql);
        query.bind_all(from, to).run();
    }
    const std::int64_t superseded = count(connection, "SELECT count(*) FROM winner WHERE template_id = ?1", from);
    run(connection, "DELETE FROM finalist WHERE winner_id IN (SELECT id FROM winner WHERE template_id = ?1)", from);
    run(connection, "DELETE FROM evidence WHERE winner_id IN (SELECT id FROM winner WHERE template_id = ?1)", from);
    run(connection, "DELETE FROM winner WHERE template_id = ?1", from);
    run(connection, "DELETE FROM trial WHERE template_id = ?1", from);
    run(connection, "DELETE FROM template WHERE id = ?1", from);
    return superseded;
}

std::optional<std::int64_t> find_template(Connection& connection, const std::string& family, const std::string& identity) {
    Query query = connection.query("SELECT id FROM template WHERE identity = ?1 AND family = ?2");
    query.bind_all(identity, family);
    return query.next() ? query.maybe_integer() : std::nullopt;
}

}  // namespace

void bring_up_to_date(Winner& winner, const FormerTemplates& former) {
    const std::string& family = winner.candidate.family;
    auto present = present_identity(former, family, winner.template_identity);
    if (!present) return;
    winner.template_identity = std::move(*present);
    winner.candidate.config = renamed(winner.candidate.config, family, former);
    winner.restricted_to = renamed_restriction(winner.restricted_to, family, former);
    for (Finalist& finalist : winner.evidence.finalists) rename(finalist, former);
}

void bring_up_to_date(StoredTrial& trial, const FormerTemplates& former) {
    Candidate& candidate = trial.trial.candidate;
    auto present = present_identity(former, candidate.family, trial.template_identity);
    if (!present) return;
    trial.template_identity = std::move(*present);
    candidate.config = renamed(candidate.config, candidate.family, former);
}

void bring_up_to_date(Portfolio& portfolio, const FormerTemplates& former) {
    for (auto& [family, identity] : portfolio.templates) {
        auto present = present_identity(former, family, identity);
        if (!present) continue;
        identity = std::move(*present);
        for (Candidate& candidate : portfolio.candidates)
            if (candidate.family == family) candidate.config = renamed(candidate.config, family, former);
    }
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
            updated.superseded += move_rows(connection, from.id, *to);
        } else {
            Query query = connection.query("UPDATE template SET identity = ?2 WHERE id = ?1");
            query.bind_all(from.id, from.present).run();
        }
    }
    return updated;
}

}  // namespace autotune::db
