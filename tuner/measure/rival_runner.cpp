#include "tuner/measure/rival_runner.h"

#include <algorithm>

#include "tuner/measure/fastest_of.h"

namespace autotune::tuner {

std::string RivalRunner::prepare(const std::string& name, ProblemFixture& fixture, Meter& meter, Runnable& runnable) {
    const Problem& problem = fixture.problem();
    if (!made_.contains(problem.op)) made_[problem.op] = rivals_of(problem.op);
    const auto& known = made_[problem.op];
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& rival) { return rival->name() == name; });
    if (found == known.end()) return name + " does not compute " + problem.op;
    if (std::string refused = (*found)->refuses(problem); !refused.empty()) return refused;

    PreparedRival prepared = (*found)->prepare(problem, {gpu_.driver, gpu_.stream.handle(), gpu_.library_folders});
    if (prepared.ways.empty()) return prepared.why_not;
    std::vector<Runnable> choices(prepared.ways.size());
    for (std::size_t i = 0; i < choices.size(); ++i) choices[i].enqueue = std::move(prepared.ways[i]);
    std::size_t best = 0;
    if (choices.size() > 1) {
        const std::optional<std::size_t> fastest = fastest_of(meter, fixture, choices);
        if (!fastest) return "none of " + std::to_string(choices.size()) + " ways that " + name + " offers can be launched";
        best = *fastest;
    }
    runnable.deterministic = false;  // rivals do not promise to be deterministic, and we do not check it
    runnable.enqueue = std::move(choices[best].enqueue);
    return "";
}

}  // namespace autotune::tuner
