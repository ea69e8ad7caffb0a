#pragma once

#include <string>

#include "tools/cli/output/report/report_page.h"

namespace autotune::cli {

// The page's first part: for each op and device a table of its problems with element type, the traits that tell them apart,
// speed and the fastest rival, and from two problems on the plots of all. A row leads to "#pN", N its place in the report.
std::string overview_html(const Report& report, const Catalogue& catalogue);

}  // namespace autotune::cli
