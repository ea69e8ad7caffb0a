#include "db/text/transfer.h"

#include <ios>
#include <istream>
#include <ostream>

#include "db/text/importer.h"
#include "src/core/error.h"
#include "src/core/system/read_file.h"
#include "src/records/json_line.h"
#include "src/records/json_value.h"

namespace autotune::db {
namespace {

// Reads the lines of a stream.
class LineReader {
  public:
    explicit LineReader(std::istream& in) : buffer_(*in.rdbuf()) {}

    // Reads the next line without its end. Returns false at the end, or if reading fails; why() then has the reason. A line over
    // kMaxLineBytes is cut, which makes it invalid.
    bool next(std::string& line) {
        line.clear();
        std::size_t bytes = 0;
        int letter = take();
        if (letter == kEnd) return false;
        for (; letter != kEnd && letter != '\n'; letter = take()) {
            if (line.size() <= records::kMaxLineBytes) line += static_cast<char>(letter);
            if (++bytes > kMostLineBytes) {
                why_ = "it is longer than 16 MiB, so this is no file of winners";
                return false;
            }
        }
        return why_.empty();
    }
    const std::string& why() const { return why_; }

  private:
    static constexpr int kEnd = std::char_traits<char>::eof();

    int take() {
        try {
            return buffer_.sbumpc();
        } catch (const std::ios_base::failure& error) {
            why_ = "it cannot be read (" + error.code().message() + ")";
        }
        return kEnd;
    }

    std::streambuf& buffer_;
    std::string why_;
};

void offer_line(Importer& importer, std::string_view line, const std::string& where) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    std::optional<Winner> winner;
    try {
        winner = records::from_json_line(line);
    } catch (const Error& error) {
        importer.refuse(where, {Refusal::malformed, error.what()});
    }
    if (winner) importer.offer(*winner, where);
}

}  // namespace

std::int64_t export_lines(const WinnerStore& store, const Filter& filter, std::ostream& out) {
    std::int64_t written = 0;
    store.for_each_oldest_first(filter, [&](const Winner& winner) {
        out << records::to_json_line(winner) << '\n';
        ++written;
        return out.good();
    });
    out.flush();
    if (!out)
        throw Error(ErrorCode::database,
                    "exporting " + store.path() + " failed while writing; check the target's free space and permissions");
    return written;
}

TakeReport import_lines(WinnerStore& store, std::istream& in, const TakeOptions& options) {
    Importer importer(store, options);
    LineReader reader(in);
    std::int64_t number = 0;
    try {
        for (std::string line; reader.next(line) && !importer.is_stopped();) {
            const std::string_view text = ++number == 1 ? without_mark(line) : std::string_view(line);
            offer_line(importer, text, "line " + std::to_string(number));
        }
    } catch (...) {
        importer.finish();  // A caller's stream may throw anything. The rows that were read before are kept.
        throw;
    }
    if (!reader.why().empty()) {
        importer.refuse("line " + std::to_string(number + 1),
                        {Refusal::malformed, reader.why() + "; reading ends here, the lines before are taken"});
    }
    return importer.finish();
}

std::string_view to_string(Refusal reason) {
    switch (reason) {
        case Refusal::malformed:
            return "malformed";
        case Refusal::unusable:
            return "unusable";
        case Refusal::impossible:
            return "impossible";
    }
    return "";
}

}  // namespace autotune::db
