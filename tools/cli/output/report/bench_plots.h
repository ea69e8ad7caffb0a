#pragma once

#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "tools/cli/output/text/bench_format.h"
#include "tools/cli/plot/svg.h"

namespace autotune::cli {

// One problem's rows as bars, from the simplest kernel to winner and rivals. Returns the text of a file.
std::string ladder_svg(const Benched& benched, const Device& device, const Op& op);

// Many problems of one op: rates under the roofline, rates of every problem with those of the rivals and, if there are rivals,
// paired ratios; each chart is `width` wide. REQUIRES: not empty.
std::vector<plot::Svg> problem_charts(const std::vector<Benched>& benched, const Device& device, const Op& op, double width);
// The plot of several problems as the text of one file.
std::string problems_svg(const std::vector<Benched>& benched, const Device& device, const Op& op);

}  // namespace autotune::cli
