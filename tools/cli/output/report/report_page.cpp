#include "tools/cli/output/report/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/cli/input/arguments.h"
#include "tools/cli/output/report/html.h"
#include "tools/cli/output/report/report_charts.h"
#include "tools/cli/output/report/report_overview.h"
#include "tools/cli/output/text/problem_words.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

using plot::escaped;

// Fewer points than this are better shown as a table.
constexpr std::size_t kFewestPlotted = 3;

std::string finalists_html(const ReportedProblem& one, const Op& op) {
    HtmlTable table({"#place", "#median us", "#95 % interval", "#" + rate_title(op), "#time ratio", "outcome", "candidate"});
    int place = 0;
    for (const db::Finalist& finalist : one.winner.evidence.finalists) {
        table.add({std::to_string(++place), us_text(finalist.timing.median_us), interval_text(finalist.timing),
                   rate_text(op, one.problem, finalist.timing.median_us),
                   fmt::format("{:.3f} ({:.3f} .. {:.3f})", finalist.ratio, finalist.ratio_low, finalist.ratio_high),
                   place == 1     ? "winner"
                   : finalist.tie ? "tie"
                                  : "",
                   finalist.name});
    }
    return place == 0 ? "" : table.html();
}

std::string drops_html(const db::Evidence& evidence) {
    const std::vector<Drop> drops = drops_of(evidence);
    if (drops.empty()) return "";
    HtmlTable table({"#dropped", "at", "why"});
    for (const Drop& drop : drops) table.add({count_text(drop.count), drop.stage, drop.why});
    return html_paragraph(fmt::format("Of {} legal configs:", count_text(evidence.space_legal))) + table.html();
}

std::string failures_html(const std::vector<db::StoredTrial>& trials) {
    const std::vector<FailureClass> classes = failure_classes(trials);
    if (classes.empty()) return "";
    HtmlTable table({"status", "#count", "one of them"});
    for (const FailureClass& one : classes) table.add({one.status, std::to_string(one.count), one.example});
    return table.html();
}

// "20 trials: 17 ok, 2 rejected, 1 launch_refused."
std::string outcomes_text(const std::vector<db::StoredTrial>& trials) {
    std::map<TrialStatus, std::size_t> counts;
    for (const db::StoredTrial& stored : trials) ++counts[stored.trial.status];
    std::vector<std::string> parts;
    for (const auto& [status, count] : counts) parts.push_back(count_text(count) + " " + std::string(to_string(status)));
    return count_text(trials.size()) + " trials: " + join(parts, ", ") + ".";
}

std::string trials_html(const ReportedProblem& one) {
    if (one.trials.empty()) {
        return html_paragraph(one.winner.shipped ? "This winner is shipped with autotune: it has no trials in the database."
                                                 : "The database has no trials of this problem: its winner was imported.",
                              "quiet");
    }
    const auto timed =
        std::count_if(one.trials.begin(), one.trials.end(), [](const auto& stored) { return stored.trial.timing; });
    std::string html = html_paragraph(outcomes_text(one.trials)) + failures_html(one.trials);
    if (static_cast<std::size_t>(timed) < kFewestPlotted) return html;
    html += html_charts({sorted_times_chart(one.trials), progress_chart(one.trials)});
    return html + html_charts(parameter_charts(one.trials, one.winner.candidate));
}

std::string problem_html(const ReportedProblem& one, const Op& op, std::size_t number) {
    const db::Evidence& evidence = one.winner.evidence;
    std::string html = fmt::format("<h2 id=\"p{}\">{} {}</h2>\n", number, escaped(one.problem.op), escaped(one.problem.shape()));
    html += html_paragraph(result_text(one.winner));
    html += html_paragraph(extents_text(one.problem) + "; " + one.problem.class_key() + "; " +
                               std::string(origin_text(one.winner)) + (one.winner.shipped ? " with autotune" : ""),
                           "quiet");
    html += "<p><code>" + escaped(one.winner.candidate.to_string()) + "</code></p>\n";
    html += html_paragraph("It " + wins_text(one.winner, op, one.problem) + " " + decided_text(evidence));
    html += html_paragraph(rivals_text(evidence));
    html += html_paragraph(phases_text(evidence));
    html += html_paragraph(measured_text(one.winner));
    const bool warns = !one.freshness.usable || one.freshness.stale;
    html += html_paragraph(freshness_text(one.freshness, one.compared), warns ? "warn" : "quiet");
    for (const std::string& command : one.freshness.remedies) html += "<p><code>" + escaped(command) + "</code></p>\n";
    html += drops_html(evidence);
    if (evidence.finalists.size() >= kFewestPlotted) html += html_charts({finalists_chart(evidence)});
    html += finalists_html(one, op);
    return html + trials_html(one);
}

}  // namespace

std::string report_html(const Report& report, const Catalogue& catalogue) {
    std::string html =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>autotune report</title>\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light "
        "dark\">\n"
        // The page itself forbids fetching and running anything.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<style>" +
        page_style() + plot::stylesheet() + "</style></head>\n<body><main>\n<h1>autotune report</h1>\n";
    html += html_paragraph(fmt::format("{} of {} winners in {}, written {} by autotune {}", report.problems.size(),
                                       count_text(report.winners), report.database, report.date, report.version),
                           "quiet");
    if (report.problems.size() < report.winners)
        html += html_paragraph("Problems with a timed rival come first, then the newest; `autotune report --all` shows all.",
                               "quiet");
    if (report.problems.empty()) html += html_paragraph("No winner matches: there is nothing to show yet.");
    if (!report.problems.empty()) html += overview_html(report, catalogue);
    for (std::size_t i = 0; i < report.problems.size(); ++i)
        html += problem_html(report.problems[i], catalogue.op_of(report.problems[i].problem), i);
    return html + "</main></body></html>\n";
}

}  // namespace autotune::cli
