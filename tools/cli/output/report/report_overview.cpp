#include "tools/cli/output/report/report_overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/cli/output/report/bench_plots.h"
#include "tools/cli/output/report/html.h"
#include "tools/cli/output/text/problem_words.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

constexpr std::size_t kFewestMembers = 2;

struct Member {
    const ReportedProblem* reported = nullptr;
    std::size_t number = 0;  // the position of the problem in the report
};

// Names of up to 30 problems fit under a chart that a narrow window shows unshrunk.
double chart_width(std::size_t problems) {
    return problems <= 30 ? 460 : 900;
}

// The ratio of the rival that took the least time in the final rounds, such as "1.050 (cublas)". Above 1 the winner is faster.
std::string ratio_of_rival(const db::Evidence& evidence) {
    const db::Finalist* const fastest = fastest_rival(evidence);
    return fastest == nullptr ? "-" : fmt::format("{:.3f} ({})", fastest->ratio, fastest->name);
}

std::string table_html(const std::vector<Member>& members, const std::vector<Problem>& problems, const Op& op) {
    const std::vector<std::string> attributes = differing_attributes(problems);
    std::string dimensions;  // the longest form, because some problems may have a batch
    for (const Problem& problem : problems)
        if (const std::string text = dimensions_text(problem); text.size() > dimensions.size()) dimensions = text;
    std::vector<std::string> titles = {dimensions, "element type"};
    titles.insert(titles.end(), attributes.begin(), attributes.end());
    for (const char* title : {"#median us", "#speed", "#rival's time / ours", "family", "from"}) titles.emplace_back(title);
    HtmlTable table(titles);
    for (const Member& member : members) {
        const ReportedProblem& one = *member.reported;
        std::vector<std::string> cells = {one.problem.shape(), dtype_text(one.problem)};
        for (const std::string& name : attributes) cells.push_back(attribute_or_nothing(one.problem, name));
        const double us = one.winner.timing.median_us;
        cells.push_back(us_text(us));
        cells.push_back(rate_text(op, one.problem, us) + " " + rate_title(op));
        cells.push_back(ratio_of_rival(one.winner.evidence));
        cells.push_back(one.winner.candidate.family);
        cells.emplace_back(origin_text(one.winner));
        table.add(cells, fmt::format("#p{}", member.number));
    }
    return table.html();
}

std::string group_html(const std::vector<Member>& members, const Op& op) {
    std::vector<Problem> problems;
    std::vector<Benched> benched;
    for (const Member& member : members) {
        problems.push_back(member.reported->problem);
        benched.push_back(benched_of(member.reported->problem, member.reported->winner));
    }
    const ReportedProblem& first = *members.front().reported;
    std::string html = "<h3>" + plot::escaped(first.problem.op + " on " + device_text(first.winner.device)) + "</h3>\n";
    const std::string shared = attributes_text(shared_attributes(problems));
    if (!shared.empty()) html += html_paragraph((members.size() > 1 ? "All with " : "With ") + shared + ".", "quiet");
    html += table_html(members, problems, op);
    if (members.size() >= kFewestMembers)
        html += html_charts(problem_charts(benched, first.device, op, chart_width(members.size())));
    return html;
}

}  // namespace

std::string overview_html(const Report& report, const Catalogue& catalogue) {
    std::map<std::string, std::vector<Member>> groups;
    for (std::size_t i = 0; i < report.problems.size(); ++i) {
        const ReportedProblem& one = report.problems[i];
        groups[one.problem.op + " " + one.winner.device.key()].push_back({&one, i});
    }
    std::string html;
    for (const auto& [key, members] : groups) html += group_html(members, catalogue.op_of(members.front().reported->problem));
    return html;
}

}  // namespace autotune::cli
