#include "tools/cli/plot/frame.h"

#include <sstream>

namespace autotune::plot {
namespace {

constexpr double kMargin = 16;
constexpr double kLine = 18;
constexpr double kSubtitle_px = 11;  // text_width() takes this size, because the subtitle's letters are narrow on average
constexpr double kUnderLegend = 20;  // this space keeps a mark at the top of the plot from looking like a legend key

// The position of each legend entry, line by line.
std::vector<Point> legend_places(double width, double top, const std::vector<LegendEntry>& legend) {
    std::vector<Point> places;
    Point at{kMargin, top};
    for (const LegendEntry& entry : legend) {
        const double needed = 24 + text_width(entry.name);
        if (at.x > kMargin && at.x + needed > width - kMargin) at = {kMargin, at.y + kLine};
        places.push_back(at);
        at.x += needed + 14;
    }
    return places;
}

// The subtitle in lines that fit. Lines break at spaces.
std::vector<std::string> subtitle_lines(double width, const std::string& subtitle) {
    std::vector<std::string> lines;
    std::istringstream words(subtitle);
    for (std::string word; words >> word;) {
        if (lines.empty() || text_width(lines.back() + " " + word, kSubtitle_px) > width - 2 * kMargin) {
            lines.push_back(word);
        } else {
            lines.back() += " " + word;
        }
    }
    return lines;
}

double heading_lines(double width, const Heading& heading) {
    return 24 + kLine * static_cast<double>(subtitle_lines(width, heading.subtitle).size());
}

void draw_key(Svg& svg, const LegendEntry& entry, Point at) {
    const std::string colour = entry.mark == Mark::limit ? "limit" : series_class(entry.series);
    if (entry.mark == Mark::dots) {
        svg.circle({at.x + 8, at.y - 4}, 4, colour + " mark");
    } else {
        svg.path({{at.x, at.y - 4}, {at.x + 16, at.y - 4}}, colour + (entry.mark == Mark::limit ? "" : " curve"));
    }
    svg.text({at.x + 22, at.y}, entry.name, "words");
}

}  // namespace

double text_width(const std::string& words, double font_px) {
    return static_cast<double>(words.size()) * font_px * 0.62;
}

double heading_height(double width, const Heading& heading, const std::vector<LegendEntry>& legend) {
    const double top = heading_lines(width, heading);
    if (legend.empty()) return top + 8;
    return legend_places(width, top + kLine, legend).back().y + kUnderLegend;
}

double draw_heading(Svg& svg, const Heading& heading, const std::vector<LegendEntry>& legend) {
    svg.text({kMargin, 22}, heading.title, "words title");
    double line = 22;
    for (const std::string& words : subtitle_lines(svg.width(), heading.subtitle))
        svg.text({kMargin, line += kLine}, words, "muted");
    const std::vector<Point> places = legend_places(svg.width(), heading_lines(svg.width(), heading) + kLine, legend);
    for (std::size_t i = 0; i < legend.size(); ++i) draw_key(svg, legend[i], places[i]);
    return heading_height(svg.width(), heading, legend);
}

}  // namespace autotune::plot
