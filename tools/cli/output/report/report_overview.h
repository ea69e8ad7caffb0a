#pragma once

#include <string>

#include "tools/cli/output/report/report_page.h"

namespace autotune::cli {

// The page's first part. For each op and device: a table of its problems with element type, differing attributes, speed and the
// fastest rival, and for two or more problems the plots of all. A row links to "#pN", where N is its position in the report.
std::string overview_html(const Report& report, const Catalogue& catalogue);

}  // namespace autotune::cli
