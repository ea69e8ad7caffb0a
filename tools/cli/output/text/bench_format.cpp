#include "tools/cli/output/text/bench_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

constexpr std::string_view kUntuned = "untuned";  // the row

// Our parameter for the order of thread blocks; classic tables have a column for it.
constexpr const char* kSwizzleStride = "swizzle_stride";

std::string swizzle_text(const tuner::BenchRow& row) {
    const auto stride = row.candidate ? row.candidate->config.find(kSwizzleStride) : std::nullopt;
    return stride ? std::to_string(*stride) : "";
}

std::string sample_text(const tuner::BenchRow& row, std::size_t index) {
    return index < row.sample_values.size() ? fmt::format("{:.4g}", row.sample_values[index]) : "";
}

std::string ratio_text(const tuner::BenchRow& row) {
    if (!row.interleaved) return "survey";
    return fmt::format("{:.3f} ({:.3f} .. {:.3f})", row.ratio_to_first, row.ratio_low, row.ratio_high);
}

// Whether the row's config is printed below the table.
bool has_own_line(const tuner::BenchRow& row) {
    return row.candidate && (row.name == "winner" || row.name == kUntuned);
}

// The last cell of a row: why there is no time, or the winner's config.
std::string note_text(const tuner::BenchRow& row, bool full) {
    if (!row.timing) return row.status == TrialStatus::ok ? row.detail : std::string(to_string(row.status)) + ": " + row.detail;
    return full && has_own_line(row) ? row.candidate->to_string() : row.detail;
}

// Sustained time and joules per launch.
std::vector<std::string> block_texts(const tuner::BenchRow& row) {
    if (!row.sustained) return {"-", "-"};
    const std::optional<double>& joules = row.sustained->joules_per_launch;
    return {us_text(row.sustained->timing.median_us), joules ? fmt::format("{:.3g}", *joules) : "-"};
}

// Adds the times after each kind of predecessor, and clock and power during the row's own launches.
void add_circumstances(Json& json, const tuner::BenchRow& row) {
    for (const std::string_view word : tuner::kPredecessorWords) {
        const auto known = row.after_us.find(*tuner::parse_predecessor(word));
        json["after_" + std::string(word) + "_us"] = known == row.after_us.end() ? Json(nullptr) : Json(known->second);
    }
    json["sm_clock_mhz"] = row.conditions.sm_clock_mhz ? Json(*row.conditions.sm_clock_mhz) : Json(nullptr);
    json["power_w"] = row.conditions.power_w ? Json(*row.conditions.power_w) : Json(nullptr);
    for (const char* name : {"sustained_us", "sustained_low_us", "sustained_high_us", "sustained_blocks", "joules_per_launch",
                             "sustained_power_w", "sustained_sm_clock_mhz"})
        json[name] = nullptr;
    if (!row.sustained) return;
    const tuner::Sustained& sustained = *row.sustained;
    json["sustained_us"] = sustained.timing.median_us;
    json["sustained_low_us"] = sustained.timing.low_us;
    json["sustained_high_us"] = sustained.timing.high_us;
    json["sustained_blocks"] = sustained.timing.samples;
    if (sustained.joules_per_launch) json["joules_per_launch"] = *sustained.joules_per_launch;
    if (sustained.conditions.power_w) json["sustained_power_w"] = *sustained.conditions.power_w;
    if (sustained.conditions.sm_clock_mhz) json["sustained_sm_clock_mhz"] = *sustained.conditions.sm_clock_mhz;
}

Json row_json(const tuner::BenchRow& row, std::optional<double> gain, const Op& op, const Problem& problem) {
    const auto number_or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
    const std::string unit(op.rate_unit());
    Json json{{"name", row.name}, {"status", bench_status_text(row)}, {"measured", measured_in(row)}};
    for (const char* name : {"median_us", "low_us", "high_us", "min_us", "samples"}) json[name] = nullptr;
    json[unit] = nullptr;
    if (row.timing) json.update(timing_json(*row.timing, &op, &problem));
    json["gain_percent"] = number_or_null(gain);
    json["ratio_to_first"] = row.interleaved ? Json(row.ratio_to_first) : Json(nullptr);
    json["ratio_low"] = row.interleaved ? Json(row.ratio_low) : Json(nullptr);
    json["ratio_high"] = row.interleaved ? Json(row.ratio_high) : Json(nullptr);
    json["family"] = row.candidate ? Json(row.candidate->family) : Json(nullptr);
    json["config"] = row.candidate ? config_json(row.candidate->config) : Json(nullptr);
    json["max_error"] = number_or_null(row.max_error);
    json["accumulation_error"] = number_or_null(row.accumulation_error);
    add_circumstances(json, row);
    json["sample_values"] = row.sample_values;
    json["detail"] = row.detail;
    return json;
}

std::vector<Json> row_jsons(const Benched& benched, const Op& op) {
    const std::vector<std::optional<double>> gains = gains_percent(benched.result.rows);
    std::vector<Json> rows;
    for (std::size_t i = 0; i < gains.size(); ++i)
        rows.push_back(row_json(benched.result.rows[i], gains[i], op, benched.problem));
    return rows;
}

// Lines about the untuned row: its source, its expected loss and its measured loss.
std::string untuned_lines(const Benched& benched) {
    std::string text = wrapped("", untuned_text(*benched.untuned));
    if (const auto regret = measured_regret(benched))
        text += fmt::format("Here it is {:.1f} % slower than the winner.\n", 100 * *regret);
    return text;
}

const tuner::BenchRow* raced_row(const Benched& benched, std::string_view name) {
    for (const tuner::BenchRow& row : benched.result.rows)
        if (row.name == name && row.candidate && row.interleaved) return &row;
    return nullptr;
}

}  // namespace

std::optional<double> measured_regret(const Benched& benched) {
    const tuner::BenchRow* const winner = raced_row(benched, "winner");
    const tuner::BenchRow* const untuned = raced_row(benched, kUntuned);
    if (winner == nullptr || untuned == nullptr) return std::nullopt;
    return untuned->ratio_to_first / winner->ratio_to_first - 1;
}

Benched benched_of(const Problem& problem, const db::Winner& winner) {
    Benched benched{.problem = problem, .result = {}};
    tuner::BenchRow first;
    first.name = "winner";
    first.candidate = winner.candidate;
    first.timing = winner.timing;
    first.interleaved = true;
    benched.result.rows.push_back(first);
    for (const db::Finalist& finalist : winner.evidence.finalists) {
        if (finalist.candidate) continue;
        tuner::BenchRow rival;
        rival.name = finalist.name;
        rival.timing = finalist.timing;
        rival.interleaved = true;
        rival.ratio_to_first = finalist.ratio;
        rival.ratio_low = finalist.ratio_low;
        rival.ratio_high = finalist.ratio_high;
        benched.result.rows.push_back(rival);
    }
    benched.result.first = 0;
    benched.result.rounds = winner.evidence.rounds;
    benched.result.sustained = true;
    return benched;
}

std::string bench_status_text(const tuner::BenchRow& row) {
    return row.status == TrialStatus::ok && !row.timing ? "not_measured" : std::string(to_string(row.status));
}

std::string measured_in(const tuner::BenchRow& row) {
    if (!row.timing) return "";
    return row.interleaved ? "rounds" : "survey";
}

std::vector<std::optional<double>> gains_percent(const std::vector<tuner::BenchRow>& rows) {
    std::vector<std::optional<double>> gains;
    std::optional<double> best_us;
    for (const tuner::BenchRow& row : rows) {
        gains.emplace_back();
        if (!row.timing) continue;
        const double time_us = row.timing->median_us;
        gains.back() = best_us ? (*best_us / time_us - 1) * 100 : 0;
        best_us = best_us ? std::min(*best_us, time_us) : time_us;
    }
    return gains;
}

std::string bench_table(const Benched& benched, const Op& op, bool full) {
    const std::vector<tuner::BenchRow>& rows = benched.result.rows;
    const bool has_swizzle =
        std::any_of(rows.begin(), rows.end(), [](const tuner::BenchRow& row) { return !swizzle_text(row).empty(); });
    const auto chosen = [&](auto name, auto samples, auto median, auto interval, auto swizzle, auto others) {
        auto cells = std::vector{name};
        if (full) cells.insert(cells.end(), samples.begin(), samples.end());
        cells.push_back(median);
        if (full) cells.push_back(interval);
        if (has_swizzle) cells.push_back(swizzle);
        cells.insert(cells.end(), others.begin(), others.end());
        return cells;
    };
    const bool has_blocks = std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.sustained.has_value(); });
    const auto with_blocks = [&](auto others, const auto& blocks) {
        if (has_blocks) others.insert(others.end() - 1, blocks.begin(), blocks.end());
        return others;
    };
    using Column = Table::Column;
    Table table(chosen(Column{"name", Table::Align::wrap}, std::vector<Column>{{"first value"}, {"last value"}},
                       Column{"median us"}, Column{"95 % interval"}, Column{kSwizzleStride},
                       with_blocks(std::vector<Column>{{rate_title(op)}, {"gain %"}, {"time ratio"}, {"", Table::Align::wrap}},
                                   std::vector<Column>{{"sustained us"}, {"joules"}})));
    const std::vector<std::optional<double>> gains = gains_percent(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const tuner::BenchRow& row = rows[i];
        const auto timed = [&](const std::string& text) { return row.timing ? text : "-"; };
        const double time_us = row.timing ? row.timing->median_us : 0;
        table.add(chosen(row.name, std::vector{sample_text(row, 0), sample_text(row, 1)}, timed(us_text(time_us)),
                         row.timing ? interval_text(*row.timing) : "-", swizzle_text(row),
                         with_blocks(std::vector{timed(rate_text(op, benched.problem, time_us)),
                                                 gains[i] ? fmt::format("{:+.1f}", *gains[i]) : "-", timed(ratio_text(row)),
                                                 note_text(row, full)},
                                     block_texts(row))));
    }
    std::string text = table.to_string(full ? SIZE_MAX : kTextColumns);
    for (const tuner::BenchRow& row : rows) {
        if (!full && has_own_line(row)) text += "\n" + wrapped(row.name + ": ", row.candidate->to_string());
    }
    return benched.untuned ? text + untuned_lines(benched) : text;
}

Json bench_json(const Benched& benched, const tuner::TuneServices& services, const Op& op) {
    const tuner::BenchResult& result = benched.result;
    Json untuned = benched.untuned ? untuned_json(*benched.untuned) : Json(nullptr);
    const std::optional<double> regret = measured_regret(benched);
    if (benched.untuned) untuned["regret"] = regret ? Json(*regret) : Json(nullptr);
    return {{"problem", problem_json(benched.problem)},
            {"device", device_json(services.device)},
            {"rounds", result.rounds},
            {"surveyed", result.surveyed},
            {"first", result.first ? Json(result.rows[*result.first].name) : Json(nullptr)},
            {"sustained", result.sustained},
            {"after", tuner::to_string(result.after)},
            {"may_overlap", result.may_overlap},
            {"streams", result.streams},
            {"seconds", result.seconds},
            {"conditions", conditions_json(result.conditions)},
            {"provenance", provenance_json(services.provenance)},
            {"untuned", untuned},
            {"rows", row_jsons(benched, op)}};
}

std::vector<Json> bench_csv_rows(const Benched& benched, const Op& op) {
    std::vector<Json> rows;
    for (Json& row : row_jsons(benched, op)) {
        Json whole{{"class", benched.problem.class_key()}, {"shape", benched.problem.shape()}};
        whole.update(row);
        rows.push_back(std::move(whole));
    }
    return rows;
}

}  // namespace autotune::cli
