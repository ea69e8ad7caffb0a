#include "tools/cli/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/cli/bench_plots.h"
#include "tools/cli/report_charts.h"
#include "tools/cli/text_forms.h"

namespace autotune::cli {
namespace {

using plot::escaped;

constexpr const char* kPageStyle =
    "body{font-family:system-ui,-apple-system,'Segoe UI',sans-serif;font-size:14px;line-height:1.5;margin:0;background:#fff;"
    "color:#1f2328}main{max-width:980px;margin:0 auto;padding:24px 16px 64px}h1{font-size:24px;margin:0 0 4px}"
    "h2{font-size:18px;margin:48px 0 4px;padding-top:16px;border-top:1px solid #d1d9e0}p{margin:6px 0}.quiet{color:#59636e}"
    "code{font-family:ui-monospace,monospace;font-size:12px;overflow-wrap:anywhere}.charts{display:flex;flex-wrap:wrap;gap:8px;"
    "margin:12px 0}.charts svg{max-width:100%;height:auto}.table{overflow-x:auto;margin:12px 0}"
    "table{border-collapse:collapse;font-size:13px}td,th{padding:4px 12px 4px 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid #d1d9e0}th{font-weight:600;white-space:nowrap}.n{text-align:right;white-space:nowrap}"
    ".warn{border-left:3px solid #bc4c00;padding-left:10px}a{color:#0969da}"
    "@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}.quiet{color:#9198a1}h2,td,th{border-color:#30363d}"
    ".warn{border-color:#f0883e}a{color:#58a6ff}}";

std::string paragraph(const std::string& text, const std::string& classes = "") {
    if (text.empty()) return "";
    return "<p" + (classes.empty() ? "" : " class=\"" + classes + "\"") + ">" + escaped(text) + "</p>\n";
}

std::string charts(const std::vector<plot::Svg>& drawings) {
    if (drawings.empty()) return "";
    std::string html = "<div class=\"charts\">\n";
    for (const plot::Svg& drawing : drawings) html += drawing.element();
    return html + "</div>\n";
}

// A table; columns whose title begins with '#' hold numbers.
class HtmlTable {
  public:
    explicit HtmlTable(std::vector<std::string> titles) : titles_(std::move(titles)) {
        rows_ = "<tr>";
        for (std::size_t i = 0; i < titles_.size(); ++i)
            rows_ += "<th" + align(i) + ">" + escaped(is_number(i) ? titles_[i].substr(1) : titles_[i]) + "</th>";
        rows_ += "</tr>\n";
    }
    void add(const std::vector<std::string>& cells) {
        rows_ += "<tr>";
        for (std::size_t i = 0; i < cells.size(); ++i) rows_ += "<td" + align(i) + ">" + escaped(cells[i]) + "</td>";
        rows_ += "</tr>\n";
    }
    std::string html() const { return "<div class=\"table\"><table>\n" + rows_ + "</table></div>\n"; }

  private:
    bool is_number(std::size_t column) const { return titles_[column].starts_with('#'); }
    std::string align(std::size_t column) const { return is_number(column) ? " class=\"n\"" : ""; }

    std::vector<std::string> titles_;
    std::string rows_;
};

std::string finalists_html(const ReportedProblem& one, const Op& op) {
    HtmlTable table({"#", "#median us", "#95 % interval", "#" + rate_title(op), "#time ratio", "", "candidate"});
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
    return paragraph(fmt::format("Of {} legal configs:", count_text(evidence.space_legal))) + table.html();
}

std::string failures_html(const std::vector<db::StoredTrial>& trials) {
    const std::vector<FailureClass> classes = failure_classes(trials);
    if (classes.empty()) return "";
    HtmlTable table({"status", "#count", "one of them"});
    for (const FailureClass& one : classes) table.add({one.status, std::to_string(one.count), one.example});
    return table.html();
}

std::string trials_html(const ReportedProblem& one) {
    if (one.trials.empty()) return paragraph("The database has no trials of this problem: it was imported or shipped.", "quiet");
    const bool any = std::any_of(one.trials.begin(), one.trials.end(), [](const auto& stored) { return stored.trial.timing; });
    std::string html;
    if (any) {
        html += charts({sorted_times_chart(one.trials), progress_chart(one.trials)});
        html += charts(parameter_charts(one.trials, one.winner.candidate));
    }
    return html + charts({outcomes_chart(one.trials)}) + failures_html(one.trials);
}

std::string problem_html(const ReportedProblem& one, const Op& op, std::size_t number) {
    const db::Evidence& evidence = one.winner.evidence;
    std::string html = fmt::format("<h2 id=\"p{}\">{} {}</h2>\n", number, escaped(one.problem.op), escaped(one.problem.shape()));
    html += paragraph(one.problem.class_key(), "quiet");
    html += "<p><code>" + escaped(one.winner.candidate.to_string()) + "</code></p>\n";
    html += paragraph("It " + wins_text(one.winner, op, one.problem) + " " + decided_text(evidence));
    html += paragraph(rivals_text(evidence));
    html += paragraph(phases_text(evidence));
    html += paragraph(measured_text(one.winner));
    const bool warns = !one.freshness.usable || one.freshness.stale;
    html += paragraph(freshness_text(one.freshness, one.compared), warns ? "warn" : "quiet");
    html += drops_html(evidence);
    if (!evidence.finalists.empty()) html += charts({finalists_chart(evidence)}) + finalists_html(one, op);
    return html + trials_html(one);
}

// Problems of one op on one device share an axis.
std::string overview_html(const Report& report, const Catalogue& catalogue) {
    std::map<std::string, std::vector<const ReportedProblem*>> groups;
    for (const ReportedProblem& one : report.problems) groups[one.problem.op + " " + one.winner.device.key()].push_back(&one);
    std::string html;
    for (const auto& [key, members] : groups) {
        std::vector<Benched> benched;
        for (const ReportedProblem* one : members) benched.push_back(benched_of(one->problem, one->winner));
        html += paragraph(members.front()->problem.op + " on " + device_text(members.front()->winner.device));
        html += charts(problem_charts(benched, members.front()->device, catalogue.op_of(members.front()->problem)));
    }
    return html;
}

std::string winners_html(const Report& report, const Catalogue& catalogue) {
    std::string rows;
    for (std::size_t i = 0; i < report.problems.size(); ++i) {
        const ReportedProblem& one = report.problems[i];
        const Op& op = catalogue.op_of(one.problem);
        const double us = one.winner.timing.median_us;
        rows += fmt::format(
            "<tr><td><a href=\"#p{}\">{} {}</a></td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{} "
            "{}</td><td>{}</td></tr>\n",
            i, escaped(one.problem.op), escaped(one.problem.shape()), escaped(one.winner.device.name), us_text(us),
            rate_text(op, one.problem, us), rate_title(op), escaped(one.winner.candidate.family));
    }
    return "<div class=\"table\"><table>\n<tr><th>problem</th><th>device</th><th class=\"n\">median us</th><th "
           "class=\"n\">rate</th>"
           "<th>family</th></tr>\n" +
           rows + "</table></div>\n";
}

}  // namespace

std::string report_html(const Report& report, const Catalogue& catalogue) {
    std::string html =
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>autotune report</title>\n"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><meta name=\"color-scheme\" content=\"light "
        "dark\">\n"
        // The page says itself that it fetches and runs nothing.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n<style>" +
        std::string(kPageStyle) + plot::stylesheet() + "</style></head>\n<body><main>\n<h1>autotune report</h1>\n";
    html += paragraph(fmt::format("{} of {} winners in {}, written {} by autotune {}", report.problems.size(),
                                  count_text(report.winners), report.database, report.date, report.version),
                      "quiet");
    if (report.problems.empty()) html += paragraph("No winner matches: there is nothing to show yet.");
    if (!report.problems.empty()) html += winners_html(report, catalogue) + overview_html(report, catalogue);
    for (std::size_t i = 0; i < report.problems.size(); ++i)
        html += problem_html(report.problems[i], catalogue.op_of(report.problems[i].problem), i);
    return html + "</main></body></html>\n";
}

}  // namespace autotune::cli
