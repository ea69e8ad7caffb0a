#include <algorithm>
#include <cmath>

#include "tools/cli/plot/frame.h"
#include "tools/cli/plot/scale.h"

namespace autotune::plot {
namespace {

constexpr double kLeft = 68, kRight = 24;
constexpr double kUnder = 44;         // room for ticks and title below the plot
constexpr double kUsualHeading = 80;  // room for title, subtitle and one line of legend
constexpr double kTitle = 12;         // room for the axis title, below rotated names
constexpr double kMostTurned = 220;   // room for the names of categories

struct Frame {
    Scale x, y;
    double left, right, top, bottom;
};

bool is_drawable(const XyChart& chart, const Sample& sample) {
    return std::isfinite(sample.x) && std::isfinite(sample.y) && (!chart.x_logarithmic || sample.x > 0) &&
           (!chart.y_logarithmic || sample.y > 0);
}

std::vector<Sample> drawable(const XyChart& chart, const Series& series) {
    std::vector<Sample> samples;
    for (const Sample& sample : series.samples) {
        if (is_drawable(chart, sample)) samples.push_back(sample);
    }
    return samples;
}

Scale x_scale(const XyChart& chart) {
    if (!chart.categories.empty()) return Scale(-0.6, static_cast<double>(chart.categories.size()) - 0.4, false);
    std::vector<double> values;
    for (const Series& series : chart.series) {
        for (const Sample& sample : drawable(chart, series)) values.push_back(sample.x);
    }
    return scale_for(values, chart.x_logarithmic);
}

Scale y_scale(const XyChart& chart) {
    std::vector<double> values;
    if (chart.y_low) values.push_back(*chart.y_low);
    if (chart.y_high) values.push_back(*chart.y_high);
    for (const Series& series : chart.series) {
        for (const Sample& sample : drawable(chart, series)) {
            values.push_back(sample.y);
            if (sample.low) values.push_back(*sample.low);
            if (sample.high) values.push_back(*sample.high);
        }
    }
    const Scale all = scale_for(values, chart.y_logarithmic);
    return Scale(chart.y_low.value_or(all.low()), chart.y_high.value_or(all.high()), chart.y_logarithmic);
}

double widest_category(const XyChart& chart) {
    double width = 0;
    for (const std::string& name : chart.categories) width = std::max(width, text_width(name, 11));
    return width;
}

double room_of_category(const XyChart& chart) {
    return (chart.width - kLeft - kRight) / std::max<double>(1, static_cast<double>(chart.categories.size()));
}

// Whether names do not fit next to each other and are rotated.
bool turns_names(const XyChart& chart) {
    return widest_category(chart) + 6 > room_of_category(chart);
}

// The step between the names that are shown. A rotated name needs a line's height; without room only every second, third, ... is
// shown.
std::size_t name_step(const XyChart& chart) {
    constexpr double line = 12;
    return static_cast<std::size_t>(std::max(1.0, std::ceil(line / room_of_category(chart))));
}

double extra_height(const XyChart& chart) {
    return turns_names(chart) ? std::min(widest_category(chart) + kTitle, kMostTurned) : 0;
}

void draw_axes(Svg& svg, const XyChart& chart, const Frame& frame) {
    for (const double tick : frame.y.ticks()) {
        svg.line({frame.left, frame.y.at(tick)}, {frame.right, frame.y.at(tick)}, "grid");
        svg.text({frame.left - 8, frame.y.at(tick) + 4}, short_text(tick), "muted small", Anchor::end);
    }
    if (chart.categories.empty()) {
        for (const double tick : frame.x.ticks()) {
            svg.line({frame.x.at(tick), frame.bottom}, {frame.x.at(tick), frame.bottom + 4}, "axis");
            svg.text({frame.x.at(tick), frame.bottom + 17}, short_text(tick), "muted small", Anchor::middle);
        }
    }
    const bool turned = turns_names(chart);
    for (std::size_t i = 0; i < chart.categories.size(); i += name_step(chart)) {
        const double x = frame.x.at(static_cast<double>(i));
        svg.text({turned ? x + 4 : x, frame.bottom + (turned ? 10 : 17)}, chart.categories[i], "muted small",
                 turned ? Anchor::end : Anchor::middle, turned ? -90 : 0);
    }
    svg.line({frame.left, frame.bottom}, {frame.right, frame.bottom}, "axis");
    svg.text({frame.right, svg.height() - 10}, chart.x_title, "muted small", Anchor::end);
    svg.text({18, frame.top}, chart.y_title, "muted small", Anchor::end, -90);
}

std::vector<Point> points_of(const std::vector<Sample>& samples, const Frame& frame, bool steps) {
    std::vector<Point> points;
    for (const Sample& sample : samples) {
        const Point next{frame.x.at(sample.x), frame.y.at(sample.y)};
        if (steps && !points.empty()) points.push_back({next.x, points.back().y});
        points.push_back(next);
    }
    return points;
}

void draw_dots(Svg& svg, const std::vector<Sample>& samples, const Frame& frame, const std::string& colour) {
    const double radius = samples.size() > 150 ? 2 : samples.size() > 60 ? 3 : 4;
    for (const Sample& sample : samples) {
        const double x = frame.x.at(sample.x);
        if (sample.low && sample.high) svg.line({x, frame.y.at(*sample.low)}, {x, frame.y.at(*sample.high)}, colour + " whisker");
        svg.circle({x, frame.y.at(sample.y)}, radius, colour + " mark", sample.title);
    }
}

void draw_series(Svg& svg, const Series& series, const std::vector<Sample>& samples, const Frame& frame, std::size_t place) {
    const std::string colour = series_class(series.colour.value_or(place));
    switch (series.mark) {
        case Mark::dots:
            return draw_dots(svg, samples, frame, colour);
        case Mark::limit:
            return svg.path(points_of(samples, frame, false), "limit curve");
        case Mark::curve:
        case Mark::steps:
            return svg.path(points_of(samples, frame, series.mark == Mark::steps), colour + " curve");
    }
}

}  // namespace

Svg draw(const XyChart& chart) {
    std::vector<LegendEntry> legend;
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
        const Series& series = chart.series[i];
        if (!series.name.empty()) legend.push_back({series.name, series.colour.value_or(i), series.mark});
    }
    // If the heading has many lines, the drawing becomes higher, and the plot keeps its height.
    const double grown = std::max(0.0, heading_height(chart.width, chart.heading, legend) - kUsualHeading);
    Svg svg(chart.width, chart.height + grown + extra_height(chart));
    const double top = draw_heading(svg, chart.heading, legend) + 6;
    const double bottom = std::max(chart.height + grown - kUnder, top + 60);
    const Frame frame{x_scale(chart).onto(kLeft, chart.width - kRight),
                      y_scale(chart).onto(bottom, top),
                      kLeft,
                      chart.width - kRight,
                      top,
                      bottom};
    draw_axes(svg, chart, frame);
    for (std::size_t i = 0; i < chart.series.size(); ++i)
        draw_series(svg, chart.series[i], drawable(chart, chart.series[i]), frame, i);
    return svg;
}

}  // namespace autotune::plot
