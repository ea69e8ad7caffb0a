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

// A fact about a problem, known at compile time, that a template's first block uses by its name: `using In = ${in_type};` or
// `constexpr int align_a = ${align_a};`. Only integers and dtype words, so that no other text can get into a source.
struct Binding {
    std::string name;
    std::variant<std::int64_t, DType> value;
    // The value as a source has it, such as "f16" or "128".
    std::string spelled() const {
        if (const auto* type = std::get_if<DType>(&value)) return std::string(to_string(*type));
        return std::to_string(std::get<std::int64_t>(value));
    }
};

// The predicted time of a config in microseconds, for ranking only; nullopt: no prediction.
using Predictor = std::function<std::optional<double>(const Config&)>;

// The launch parameters that a config gets for another problem than its own, and the time that the cost model predicts with them.
// It does not hold the config itself: many are compared and only one is used.
struct Relaunched {
    std::vector<std::pair<std::string_view, std::int64_t>> changes;  // names live as long as the family
    std::optional<double> predicted_us;

    Config of(Config config) const {
        for (const auto& [name, value] : changes) config.set(name, value);
        return config;
    }
};
using Relauncher = std::function<Relaunched(const Config&)>;

// One kernel template for an op. Implementations are stateless: every member is a pure function of its arguments, can be called
// from any thread, and never touches a GPU.
class Family {
  public:
    virtual ~Family() = default;

    // The folder under kernel_templates, such as "gemm/mma".
    virtual std::string_view name() const = 0;
    // One line for `autotune families`.
    virtual std::string_view about() const = 0;

    // The sort key of tables that compare families. The simplest technique comes first, and families with equal keys are sorted
    // by name.
    virtual int complexity_order() const { return 0; }

    // Equals space().version for every problem, so that a template's identity does not depend on a problem.
    virtual int space_version() const { return 1; }

    // Why this family cannot compute the problem on the device, in one sentence; nullopt if it can.
    virtual std::optional<std::string> refuses(const Problem& problem, const Device& device) const = 0;

    // REQUIRES for all below: !refuses(problem, device). Even then there may be no legal config: why_unable()
    // (src/dispatch/rules/refusals.h) reports that too. The names, kinds and order of the parameters are the same for every
    // problem.
    virtual SearchSpace space(const Problem& problem, const Device& device) const = 0;
    // rules(): the space without its default and its named configs, for callers that only need to know what is legal: choosing a
    // default takes a hundred times as long. default_config(): the default only; empty if no config is legal.
    virtual SearchSpace rules(const Problem& problem, const Device& device) const { return space(problem, device); }
    virtual Config default_config(const Problem& problem, const Device& device) const {
        return space(problem, device).default_config;
    }

    // The values of the text's placeholders, in addition to the config's compile parameters (bound under their own names) and
    // `${symbol}`. The same names for every problem.
    virtual std::vector<Binding> facts(const Problem& problem) const = 0;

    // REQUIRES: the space contains config. Only computes sizes and offsets: works for any extents >= 0 of the problem's class.
    virtual LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const = 0;

    // The cost model for one problem on one device; the result keeps no reference to them. A space has hundreds of thousands of
    // configs, so whatever depends only on the problem is computed once.
    virtual Predictor predictor(const Problem& problem, const Device& device) const {
        (void)problem, (void)device;
        return [](const Config&) { return std::nullopt; };
    }
    std::optional<double> predict_us(const Problem& problem, const Config& config, const Device& device) const {
        return predictor(problem, device)(config);
    }

    // Gives a loaded kernel the launch parameters that are predicted fastest for one problem on one device; the compile
    // parameters stay. The result may be an illegal config if the compile parameters are illegal for the problem. It keeps no
    // reference to problem or device. The library calls it for every instance that might serve a problem, so it has to take only
    // a few microseconds.
    virtual Relauncher relauncher(const Problem& problem, const Device& device) const {
        return [predict = predictor(problem, device)](const Config& config) { return Relaunched{{}, predict(config)}; };
    }
};

}  // namespace autotune
