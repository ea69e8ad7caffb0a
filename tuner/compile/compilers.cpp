#include "tuner/compile/compilers.h"

#include <utility>

namespace autotune::tuner {

CompileOutcome outcome_from_cache(jit::Compiled found) {
    CompileOutcome outcome;
    found.report.from_cache = true;
    outcome.report = found.report;
    outcome.rejected = jit::reject_reason(found.report);
    outcome.compiled = std::make_shared<const jit::Compiled>(std::move(found));
    return outcome;
}

}  // namespace autotune::tuner
