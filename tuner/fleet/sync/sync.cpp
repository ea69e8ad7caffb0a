#include "tuner/fleet/sync/sync.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "db/text/verdict_line.h"
#include "src/catalogue/sha256.h"
#include "src/core/error.h"
#include "src/core/system/private_folder.h"
#include "src/core/system/read_file.h"
#include "src/core/system/write_file.h"
#include "src/dispatch/rules/stored_winner.h"
#include "src/records/json_line.h"
#include "tuner/fleet/source/catalogue_identity.h"

namespace autotune::fleet {
namespace {

using dispatch::Label;
using nlohmann::json;

constexpr int kLinesAtOnce = 500;
constexpr std::size_t kMostStateBytes = std::size_t{64} << 20;

// Counts that were posted, by miss. A file that cannot be read counts as empty: its misses are posted again.
std::map<std::string, std::int64_t> read_posted(const std::string& path) {
    std::map<std::string, std::int64_t> posted;
    const FileContent content = read_regular_file(path, kMostStateBytes);
    if (!content.is_read) return posted;
    const json read = json::parse(content.text, nullptr, false);
    if (!read.is_object()) return posted;
    for (const auto& [key, value] : read.items())
        if (value.is_number_integer()) posted[key] = value.get<std::int64_t>();
    return posted;
}

void make_folder(const std::string& folder) {
    std::string failed_at;
    if (const int code = make_private_folders(folder, &failed_at))
        throw Error(ErrorCode::database, "the folder of labels cannot be made: " + failed_at + ": " + errno_text(code));
}

// Readers of a label expect lines that parse, so all are checked.
void check_lines(const Label& label, const std::string& from) {
    std::string_view rest = label.lines;
    for (std::int64_t number = 1; !rest.empty(); ++number) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(line.size() + 1);
        try {
            if (line.size() > dispatch::kMostLabelLineBytes) throw Error(ErrorCode::database, "it is longer than 1 MiB");
            if (!db::is_verdict_line(line)) records::from_json_line(line);
        } catch (const Error& error) {
            throw Error(ErrorCode::database, "label " + label.name + " of " + from + " is refused: line " +
                                                 std::to_string(number) + ": " + error.what());
        }
    }
}

// A new label's file is complete under its name at once. A channel is a link to it.
Pulled keep(Label label, bool is_new, const std::string& channel, const std::string& folder) {
    const auto verdicts = static_cast<std::int64_t>(dispatch::verdicts_of(label).size());
    Pulled pulled{std::move(label), verdicts, "", is_new, ""};
    pulled.path = dispatch::label_path(folder, pulled.label.name);
    const std::error_code unwritten = is_new ? replace_file(pulled.path, dispatch::label_text(pulled.label)) : std::error_code();
    if (unwritten)
        throw Error(ErrorCode::database,
                    "label " + pulled.path + " cannot be written: " + unwritten.message() + "; the old one stays");
    if (!channel.empty() && channel != pulled.label.name) {
        const std::string link = dispatch::label_path(folder, channel), beside = link + ".new";
        std::error_code ignored, failed;
        pulled.before = std::filesystem::read_symlink(link, ignored).stem().string();
        std::filesystem::remove(beside, ignored);
        std::filesystem::create_symlink(pulled.label.name + ".jsonl", beside, failed);
        if (!failed) std::filesystem::rename(beside, link, failed);
        if (failed)
            throw Error(ErrorCode::database,
                        "channel " + link + " cannot be changed: " + failed.message() + "; it shows what it showed");
    }
    pulled.label.lines.clear();
    return pulled;
}

// The label that this host already has, if its file is intact.
std::optional<Label> known_label(const std::string& folder, const std::string& name, const std::string& digest) {
    try {
        Label known = dispatch::read_label(dispatch::label_path(folder, name));
        if (known.name == name && known.digest == digest) return known;
    } catch (const Error&) {
        // The file is absent, incomplete or changed.
    }
    return std::nullopt;
}

void require_label_name(const std::string& name) {
    if (!dispatch::is_label_name(name))
        throw Error(ErrorCode::usage,
                    "'" + name + "' is no name of a label: small letters, digits, '.', '_' and '-', at most 64");
}

Label fetched_label(FleetStore& store, const LabelFacts& facts) {
    Label label{facts.name, facts.digest, facts.rows, ""};
    for (std::int64_t after = 0; after < facts.rows;) {
        const std::vector<StoredLine> lines = store.label_lines(facts.name, after, kLinesAtOnce);
        if (lines.empty()) break;
        for (const StoredLine& each : lines) label.lines += each.line + "\n";
        after = lines.back().id;
        if (label.lines.size() > dispatch::kMostLabelBytes)
            throw Error(ErrorCode::database, "label " + label.name + " of the store is refused: it is larger than 256 MiB");
    }
    if (sha256_hex(label.lines) != label.digest)
        throw Error(ErrorCode::database, "label " + label.name + " of the store is refused: its lines do not have its digest");
    check_lines(label, "the store");
    return label;
}

}  // namespace

PostReport post_misses(FleetStore& store, const db::WinnerStore& misses, const Catalogue& catalogue,
                       const std::string& state_path) {
    PostReport report;
    const std::map<std::string, std::int64_t> posted = read_posted(state_path);
    std::map<std::string, std::string> identities;
    std::map<std::string, std::int64_t> counts;
    std::vector<Wanted> wanted;
    for (const db::MissRow& miss : misses.misses()) {
        const auto problem = problem_of(catalogue, miss);
        if (!problem) {
            ++report.unknown;
            continue;
        }
        const auto [identity, is_new] = identities.try_emplace(problem->op);
        if (is_new) identity->second = catalogue_identity(catalogue, problem->op);
        const std::string key = problem->key() + " on " + miss.device_key + " with " + identity->second;
        const auto known = posted.find(key);
        // If a miss was tuned and occurs again, its count starts again.
        const std::int64_t before = known == posted.end() || known->second > miss.count ? 0 : known->second;
        counts[key] = miss.count;
        if (miss.count > before)
            wanted.push_back({problem->class_key(), problem->shape(), miss.device_key, identity->second, miss.count - before});
    }
    report.wanted = store.want(wanted, kPriorityOfMisses);
    make_folder(std::filesystem::path(state_path).parent_path().string());
    if (const std::error_code failed = replace_file(state_path, json(counts).dump() + "\n")) report.not_noted = failed.message();
    return report;
}

VerdictsPosted post_verdicts(FleetStore& store, const std::vector<db::Verdict>& verdicts, const std::string& state_path) {
    VerdictsPosted posted;
    posted.verdicts = verdicts.size();
    std::string text;
    std::vector<PostedVerdict> list;
    for (const db::Verdict& each : verdicts) {
        text += db::verdict_line(each) + "\n";
        list.push_back({each.problem, each.device, each.rival, each.in_stream, each.in_graphs, each.date});
    }
    const std::string digest = sha256_hex(text) + "\n";
    const FileContent before = read_regular_file(state_path, kMostStateBytes);
    posted.is_unchanged = verdicts.empty() || (before.is_read && before.text == digest);
    if (posted.is_unchanged) return posted;
    posted.report = store.post_verdicts(list);
    make_folder(std::filesystem::path(state_path).parent_path().string());
    if (const std::error_code failed = replace_file(state_path, digest)) posted.not_noted = failed.message();
    return posted;
}

Pulled pull_label(FleetStore& store, const std::string& name, const std::string& folder) {
    require_label_name(name);
    const std::optional<LabelFacts> facts = store.label(name);
    if (!facts)
        throw Error(ErrorCode::database,
                    "the store has no label or channel '" + name + "'; `autotune fleet list labels` lists them");
    if (!dispatch::is_label_name(facts->name))
        throw Error(ErrorCode::database, "the store calls a label '" + facts->name + "', which is no name; it is refused");
    make_folder(folder);
    const std::string channel = facts->name == name ? "" : name;
    if (std::optional<Label> known = known_label(folder, facts->name, facts->digest))
        return keep(*std::move(known), false, channel, folder);
    return keep(fetched_label(store, *facts), true, channel, folder);
}

Pulled take_label(const std::string& file, const std::string& channel, const std::string& folder) {
    if (!channel.empty()) require_label_name(channel);
    Label label = dispatch::read_label(file);
    check_lines(label, file);
    make_folder(folder);
    const bool is_new = !known_label(folder, label.name, label.digest);
    return keep(std::move(label), is_new, channel, folder);
}

std::string label_line(const db::Winner& winner) {
    db::Winner line = winner;
    line.evidence.failures.clear();
    std::erase_if(line.evidence.finalists, [](const Finalist& each) { return each.candidate.has_value(); });
    return records::to_json_line(line);
}

}  // namespace autotune::fleet
