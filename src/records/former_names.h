#pragma once

#include <string>

#include "src/core/former_templates.h"
#include "src/records/winner.h"

namespace autotune {

// Converts rows of earlier versions to the form in which this version would have stored them. A row under an identity that
// `former` does not know keeps its identity and the restriction of its search, which are parts of its key: it is stale, and
// `show` and `verify` list it. Its parameters still get today's names, because a later search starts from its config.
void bring_up_to_date(Winner& winner, const FormerTemplates& former);
void bring_up_to_date(StoredTrial& trial, const FormerTemplates& former);

// Today's names of the parameters.
Config renamed(const Config& config, const std::string& family, const FormerTemplates& former);
// A candidate's name or a config, such as "gemm/mma stages=3", with today's names of its parameters in the same order.
std::string renamed_name(const std::string& words, const std::string& family, const FormerTemplates& former);
// The restriction of a search, such as "family=gemm/mma group=4 stages=3". Its parameters are put in the order of today's names,
// because a later search finds the row by the whole text.
std::string renamed_restriction(const std::string& words, const std::string& family, const FormerTemplates& former);

}  // namespace autotune
