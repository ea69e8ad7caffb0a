#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotune::tuner {

// The space that a strategy searches: points 0..size-1, made from families' spaces or from a recorded space. A plain value.
struct Domain {
    std::size_t size = 0;
    // Points reached from a point by one step. Deterministic order.
    std::function<std::vector<std::size_t>(std::size_t)> neighbours;
    // Expected time in any unit that orders points; nullopt: unknown.
    std::function<std::optional<double>(std::size_t)> prior;
    // Points with the same number share one compiled instance: trying a second one is cheap.
    std::function<std::size_t(std::size_t)> instance;
    // Coordinates of a point as positions in each parameter's domain, for strategies that model; the same length for all points.
    std::function<std::vector<int>(std::size_t)> coordinates;
    // Features of a point for models, in addition to its coordinates: which values are powers of two. The same length for all
    // points, which may be 0; empty function: none.
    std::function<std::vector<int>(std::size_t)> traits;
    // Points to try first: the default config, winners of near problems, the previous winner.
    std::vector<std::size_t> seeds;
};

// The gain that a longer search would probably bring.
struct Outlook {
    double gain = 0;       // the expected gain, as a share of the best time so far
    std::size_t left = 0;  // points that are not reported yet
};

// Ask/report: the caller asks for points, tries them in any order and reports each. Deterministic under a seed for the same
// reports.
class Strategy {
  public:
    virtual ~Strategy() = default;
    virtual std::string_view name() const = 0;
    // Up to `count` points that were never returned before, most promising first. Fewer, or none, while it waits for reports;
    // always none once exhausted() is true.
    virtual std::vector<std::size_t> ask(std::size_t count) = 0;
    // The same of points that need no compilation, because they share the instance of a reported one. None if the strategy
    // expects too little of them. They are tried in addition to others, and do not count where the strategy counts trials.
    virtual std::vector<std::size_t> ask_compiled(std::size_t /*count*/) { return {}; }
    // The time of a point, or nullopt if it failed.
    virtual void report(std::size_t point, std::optional<double> time_us) = 0;
    virtual bool exhausted() const = 0;
    // From the reports so far, counting points in progress as tried; nullopt until a point has worked, or if the strategy cannot
    // tell.
    virtual std::optional<Outlook> outlook() { return std::nullopt; }
};

// Names known to make_strategy, the default first.
std::vector<std::string> strategy_names();
// Throws Error{usage} for an unknown name, listing the known ones.
void require_strategy(std::string_view name);
// Throws like require_strategy. "auto" = exhaustive for small domains, else the default.
std::unique_ptr<Strategy> make_strategy(std::string_view name, const Domain& domain, std::uint64_t seed);

}  // namespace autotune::tuner
