#include "tools/cli/plot/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "src/core/error.h"

namespace autotune::plot {
namespace {

struct Colours {
    const char *ground, *text, *muted, *grid;
    std::array<const char*, kSeriesColours> series;
};

// The colours have a contrast of at least 4.5 with the background, and colour-blind readers can distinguish the first four.
constexpr Colours kLight = {"#ffffff",
                            "#1f2328",
                            "#59636e",
                            "#d1d9e0",
                            {"#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#9a6700", "#57606a", "#0a7ea4"}};
constexpr Colours kDark = {"#0d1117",
                           "#e6edf3",
                           "#9198a1",
                           "#30363d",
                           {"#58a6ff", "#f0883e", "#3fb950", "#bc8cff", "#f778ba", "#d29922", "#8b949e", "#56d4dd"}};

std::string rules(const Colours& colours) {
    std::string css = fmt::format(
        ".ground{{fill:{0}}}.words{{fill:{1}}}.muted{{fill:{2}}}.grid{{stroke:{3}}}.axis{{stroke:{2}}}.limit{{stroke:{2}}}",
        colours.ground, colours.text, colours.muted, colours.grid);
    for (std::size_t i = 0; i < colours.series.size(); ++i)
        css += fmt::format(".{0}{{fill:{1};stroke:{1}}}", series_class(i), colours.series[i]);
    return css;
}

std::string number(double value) {
    check(std::isfinite(value), "a drawing's coordinate is not a number");
    return fmt::format("{:g}", std::round(value * 100) / 100 + 0.0);
}

std::string titled(const std::string& tag, const std::string& title) {
    if (title.empty()) return "<" + tag + "/>\n";
    const std::string name = tag.substr(0, tag.find(' '));
    return "<" + tag + "><title>" + escaped(title) + "</title></" + name + ">\n";
}

}  // namespace

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        switch (c) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            case '\'':
                result += "&#39;";
                break;
            default:
                result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
    }
    return result;
}

std::string series_class(std::size_t series) {
    return fmt::format("series-{}", series % kSeriesColours);
}

std::string stylesheet() {
    return "svg{font-family:system-ui,-apple-system,'Segoe UI',sans-serif;font-size:12px}"
           ".title{font-size:15px;font-weight:600}.small{font-size:11px}.mono{font-family:ui-monospace,monospace;font-size:11px}"
           ".grid{stroke-width:1}.axis{stroke-width:1}.limit{stroke-width:1.5;stroke-dasharray:5 4}"
           ".curve{fill:none;stroke-width:2;stroke-linejoin:round}.whisker{stroke-width:1.5;opacity:.65}.mark{stroke:none}" +
           rules(kLight) + "@media (prefers-color-scheme:dark){" + rules(kDark) + "}" +
           // These rules come after the colours and override them, because a curve is never filled and a mark has no outline,
           // whatever its series.
           ".curve{fill:none}.mark{stroke:none}";
}

void Svg::line(Point from, Point to, std::string_view classes) {
    body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", classes, number(from.x),
                         number(from.y), number(to.x), number(to.y));
}

void Svg::path(const std::vector<Point>& points, std::string_view classes) {
    if (points.empty()) return;
    std::string list;
    for (const Point& point : points) list += (list.empty() ? "" : " ") + number(point.x) + "," + number(point.y);
    body_ += fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", classes, list);
}

void Svg::rect(const Box& box, std::string_view classes, const std::string& title) {
    body_ += titled(fmt::format("rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\"", classes, number(box.x),
                                number(box.y), number(std::max(box.width, 0.0)), number(std::max(box.height, 0.0))),
                    title);
}

void Svg::circle(Point centre, double radius, std::string_view classes, const std::string& title) {
    body_ += titled(fmt::format("circle class=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"", classes, number(centre.x), number(centre.y),
                                number(radius)),
                    title);
}

void Svg::text(Point at, const std::string& words, std::string_view classes, Anchor anchor, double degrees) {
    const char* anchors[] = {"start", "middle", "end"};
    const std::string turned =
        degrees == 0 ? "" : fmt::format(" transform=\"rotate({} {} {})\"", number(degrees), number(at.x), number(at.y));
    body_ += fmt::format("<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", classes, number(at.x),
                         number(at.y), anchors[static_cast<int>(anchor)], turned, escaped(words));
}

void Svg::place(const Svg& inner, Point at) {
    body_ += fmt::format("<g transform=\"translate({} {})\">\n{}</g>\n", number(at.x), number(at.y), inner.body_);
}

std::string Svg::element() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "role=\"img\">\n{2}</svg>\n",
        number(width_), number(height_), body_);
}

std::string Svg::document() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
        "<style>{2}</style>\n<rect class=\"ground\" width=\"{0}\" height=\"{1}\"/>\n{3}</svg>\n",
        number(width_), number(height_), stylesheet(), body_);
}

Svg stacked(const std::vector<Svg>& drawings) {
    double width = 0, height = 0;
    for (const Svg& drawing : drawings) {
        width = std::max(width, drawing.width());
        height += drawing.height();
    }
    Svg all(width, height);
    double y = 0;
    for (const Svg& drawing : drawings) {
        all.place(drawing, {0, y});
        y += drawing.height();
    }
    return all;
}

}  // namespace autotune::plot
