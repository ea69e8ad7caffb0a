#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "db/sqlite/warning_log.h"
#include "db/store/rows.h"
#include "db/winner_store.h"

namespace autotune::db {

// The read-only layer: JSONL files that came with the product. The first query reads the files once. A query finds its lines by
// their first members (op, class, extents) and parses only those, each once. A file that cannot be read or an invalid line is
// skipped with a warning.
class Shipped {
  public:
    // Keeps a reference to the log.
    Shipped(std::vector<std::string> paths, FormerTemplates former, WarningLog& log)
        : paths_(std::move(paths)), former_(std::move(former)), log_(log) {}

    std::vector<Winner> find(const ProblemKey& problem_key);
    // Winners of the same class and device with other extents, or of similar cards with any extents: the `count` nearest by
    // log_distance(), nearest first. They live as long as this.
    std::vector<const Winner*> nearest(const ProblemKey& problem_key, std::size_t count, Cards cards = Cards::this_card);
    std::vector<Winner> list(const Filter& filter);
    // Unparsed lines count as valid.
    std::int64_t count(const Filter& filter);

  private:
    struct Line {
        std::string_view text;  // into files_
        std::string where;      // "FILE" of "FILE:12", for warnings
        int number = 0;
        std::string_view op, arch, class_key;
        std::vector<Extent> extents;
        DeviceIdentity device;
        enum class State { unread, good, bad } state = State::unread;
        Winner winner;
    };
    // Shipped winners of the problem's class, for this card or for cards like it, as `cards` says.
    std::vector<Line*> lines_about(const ProblemKey& problem_key, Cards cards);
    // The line's winner, if it is of the problem's class and its card is one of `cards`.
    const Winner* winner_for(const ProblemKey& problem_key, Line& line, Cards cards);
    void load();
    void load_path(const std::string& path);
    void load_file(const std::string& path);
    void index(const std::string& path, std::string_view content);
    const Winner* parsed(Line& line);
    static bool may_match(const Line& line, const Filter& filter);

    std::vector<std::string> paths_;
    FormerTemplates former_;
    WarningLog& log_;
    bool loaded_ = false;
    std::vector<std::unique_ptr<std::string>> files_;
    std::vector<Line> lines_;
};

}  // namespace autotune::db
