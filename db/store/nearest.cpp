#include "db/store/nearest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <queue>
#include <string>

#include "src/core/immortal.h"

namespace autotune::db {
namespace {

// One search reads at most this many index entries; each takes about 3 us.
constexpr int kMostLookUps = 1000;

// One statement per level and direction. Their texts live as long as the connections that cache the prepared statements.
struct Statements {
    // Finds the smallest value of an extent from ?N on, for given values of the extents before it
    std::array<std::string, records::kMaxExtents> above;
    std::array<std::string, records::kMaxExtents> below;  // the greatest value below ?N
    std::array<std::string, records::kMaxExtents> rows;   // finds the rows with given values of all extents, newest first

    Statements() {
        const std::string from = " FROM winner INDEXED BY winner_key WHERE class_id = ?1 AND device_id = ?2";
        std::string given;
        for (std::size_t level = 0; level < records::kMaxExtents; ++level) {
            const std::string column = "e" + std::to_string(level);
            const std::string parameter = "?" + std::to_string(level + 3);
            const std::string select = "SELECT " + column + from + given + " AND " + column;
            above.at(level) = select + " >= " + parameter + " ORDER BY " + column + " LIMIT 1";
            below.at(level) = select + " < " + parameter + " ORDER BY " + column + " DESC LIMIT 1";
            given += " AND " + column + " = " + parameter;
            rows.at(level) = "SELECT id" + from + given + " ORDER BY id DESC";
        }
    }
};

const Statements& statements() {
    static const Immortal<Statements> all;
    return *all;
}

double logarithm(std::int64_t value) {
    return std::log(static_cast<double>(std::max<std::int64_t>(value, 1)));
}

// A position in the index: the extents before `level` are chosen, and that of `level` is visited next in the cursor's direction.
struct Cursor {
    std::array<std::int64_t, records::kMaxExtents> values{};
    std::size_t level = 0;
    bool is_upward = true;
    double before = 0;  // distance from the extents before `level`
    double bound = 0;   // A lower bound of the distances of all rows that this cursor will reach.
};

struct IsFarther {
    bool operator()(const Cursor& a, const Cursor& b) const { return a.bound > b.bound; }
};

// Best-first search: the cursor with the lowest bound advances to its next value and to the next extent.
class NearestSearch {
  public:
    NearestSearch(Connection& connection, const RowKey& row_key, const ProblemKey& problem_key, Cards cards)
        : connection_(connection),
          row_key_(row_key),
          wanted_(problem_key.extents),
          last_(problem_key.extents.size() - 1),
          takes_wanted_(cards != Cards::this_card) {}

    std::vector<NearRow> first(std::size_t count) {
        open(Cursor{});
        while (!open_.empty() && found_.size() < count && looked_up_ < kMostLookUps) {
            const Cursor next = take();
            pass(next);
            descend(next);
        }
        // The budget is used up, so the nearest rows for the extents chosen so far are taken without proof.
        for (std::size_t i = 0; i < count && !open_.empty() && found_.size() < count; ++i) dive(take());
        return std::move(found_);
    }

  private:
    Cursor take() {
        const Cursor nearest = open_.top();
        open_.pop();
        return nearest;
    }

    // The cursor at the first value from `start` on, in its direction, or nullopt at the end.
    std::optional<Cursor> at_value(Cursor cursor, std::int64_t start) {
        ++looked_up_;
        const Statements& sql = statements();
        Query query = connection_.query(cursor.is_upward ? sql.above.at(cursor.level) : sql.below.at(cursor.level));
        query.bind_all(row_key_.class_id, row_key_.device_id);
        for (std::size_t level = 0; level < cursor.level; ++level) query.bind(cursor.values.at(level));
        query.bind(start);
        if (!query.next()) return std::nullopt;
        const std::int64_t value = query.integer();
        cursor.values.at(cursor.level) = value;
        cursor.bound = cursor.before + std::abs(logarithm(value) - logarithm(wanted_[cursor.level].value));
        return cursor;
    }

    void step(const Cursor& cursor, std::int64_t start) {
        if (const auto next = at_value(cursor, start)) open_.push(*next);
    }

    // Advances the cursor to its next value.
    void pass(const Cursor& cursor) {
        const std::int64_t value = cursor.values.at(cursor.level);
        if (!cursor.is_upward) {
            step(cursor, value);
        } else if (value < std::numeric_limits<std::int64_t>::max()) {
            step(cursor, value + 1);
        }
    }

    // Starts both directions from the requested value of the cursor's level.
    void open(Cursor cursor) {
        cursor.before = cursor.bound;
        for (const bool is_upward : {true, false}) {
            cursor.is_upward = is_upward;
            step(cursor, wanted_[cursor.level].value);
        }
    }

    void descend(Cursor cursor) {
        if (cursor.level == last_) {
            collect(cursor);
            return;
        }
        ++cursor.level;
        open(cursor);
    }

    // Takes the nearest value of every remaining extent.
    void dive(Cursor cursor) {
        while (cursor.level < last_) {
            ++cursor.level;
            cursor.before = cursor.bound;
            std::optional<Cursor> nearer;
            for (const bool is_upward : {true, false}) {
                cursor.is_upward = is_upward;
                const auto value = at_value(cursor, wanted_[cursor.level].value);
                if (value && (!nearer || value->bound < nearer->bound)) nearer = value;
            }
            if (!nearer) return;
            cursor = *nearer;
        }
        collect(cursor);
    }

    void collect(const Cursor& cursor) {
        const bool is_wanted = std::equal(wanted_.begin(), wanted_.end(), cursor.values.begin(),
                                          [](const Extent& extent, std::int64_t value) { return extent.value == value; });
        if (is_wanted && !takes_wanted_) return;
        ++looked_up_;
        Query query = connection_.query(statements().rows.at(last_));
        query.bind_all(row_key_.class_id, row_key_.device_id);
        for (std::size_t level = 0; level <= last_; ++level) query.bind(cursor.values.at(level));
        while (query.next()) found_.push_back({query.integer(), cursor.bound});
    }

    Connection& connection_;
    const RowKey& row_key_;
    const std::vector<Extent>& wanted_;
    std::size_t last_;
    bool takes_wanted_;
    std::priority_queue<Cursor, std::vector<Cursor>, IsFarther> open_;
    std::vector<NearRow> found_;
    int looked_up_ = 0;
};

}  // namespace

std::vector<NearRow> nearest_rows(Connection& connection, const ProblemKey& problem_key, std::size_t count, Cards cards) {
    if (problem_key.extents.empty() || problem_key.extents.size() > records::kMaxExtents) return {};
    std::vector<NearRow> rows;
    for (const RowKey& row_key : find_row_keys(connection, problem_key, cards)) {
        const std::vector<NearRow> found = NearestSearch(connection, row_key, problem_key, cards).first(count);
        rows.insert(rows.end(), found.begin(), found.end());
    }
    std::sort(rows.begin(), rows.end(), [](const NearRow& a, const NearRow& b) {
        return a.distance != b.distance ? a.distance < b.distance : a.id > b.id;
    });
    return rows;
}

}  // namespace autotune::db
