#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/core/family/launch_plan.h"
#include "src/core/problem/device.h"
#include "src/core/problem/dtype.h"
#include "src/core/problem/problem.h"
#include "src/core/space/config.h"
#include "src/core/space/search_space.h"

namespace autotune {

// A compile-time fact of a problem that a template's first block asks for by name: `using In = ${in_type};` or
// `constexpr int align_a = ${align_a};`. Integers and dtype words only: nothing else can reach a source.
struct Binding {
    std::string name;
    std::variant<std::int64_t, DType> value;
    // As the value stands in a text: "f16", "128".
    std::string spelled() const {
        if (const auto* type = std::get_if<DType>(&value)) return std::string(to_string(*type));
        return std::to_string(std::get<std::int64_t>(value));
    }
};

// Time expected of a config, in microseconds, for ranking only; nullopt: no opinion.
using Predictor = std::function<std::optional<double>(const Config&)>;

// The launch parameters that a config gets for another problem than the one it comes from, and what the cost model says of it
// then. Without the config: of many that are compared, one is taken.
struct Relaunched {
    std::vector<std::pair<std::string_view, std::int64_t>> changes;  // names live as long as the family
    std::optional<double> predicted_us;

    Config of(Config config) const {
        for (const auto& [name, value] : changes) config.set(name, value);
        return config;
    }
};
using Relauncher = std::function<Relaunched(const Config&)>;

// One kernel template for an op. Implementations are stateless: every member is a pure function of its arguments, callable from
// any thread, and never touches a GPU.
class Family {
  public:
    virtual ~Family() = default;

    // "gemm/mma": the folder under kernel_templates.
    virtual std::string_view name() const = 0;
    // One line for `autotune families`.
    virtual std::string_view about() const = 0;

    // Sort key of side by side tables: the simplest technique first; equals by name.
    virtual int complexity_order() const { return 0; }

    // Equals space().version for every problem, so that a template's identity needs no problem.
    virtual int space_version() const { return 1; }

    // Why this family cannot do the problem on the device, in one sentence; nullopt if it can.
    virtual std::optional<std::string> refuses(const Problem& problem, const Device& device) const = 0;

    // REQUIRES for all below: !refuses(problem, device). A problem may leave no config legal all the same: why_unable()
    // (src/dispatch/rules/refusals.h) says that too.
    // Names, kinds and order of its parameters are the same for every problem.
    virtual SearchSpace space(const Problem& problem, const Device& device) const = 0;
    // The space without its default and its named configs, for callers who ask only what is legal: choosing a default takes a
    // hundred times longer. And the default alone; empty if no config is legal.
    virtual SearchSpace rules(const Problem& problem, const Device& device) const { return space(problem, device); }
    virtual Config default_config(const Problem& problem, const Device& device) const {
        return space(problem, device).default_config;
    }

    // What the text's placeholders stand for beside the config's compile parameters (bound under their own names) and
    // `${symbol}`. The same names for every problem.
    virtual std::vector<Binding> facts(const Problem& problem) const = 0;

    // REQUIRES: the space contains config. Pure geometry: works for any extents >= 0 of the problem's class.
    virtual LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const = 0;

    // The cost model for one problem on one device; it refers to neither. A space has hundreds of thousands of configs, so what
    // depends on the problem alone is computed once.
    virtual Predictor predictor(const Problem& problem, const Device& device) const {
        (void)problem, (void)device;
        return [](const Config&) { return std::nullopt; };
    }
    std::optional<double> predict_us(const Problem& problem, const Config& config, const Device& device) const {
        return predictor(problem, device)(config);
    }

    // Gives a loaded kernel the launch parameters that are predicted fastest for one problem on one device: compile parameters
    // stay. What it gives may be illegal where the compile parameters are. It refers to neither problem nor device. The library
    // asks it of every instance that might serve a problem, so it costs a few microseconds.
    virtual Relauncher relauncher(const Problem& problem, const Device& device) const {
        return [predict = predictor(problem, device)](const Config& config) { return Relaunched{{}, predict(config)}; };
    }
};

}  // namespace autotune
