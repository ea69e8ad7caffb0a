#include <fstream>
#include <optional>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/rows.h"

namespace autotune::cli {
namespace {

constexpr std::size_t kLongestLine = 1u << 20;

// The row of a line, or nullopt after a warning: a line that cannot be read does not end the import.
std::optional<db::Winner> read_row(Session& session, const std::string& line, const std::string& where, Absorbed& tally) {
    try {
        if (line.size() > kLongestLine) throw Error(ErrorCode::database, "the line is longer than 1 MiB");
        return db::from_json_line(line);
    } catch (const Error& error) {
        ++tally.refused;
        session.warn(where + ": refused: " + error.what());
        return std::nullopt;
    }
}

void import_file(Session& session, db::Store& store, const std::string& path, Absorbed& tally) {
    std::ifstream file(path);
    if (!file) throw Error(ErrorCode::usage, "cannot read '" + path + "'; give a file that `autotune export` wrote");
    std::size_t number = 0;
    for (std::string line; std::getline(file, line);) {
        const std::string where = path + ":" + std::to_string(++number);
        if (session.stopped()) throw Error(ErrorCode::interrupted, "interrupted; the lines before " + where + " are stored");
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        if (const auto row = read_row(session, line, where, tally)) absorb(session, store, *row, where, tally);
    }
    if (file.bad()) throw Error(ErrorCode::usage, "cannot read '" + path + "' to its end");
}

ExitCode run(Session& session, const Arguments& arguments) {
    db::Store store = session.open_store();
    Absorbed tally;
    for (const std::string& path : arguments.words()) import_file(session, store, path, tally);
    print_absorbed(session, tally);
    return tally.exit_code();
}

}  // namespace

Command import_command() {
    return {.name = "import",
            .about = "take winners from files that export wrote; every row is checked",
            .examples = {"autotune import winners.jsonl"},
            .flags = std::vector<Flag>{{"replace", "", "take a row even if ours is newer", false, {}}, templates_flag()} +
                     store_flags() + output_flags(),
            .takes_op_options = false,
            .words = "FILE...",
            .fewest_words = 1,
            .run = run};
}

}  // namespace autotune::cli
