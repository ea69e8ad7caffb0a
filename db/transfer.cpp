#include "db/transfer.h"

#include <istream>
#include <ostream>

#include "db/json_fields.h"
#include "db/taker.h"
#include "src/core/error.h"

namespace autotune::db {
namespace {

// The next line without its end, or a beginning of one that is longer than a line may be. False at the end.
bool next_line(std::istream& in, std::string& line) {
    line.clear();
    std::streambuf& buffer = *in.rdbuf();
    constexpr int kEnd = std::char_traits<char>::eof();
    int letter = buffer.sbumpc();
    if (letter == kEnd) return false;
    for (; letter != kEnd && letter != '\n' && line.size() <= kMaxLineBytes; letter = buffer.sbumpc()) {
        line += static_cast<char>(letter);
    }
    return true;
}

}  // namespace

std::int64_t export_lines(const Store& store, const Filter& filter, std::ostream& out) {
    std::int64_t written = 0;
    store.for_each_oldest_first(filter, [&](const Winner& winner) {
        out << to_json_line(winner) << '\n';
        ++written;
        return out.good();
    });
    out.flush();
    if (!out)
        throw Error(ErrorCode::database,
                    "exporting " + store.path() + " failed while writing; check the target's free space and permissions");
    return written;
}

TakeReport import_lines(Store& store, std::istream& in, const TakeOptions& options) {
    Taker taker(store, options);
    std::string line;
    for (std::int64_t number = 1; next_line(in, line); ++number) {
        if (options.stopped && options.stopped()) break;
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        const std::string where = "line " + std::to_string(number);
        if (line.size() > kMaxLineBytes) {
            taker.refuse(where, "it is longer than 1 MiB; what follows it is not read");
            break;
        }
        std::optional<Winner> winner;
        try {
            winner = from_json_line(line);
        } catch (const Error& error) {
            taker.refuse(where, error.what());
        }
        if (winner) taker.offer(*winner, where);
    }
    return taker.finish();
}

}  // namespace autotune::db
