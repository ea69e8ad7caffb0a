#include "db/sqlite/warning_log.h"

#include <algorithm>

namespace autotune::db {

void WarningLog::keep(const Warning& warning) {
    all_.push_back(warning);
    if (tell_) tell_(warning);
}

void WarningLog::add(const Warning& warning) {
    int& count = counts_[warning.kind];
    if (count > kMostOfOneKind || std::find(all_.begin(), all_.end(), warning) != all_.end()) return;
    if (count < kMostOfOneKind) {
        keep(warning);
    } else {
        keep({warning.kind, "more warnings of this kind are left out; `autotune verify --database-only` checks every row"});
    }
    ++count;  // The count is increased last, because storing the warning may throw.
}

}  // namespace autotune::db
