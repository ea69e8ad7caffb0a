#include "db/portfolio.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "db/record_reader.h"
#include "db/record_writer.h"
#include "src/core/text.h"

namespace autotune::db {
namespace {

constexpr std::size_t kMostCandidates = 64;

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

template <class Self, class Entries, class Visitor>
void visit_portfolio(Self& portfolio, Entries& entries, Visitor& fields) {
    fields.needed("op", portfolio.op);
    fields.needed("arch", portfolio.arch);
    fields.needed("class", portfolio.class_key);
    fields.member("problems", portfolio.problems);
    fields.member("regret_median", portfolio.regret_median);
    fields.member("regret_p90", portfolio.regret_p90);
    fields.list("candidates", entries);
}

Portfolio portfolio_of(std::string_view line) {
    const JsonValue value = parse_line(line);
    RecordReader fields(value, "", kInLines);
    Portfolio portfolio;
    std::vector<Entry> entries;
    visit_portfolio(portfolio, entries, fields);
    fields.finish();
    if (entries.empty() || entries.size() > kMostCandidates)
        throw bad_record("\"candidates\" has to be an array of 1 to " + std::to_string(kMostCandidates));
    for (Entry& entry : entries) portfolio.candidates.push_back(std::move(entry.candidate));
    return portfolio;
}

std::vector<std::string> words_of(std::string_view text) {
    std::istringstream stream{std::string(text)};
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

// "acc=f32": what one class's time says nothing about in another's. "" where there is none.
std::string accumulator_of(const std::vector<std::string>& words) {
    const auto found = std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with("acc="); });
    return found == words.end() ? "" : *found;
}

// How much two words at one place of class keys have in common. How data lie changes which kernels are fast; which of two types
// of one size they have hardly does. Of alignments it matters which tensors have rows of 16 bytes.
std::size_t shared_by(const std::string& a, const std::string& b) {
    if (a.starts_with("align=") && b.starts_with("align=")) {
        const std::vector<std::string> of_a = split(a.substr(6), ','), of_b = split(b.substr(6), ',');
        std::size_t shared = a == b ? 1 : 0;
        for (std::size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i)
            shared += (of_a[i] == "16") == (of_b[i] == "16") ? 2 : 0;
        return shared;
    }
    if (a != b) return 0;
    return a.starts_with("layout=") ? 6 : 1;
}

}  // namespace

std::string portfolio_path(const std::string& shipped_folder) {
    return shipped_folder + "/portfolio/portfolios.jsonl";
}

std::vector<Portfolio> read_portfolios(const std::string& path, const std::function<void(const std::string&)>& warn) {
    std::vector<Portfolio> portfolios;
    std::ifstream file(path);
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        try {
            portfolios.push_back(portfolio_of(line));
        } catch (const BadRecord& error) {
            warn(path + ":" + std::to_string(number) + ": " + error.what());
        }
    }
    return portfolios;
}

std::string to_json_line(const Portfolio& portfolio) {
    std::vector<Entry> entries;
    for (const Candidate& each : portfolio.candidates) entries.push_back({each});
    RecordWriter fields(kInLines);
    visit_portfolio(portfolio, std::as_const(entries), fields);
    return fields.take().dump();
}

const Portfolio* portfolio_for(std::span<const Portfolio> portfolios, std::string_view class_key, std::string_view arch) {
    const std::vector<std::string> wanted = words_of(class_key);
    const Portfolio* best = nullptr;
    std::size_t most_shared = 0;
    for (const Portfolio& each : portfolios) {
        const std::vector<std::string> words = words_of(each.class_key);
        if (wanted.empty() || each.op != wanted.front() || each.arch != arch) continue;
        if (accumulator_of(words) != accumulator_of(wanted)) continue;
        std::size_t shared = 0;
        for (std::size_t i = 0; i < std::min(words.size(), wanted.size()); ++i) shared += shared_by(words[i], wanted[i]);
        if (best == nullptr || shared > most_shared) best = &each, most_shared = shared;
    }
    return best;
}

}  // namespace autotune::db
