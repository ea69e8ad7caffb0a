#include "db/text/merge.h"

#include <functional>
#include <optional>

#include "db/sqlite/failure.h"
#include "db/sqlite/sqlite_handle.h"
#include "db/store/integrity.h"
#include "db/store/store.h"
#include "db/text/importer.h"

namespace autotune::db {

namespace {

// The damage that a check of the whole file finds; nullopt if the user stopped the check.
std::optional<std::string> damage_of(Connection& connection, const std::function<bool()>& stopped) {
    const InterruptWhen watch(connection, stopped);
    std::string damage = quick_check_of(connection);  // if the user stops the check, SQLite reports damage too
    if (watch.has_interrupted()) return std::nullopt;
    return damage;
}

}  // namespace

bool check_source(const std::string& from_path, const std::function<bool()>& stopped) {
    const Store from = Store::open({.path = from_path, .read_only = true, .create = false});
    Connection connection({.path = from_path, .read_only = true, .busy_timeout_ms = OpenOptions{}.busy_timeout_ms});
    const std::optional<std::string> damage = damage_of(connection, stopped);
    if (!damage) return false;
    if (!damage->empty())
        throw database_error(from_path, "is damaged (" + *damage + ")", "merge a sound copy of it, nothing was taken");
    return true;
}

TakeReport take_from(WinnerStore& into, const std::string& from_path, const TakeOptions& options) {
    const Store from = Store::open({.path = from_path, .read_only = true, .create = false});
    Importer importer(into, options);
    std::int64_t row = 0;
    const auto offer = [&](const Winner& winner) {
        if (options.stopped && options.stopped()) return false;
        importer.offer(winner, "row " + std::to_string(++row));
        return !importer.is_stopped();
    };
    from.for_each_oldest_first({}, offer, [&](const std::string& why) { importer.refuse(from_path, {Refusal::malformed, why}); });
    return importer.finish();
}

TakeReport merge(WinnerStore& into, const std::string& from_path, const TakeOptions& options) {
    return check_source(from_path, options.stopped) ? take_from(into, from_path, options) : TakeReport{.stopped = true};
}

}  // namespace autotune::db
