#include "db/warning_log.h"

#include <algorithm>

namespace autotune::db {

void WarningLog::keep(const Warning& warning) {
    all_.push_back(warning);
    if (tell_) tell_(warning);
}

void WarningLog::add(const Warning& warning) {
    int& count = counts_[warning.kind];
    if (count > kMostOfOneKind || std::find(all_.begin(), all_.end(), warning) != all_.end()) return;
    ++count;
    if (count <= kMostOfOneKind) return keep(warning);
    keep({warning.kind, "more warnings of this kind are left out; `autotune verify --database-only` checks every row"});
}

}  // namespace autotune::db
