#pragma once

#include <span>
#include <string_view>

#include "db/portfolio.h"

namespace autotune::dispatch {

// The portfolio of the class, else of the class with most words in common (types, layout, beta, alignment) and the same
// accumulator; nullptr if there is none for the op and architecture.
const db::Portfolio* portfolio_for(std::span<const db::Portfolio> portfolios, std::string_view class_key, std::string_view arch);

}  // namespace autotune::dispatch
