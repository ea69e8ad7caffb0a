#include "tools/cli/output/text/compiled_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "tools/cli/output/terminal/table.h"
#include "tools/cli/output/text/common_words.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

// The cells of the compiler's report. They are empty for a candidate that did not compile.
std::vector<std::string> report_cells(const tuner::CompiledRow& row) {
    if (row.status == TrialStatus::compile_failed) return {"-", "-", "-", "-", "-"};
    return {row.report.registers < 0 ? "?" : std::to_string(row.report.registers), std::to_string(row.report.spill_bytes),
            bytes_text(static_cast<std::size_t>(std::max(row.smem_bytes, 0))), fmt::format("{:.0f} %", row.occupancy * 100),
            row.report.from_cache ? "cached" : fmt::format("{:.0f}", row.report.compile_ms)};
}

// The cause of a failure without its subject. A failure's sentence begins with the name of the kernel, which differs for each.
std::string cause_of(const tuner::CompiledRow& row) {
    constexpr std::string_view subject_ends = ": ";
    const std::size_t end = row.detail.find(subject_ends);
    const bool has_subject = row.detail.starts_with("NVRTC refused ") && end != std::string::npos;
    return has_subject ? row.detail.substr(end + subject_ends.size()) : row.detail;
}

std::string troubles_of(const std::vector<tuner::CompiledRow>& rows, TrialStatus status, std::string_view what) {
    std::map<std::string, int> causes;
    for (const tuner::CompiledRow& row : rows) {
        if (row.status == status) ++causes[cause_of(row)];
    }
    if (causes.empty()) return "";
    int all = 0;
    std::string lines;
    for (const auto& [cause, count] : causes) {
        all += count;
        lines += fmt::format("  {:>4}  {}\n", count, cause);
    }
    return fmt::format("{} of {} {}:\n", all, rows.size(), what) + lines;
}

}  // namespace

std::string compiled_table(const std::vector<tuner::CompiledRow>& rows, bool full) {
    CommonWords names(full);
    for (const tuner::CompiledRow& row : rows) names.add(row.candidate);
    const bool all_ok = std::all_of(rows.begin(), rows.end(), [](const auto& row) { return row.status == TrialStatus::ok; });
    std::vector<Table::Column> columns{{"#"},    {"predicted us"}, {"registers"}, {"spills B"},
                                       {"smem"}, {"occupancy"},    {"compile ms"}};
    if (!all_ok) columns.insert(columns.begin() + 1, {"status", Table::Align::left});
    columns.push_back({"candidate", Table::Align::wrap});
    Table table(columns);
    int place = 0;
    for (const tuner::CompiledRow& row : rows) {
        std::vector<std::string> cells{std::to_string(++place)};
        if (!all_ok) cells.emplace_back(to_string(row.status));
        cells.push_back(row.predicted_us ? us_text(*row.predicted_us) : "-");
        for (std::string& cell : report_cells(row)) cells.push_back(std::move(cell));
        cells.push_back(names.name(row.candidate));
        table.add(cells);
    }
    return names.legend() + table.to_string(full ? SIZE_MAX : kTextColumns);
}

std::string compile_troubles_text(const std::vector<tuner::CompiledRow>& rows) {
    return troubles_of(rows, TrialStatus::compile_failed, "did not compile") +
           troubles_of(rows, TrialStatus::rejected, "compiled and are not used");
}

}  // namespace autotune::cli
