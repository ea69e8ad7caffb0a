#include "src/core/statistics/trial.h"

#include <array>
#include <utility>

#include "src/core/error.h"

namespace autotune {
namespace {

constexpr std::array<std::pair<TrialStatus, std::string_view>, 8> kStatuses = {{
    {TrialStatus::ok, "ok"},
    {TrialStatus::compile_failed, "compile_failed"},
    {TrialStatus::rejected, "rejected"},
    {TrialStatus::launch_refused, "launch_refused"},
    {TrialStatus::wrong_result, "wrong_result"},
    {TrialStatus::timed_out, "timed_out"},
    {TrialStatus::crashed, "crashed"},
    {TrialStatus::out_of_memory, "out_of_memory"},
}};

constexpr std::array<std::pair<Origin, std::string_view>, 4> kOrigins = {{
    {Origin::exact, "exact"},
    {Origin::shipped, "shipped"},
    {Origin::near, "near"},
    {Origin::fallback, "default"},
}};

template <class Table, class Value>
std::string_view word_of(const Table& table, Value value) {
    for (const auto& [entry, word] : table) {
        if (entry == value) return word;
    }
    throw Error(ErrorCode::internal, "internal error: an enumeration has a value without a word");
}

template <class Value, class Table>
std::optional<Value> value_of(const Table& table, std::string_view text) {
    for (const auto& [entry, word] : table) {
        if (word == text) return entry;
    }
    return std::nullopt;
}

}  // namespace

std::string_view to_string(TrialStatus status) {
    return word_of(kStatuses, status);
}
std::optional<TrialStatus> parse_trial_status(std::string_view text) {
    return value_of<TrialStatus>(kStatuses, text);
}

bool is_about_candidate(TrialStatus status, std::string_view detail) {
    const auto says = [&](std::string_view words) { return detail.find(words) != std::string_view::npos; };
    switch (status) {
        case TrialStatus::timed_out:
            // A row without these words may come from a limit in wall time instead of processor time.
            return says(kOfItsOwnTime);
        case TrialStatus::out_of_memory:
            return false;
        case TrialStatus::compile_failed:
            // Stored rows of earlier versions may have failed because the machine was busy: a limit in wall time, compilers that
            // were killed.
            if (says("compiling took longer than") || says("out of memory") || says("Memory allocation failure")) return false;
            return !detail.starts_with("the compiler process") || detail.ends_with(", twice");
        case TrialStatus::crashed:
            return !says("signal 9 ") && !says("bad_alloc") && !says("the tuner ended twice");
        default:
            return true;
    }
}

std::string_view to_string(Origin origin) {
    return word_of(kOrigins, origin);
}
std::optional<Origin> parse_origin(std::string_view text) {
    return value_of<Origin>(kOrigins, text);
}

}  // namespace autotune
