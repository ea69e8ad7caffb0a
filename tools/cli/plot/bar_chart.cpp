#include <algorithm>

#include "tools/cli/plot/frame.h"
#include "tools/cli/plot/scale.h"

namespace autotune::plot {
namespace {

constexpr double kRow = 20, kBar = 14;
constexpr double kMostLabel = 540;  // the width of the longest name in the classic catalogue
constexpr double kBottom = 34;

double widest(const std::vector<Bar>& bars, std::string Bar::*words, double font_px) {
    double width = 0;
    for (const Bar& bar : bars) width = std::max(width, text_width(bar.*words, font_px));
    return width;
}

void draw_bar(Svg& svg, const Bar& bar, const Scale& scale, double y) {
    const double zero = scale.at(0);
    svg.text({zero - 8, y + kBar - 3}, bar.label, "words mono", Anchor::end);
    const double end = bar.value > 0 ? scale.at(bar.value) : zero;
    if (bar.value > 0) svg.rect({zero, y, end - zero, kBar}, series_class(bar.series) + " mark", bar.title);
    svg.text({end + 6, y + kBar - 3}, bar.text, bar.value > 0 ? "words small" : "muted small");
}

}  // namespace

Svg draw(const BarChart& chart) {
    std::vector<LegendEntry> legend;
    for (std::size_t i = 0; i < chart.series.size(); ++i) legend.push_back({chart.series[i], i, Mark::dots});
    const double top = heading_height(chart.width, chart.heading, legend) + 4;
    const double bottom = top + kRow * static_cast<double>(chart.bars.size());
    Svg svg(chart.width, bottom + kBottom);
    draw_heading(svg, chart.heading, legend);

    std::vector<double> values = {0};
    for (const Bar& bar : chart.bars) values.push_back(bar.value);
    const double left = 24 + std::min(widest(chart.bars, &Bar::label, 11.5), kMostLabel);
    const double room = std::min(widest(chart.bars, &Bar::text, 11), 160.0);
    const Scale scale = scale_for(values, false).onto(left, std::max(chart.width - 24 - room, left + 50));
    for (const double tick : scale.ticks()) {
        svg.line({scale.at(tick), top - 4}, {scale.at(tick), bottom}, "grid");
        svg.text({scale.at(tick), bottom + 14}, short_text(tick), "muted small", Anchor::middle);
    }
    svg.text({scale.at(scale.high()), bottom + 28}, chart.value_title, "muted small", Anchor::end);
    for (std::size_t i = 0; i < chart.bars.size(); ++i) draw_bar(svg, chart.bars[i], scale, top + kRow * static_cast<double>(i));
    return svg;
}

}  // namespace autotune::plot
