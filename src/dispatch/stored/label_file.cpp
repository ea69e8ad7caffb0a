#include "src/dispatch/stored/label_file.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "db/text/verdict_line.h"
#include "src/catalogue/sha256.h"
#include "src/core/error.h"
#include "src/core/system/read_file.h"

namespace autotune::dispatch {
namespace {

constexpr std::string_view kHead = R"({"autotune_label":1,"name":")", kDigest = R"(","digest":")", kRows = R"(","rows":)";
constexpr std::size_t kDigestDigits = 64;

bool is_name_letter(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

bool take(std::string_view& text, std::string_view expected) {
    if (!text.starts_with(expected)) return false;
    text.remove_prefix(expected.size());
    return true;
}

std::string_view take_until(std::string_view& text, char end) {
    const std::string_view found = text.substr(0, text.find(end));
    text.remove_prefix(found.size());
    return found;
}

// Reads the head, which must have exactly the form that label_text() writes, so that a label has only one text.
std::optional<Label> head_of(std::string_view line) {
    Label label;
    if (!take(line, kHead)) return std::nullopt;
    label.name = take_until(line, '"');
    if (!take(line, kDigest)) return std::nullopt;
    label.digest = take_until(line, '"');
    if (!take(line, kRows)) return std::nullopt;
    const auto [end, failed] = std::from_chars(line.data(), line.data() + line.size(), label.rows);
    line.remove_prefix(static_cast<std::size_t>(end - line.data()));
    if (failed != std::errc() || line != "}" || !is_label_name(label.name) || label.digest.size() != kDigestDigits)
        return std::nullopt;
    return label;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
    throw Error(ErrorCode::database, "label " + path + " is not used: " + why + "; `autotune sync` fetches it again");
}

}  // namespace

bool is_label_name(std::string_view name) {
    return !name.empty() && name.size() <= 64 && is_name_letter(name.front()) &&
           std::all_of(name.begin(), name.end(),
                       [](char each) { return is_name_letter(each) || each == '.' || each == '_' || each == '-'; });
}

std::string label_path(const std::string& folder, const std::string& name) {
    return folder + "/" + name + ".jsonl";
}

std::string label_text(const Label& label) {
    std::string text(kHead);
    text.append(label.name).append(kDigest).append(label.digest).append(kRows).append(std::to_string(label.rows)).append("}\n");
    return text + label.lines;
}

Label read_label(const std::string& path) {
    FileContent content = read_regular_file(path, kMostLabelBytes);
    if (!content.is_read) refuse(path, content.why);
    const std::size_t end = content.text.find('\n');
    std::optional<Label> label = end == std::string::npos ? std::nullopt : head_of(std::string_view(content.text).substr(0, end));
    if (!label) refuse(path, "its first line is not the head of a label that this version can read");
    label->lines = content.text.substr(end + 1);
    const auto rows = std::count(label->lines.begin(), label->lines.end(), '\n');
    if (rows != label->rows) refuse(path, "it has " + std::to_string(rows) + " of " + std::to_string(label->rows) + " winners");
    if (sha256_hex(label->lines) != label->digest) refuse(path, "its lines do not have its digest");
    return *std::move(label);
}

std::vector<db::Verdict> verdicts_of(const Label& label) {
    std::vector<db::Verdict> found;
    for (std::string_view rest = label.lines; !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(rest.size(), line.size() + 1));
        if (db::is_verdict_line(line)) found.push_back(db::verdict_of_line(line));
    }
    return found;
}

}  // namespace autotune::dispatch
