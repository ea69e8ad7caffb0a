#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "db/verdicts.h"

namespace autotune::dispatch {

// A label: a set of winners and verdicts that never changes, as a file. Its first line is the head, each other line a winner
// (docs/database.md) or a verdict (db/text/verdict_line.h). The digest is SHA-256 over all lines after the head.
struct Label {
    std::string name, digest;
    std::int64_t rows = 0;
    std::string lines{};  // of winners and verdicts, each ended by a newline
};

// Lines of at most this many bytes, and files of at most this many.
inline constexpr std::size_t kMostLabelLineBytes = std::size_t{1} << 20, kMostLabelBytes = std::size_t{256} << 20;

// ^[a-z0-9][a-z0-9._-]{0,63}$
bool is_label_name(std::string_view name);
// "FOLDER/NAME.jsonl".
std::string label_path(const std::string& folder, const std::string& name);

std::string label_text(const Label& label);
// Reads a label and checks its digest and its number of rows. Throws Error{database} with the path, what is wrong and what to do.
Label read_label(const std::string& path);
// In the order of the label. Throws Error{database} if one of them cannot be.
std::vector<db::Verdict> verdicts_of(const Label& label);

}  // namespace autotune::dispatch
