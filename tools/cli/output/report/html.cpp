#include "tools/cli/output/report/html.h"

namespace autotune::cli {
namespace {

using plot::escaped;

// Drawings from this width on are not shrunk to a narrow window, because their text would be too small to read.
constexpr double kWide_px = 480;

}  // namespace

std::string page_style() {
    return "body{font-family:system-ui,-apple-system,'Segoe "
           "UI',sans-serif;font-size:14px;line-height:1.5;margin:0;background:#fff;"
           "color:#1f2328}main{max-width:1420px;margin:0 auto;padding:24px 16px 64px}h1{font-size:24px;margin:0 0 4px}"
           "h2{font-size:18px;margin:48px 0 4px;padding-top:16px;border-top:1px solid #d1d9e0}h3{font-size:15px;margin:24px 0 "
           "4px}"
           "p{margin:6px 0;max-width:980px;overflow-wrap:anywhere}.quiet{color:#59636e}"
           "code{font-family:ui-monospace,monospace;font-size:12px;overflow-wrap:anywhere}"
           ".charts{display:flex;flex-wrap:wrap;gap:16px;margin:16px 0}.chart{max-width:100%;overflow-x:auto}"
           ".chart svg{display:block;max-width:100%;height:auto}.wide svg{min-width:720px}.table{margin:12px 0}"
           "table{border-collapse:collapse;font-size:13px}td,th{padding:4px 14px 4px 0;text-align:left;vertical-align:top;"
           "border-bottom:1px solid "
           "#d1d9e0}td{overflow-wrap:break-word}th{font-weight:600}.n{text-align:right;white-space:nowrap}"
           ".warn{border-left:3px solid #bc4c00;padding-left:10px}a{color:#0969da}"
           "@media (max-width:760px){table,tbody,tr,td{display:block}table{width:100%}tr{border-bottom:1px solid "
           "#d1d9e0;padding:6px 0}"
           "tr.titles,td:empty{display:none}td,td.n{display:grid;grid-template-columns:10em 1fr;border:0;padding:1px 0;"
           "text-align:left;white-space:normal;overflow-wrap:anywhere}td::before{content:attr(data-title);color:#59636e}}"
           "@media (prefers-color-scheme:dark){body{background:#0d1117;color:#e6edf3}.quiet,td::before{color:#9198a1}"
           "h2,td,th,tr{border-color:#30363d}.warn{border-color:#f0883e}a{color:#58a6ff}}";
}

std::string html_paragraph(const std::string& text, const std::string& classes) {
    if (text.empty()) return "";
    return "<p" + (classes.empty() ? "" : " class=\"" + classes + "\"") + ">" + escaped(text) + "</p>\n";
}

std::string html_charts(const std::vector<plot::Svg>& drawings) {
    if (drawings.empty()) return "";
    std::string html = "<div class=\"charts\">\n";
    for (const plot::Svg& drawing : drawings)
        html += std::string("<div class=\"chart") + (drawing.width() > kWide_px ? " wide" : "") + "\">" + drawing.element() +
                "</div>\n";
    return html + "</div>\n";
}

HtmlTable::HtmlTable(std::vector<std::string> titles) : titles_(std::move(titles)) {
    for (std::string& title : titles_) {
        numbers_.push_back(title.starts_with('#'));
        if (numbers_.back()) title.erase(0, 1);
        title = escaped(title);
    }
    rows_ = "<tr class=\"titles\">";
    for (std::size_t i = 0; i < titles_.size(); ++i) rows_ += "<th" + number_class(i) + ">" + titles_[i] + "</th>";
    rows_ += "</tr>\n";
}

void HtmlTable::add(const std::vector<std::string>& cells, const std::string& href) {
    rows_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
        std::string cell = escaped(cells[i]);
        if (i == 0 && !href.empty()) cell = "<a href=\"" + escaped(href) + "\">" + cell + "</a>";
        rows_ += "<td" + number_class(i) + " data-title=\"" + titles_[i] + "\">" + cell + "</td>";
    }
    rows_ += "</tr>\n";
}

std::string HtmlTable::html() const {
    return "<div class=\"table\"><table>\n" + rows_ + "</table></div>\n";
}

}  // namespace autotune::cli
