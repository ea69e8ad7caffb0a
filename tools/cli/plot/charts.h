#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/plot/svg.h"

namespace autotune::plot {

struct Heading {
    std::string title{};
    std::string subtitle{};
};

// ---- horizontal bars, one per line, in the given order ----

struct Bar {
    std::string label;
    double value = 0;        // 0 for an entry that has only a note
    std::string text{};      // at the bar's end
    std::size_t series = 0;  // the colour, which BarChart::series names
    std::string title{};     // shown when the pointer rests on the element
};

struct BarChart {
    Heading heading;
    std::string value_title{};
    std::vector<Bar> bars{};
    std::vector<std::string> series{};  // legend; empty: none
    double width = 900;
};
Svg draw(const BarChart& chart);

// ---- values over values ----

struct Sample {
    double x = 0, y = 0;
    std::optional<double> low{}, high{};  // interval of y
    std::string title{};
};

enum class Mark { dots, curve, steps, limit };  // limit: a dashed bound, not data

struct Series {
    std::string name{};  // if empty, it is not in the legend
    Mark mark = Mark::dots;
    std::vector<Sample> samples{};
    std::optional<std::size_t> colour{};  // the number of its colour; nullopt means the number of its position in the chart
};

struct XyChart {
    Heading heading;
    std::string x_title{}, y_title{};
    bool x_logarithmic = false, y_logarithmic = false;
    std::vector<std::string> categories{};  // names of x = 0, 1, 2, ... instead of numbers
    std::vector<Series> series{};           // samples that are not finite are left out
    std::optional<double> y_low{}, y_high{};
    double width = 900, height = 340;  // the height grows with the names of categories
};
Svg draw(const XyChart& chart);

}  // namespace autotune::plot
