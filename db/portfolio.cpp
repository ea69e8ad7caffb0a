#include "db/portfolio.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "db/store/former_rows.h"
#include "src/core/system/read_file.h"
#include "src/records/record_reader.h"
#include "src/records/record_writer.h"
#include "src/records/validate.h"

namespace autotune::db {
namespace {

constexpr std::size_t kMostCandidates = 64;
constexpr std::size_t kMostTemplates = 64;
constexpr std::size_t kMaxPortfolioBytes = std::size_t{64} << 20;

struct Entry {
    Candidate candidate;
};

template <class Visitor>
void visit_fields(Entry& entry, Visitor& fields) {
    fields.candidate(entry.candidate);
}
template <class Visitor>
void visit_fields(const Entry& entry, Visitor& fields) {
    fields.candidate(entry.candidate);
}

struct TemplateEntry {
    std::string family, identity;
};

template <class Visitor>
void visit_fields(TemplateEntry& entry, Visitor& fields) {
    fields.needed("family", entry.family);
    fields.needed("template", entry.identity);
}
template <class Visitor>
void visit_fields(const TemplateEntry& entry, Visitor& fields) {
    fields.needed("family", entry.family);
    fields.needed("template", entry.identity);
}

template <class Self, class Templates, class Entries, class Visitor>
void visit_portfolio(Self& portfolio, Templates& templates, Entries& entries, Visitor& fields) {
    fields.needed("op", portfolio.op);
    fields.needed("arch", portfolio.arch);
    fields.needed("class", portfolio.class_key);
    fields.member("problems", portfolio.problems);
    fields.member("regret_median", portfolio.regret_median);
    fields.member("regret_p90", portfolio.regret_p90);
    fields.list("templates", templates);
    fields.list("candidates", entries);
}

// Lines come from files, and their contents reach messages and the library's choice, so they are checked.
void require_sound(const Portfolio& portfolio, const std::vector<TemplateEntry>& templates) {
    if (!records::is_name(portfolio.op)) throw records::bad_record("\"op\" is not a name");
    if (!records::is_class_key(portfolio.class_key)) throw records::bad_record("\"class\" is not a short line of words");
    if (!records::is_name(portfolio.arch)) throw records::bad_record("\"arch\" is not a name");
    if (portfolio.problems < 0) throw records::bad_record("\"problems\" is less than 0");
    if (portfolio.candidates.empty() || portfolio.candidates.size() > kMostCandidates)
        throw records::bad_record("\"candidates\" has to be an array of 1 to " + std::to_string(kMostCandidates));
    for (const Candidate& each : portfolio.candidates) {
        if (!records::is_family_name(each.family)) throw records::bad_record("a family's name is not one of [a-z0-9_/]");
        if (const auto why = records::why_invalid(each.config)) throw records::bad_record(*why);
    }
    if (templates.size() > kMostTemplates) throw records::bad_record("\"templates\" has more than 64 entries");
    for (const TemplateEntry& each : templates) {
        if (!records::is_family_name(each.family)) throw records::bad_record("a family's name is not one of [a-z0-9_/]");
        if (each.identity.empty() || !records::is_text(each.identity))
            throw records::bad_record("a template's identity is missing or too long");
    }
}

}  // namespace

std::string portfolio_path(const std::string& shipped_folder) {
    return shipped_folder + "/portfolio/portfolios.jsonl";
}

std::vector<Portfolio> read_portfolios(const std::string& path, const std::function<void(const std::string&)>& warn,
                                       const FormerTemplates& former) {
    std::vector<Portfolio> portfolios;
    const FileContent content = read_regular_file(path, kMaxPortfolioBytes);
    if (!content.is_read) {
        const bool is_absent = content.code == ENOENT || content.code == ENOTDIR;
        if (!is_absent) warn("portfolios in " + path + " cannot be read (" + content.why + "); they are not used");
        return portfolios;
    }
    std::string_view rest = content.text;
    for (int number = 1; !rest.empty(); ++number) {
        const auto end = rest.find('\n');
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        try {
            portfolios.push_back(parse_portfolio(line));
            bring_up_to_date(portfolios.back(), former);
        } catch (const records::BadRecord& error) {
            warn(path + ":" + std::to_string(number) + ": " + error.what());
        }
    }
    return portfolios;
}

Portfolio parse_portfolio(std::string_view line) {
    const records::JsonValue value = records::parse_line(line);
    records::RecordReader fields(value, "", kInLines);
    Portfolio portfolio;
    std::vector<Entry> entries;
    std::vector<TemplateEntry> templates;
    visit_portfolio(portfolio, templates, entries, fields);
    fields.finish();
    for (Entry& entry : entries) portfolio.candidates.push_back(std::move(entry.candidate));
    require_sound(portfolio, templates);
    for (TemplateEntry& each : templates) portfolio.templates[std::move(each.family)] = std::move(each.identity);
    return portfolio;
}

std::string to_json_line(const Portfolio& portfolio) {
    std::vector<Entry> entries;
    for (const Candidate& each : portfolio.candidates) entries.push_back({each});
    std::vector<TemplateEntry> templates;
    for (const auto& [family, identity] : portfolio.templates) templates.push_back({family, identity});
    records::RecordWriter fields(kInLines);
    visit_portfolio(portfolio, std::as_const(templates), std::as_const(entries), fields);
    return fields.take().dump();
}

}  // namespace autotune::db
