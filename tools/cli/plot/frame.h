#pragma once

#include <string>
#include <vector>

#include "tools/cli/plot/charts.h"

namespace autotune::plot {

// Approximate width of text in the drawing's fonts, which cannot be queried.
double text_width(const std::string& words, double font_px = 12);

struct LegendEntry {
    std::string name;
    std::size_t series = 0;
    Mark mark = Mark::dots;
};

// Draws heading and legend at the top; returns the height that they take.
double draw_heading(Svg& svg, const Heading& heading, const std::vector<LegendEntry>& legend);
// The height that heading and legend will take.
double heading_height(double width, const Heading& heading, const std::vector<LegendEntry>& legend);

}  // namespace autotune::plot
