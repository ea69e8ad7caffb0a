// Checks of a whole kernel file that need no compiler.
#include <algorithm>
#include <limits>
#include <set>

#include "src/core/statistics/random.h"
#include "src/core/system/npy_file.h"
#include "src/core/text.h"
#include "src/kernel_files/kernel_file.h"

namespace autotune::kernel_files {
namespace {

constexpr double kMostPoints = 1e12;
constexpr std::size_t kConfigsTried = 200;
constexpr std::uint32_t kMostGridX = 2147483647, kMostGridOther = 65535, kMostThreads = 1024;

class Checker {
  public:
    Checker(const KernelFile& file, const std::vector<Device>& devices) : file_(file), devices_(devices) {}

    std::vector<Finding> run() {
        try {
            const DefinedOp op(file_.family.op);
            const DefinedFamily family(file_.family);
            for (const OpDefinition::Example& example : file_.op().examples) check_example(op, family, example);
            check_examples_alike(op);
            if (without_config_.size() > 1 && no_config_at_ < findings_.size())
                findings_[no_config_at_].text += " (and on " + std::to_string(without_config_.size() - 1) + " more examples)";
        } catch (const ExpressionError& error) {
            add(file_.finding_of(error));
        } catch (const Error& error) {
            add({{file_.path}, error.what()});
        }
        return std::move(findings_);
    }

  private:
    void add(Finding finding) {
        const bool is_known = std::any_of(findings_.begin(), findings_.end(), [&](const Finding& each) {
            return each.place.line == finding.place.line && each.place.column == finding.place.column &&
                   each.text == finding.text;
        });
        if (!is_known) findings_.push_back(std::move(finding));
    }

    // Adds an error at the place of its expression. `on` names the example or config that showed it.
    void add_error(const Error& error, const std::string& on) {
        const auto* const expression = dynamic_cast<const ExpressionError*>(&error);
        Finding finding = expression != nullptr ? file_.finding_of(*expression) : Finding{{file_.path}, error.what()};
        // Reports only the first example that shows a finding at a place.
        const bool is_known = std::any_of(findings_.begin(), findings_.end(), [&](const Finding& each) {
            return each.place.line == finding.place.line && each.place.column == finding.place.column && finding.place.line > 0;
        });
        if (is_known) return;
        finding.text += " (on " + on + ")";
        add(std::move(finding));
    }

    static std::string shape_of(const OpDefinition::Example& example) {
        std::vector<std::string> parts;
        for (const std::int64_t extent : example.extents) parts.push_back(std::to_string(extent));
        std::string text = "example " + join(parts, "x");
        for (const auto& [name, value] : example.attributes) text += " " + name + "=" + value;
        return text;
    }

    void check_example(const DefinedOp& op, const DefinedFamily& family, const OpDefinition::Example& example) {
        const std::string on = shape_of(example);
        try {
            const Problem problem = op.problem_of(example.extents, example.attributes);
            if (op.flops(problem) < 0) add({{file_.path}, "'flops' is below 0 on " + on});
            op.bytes(problem);
            for (const OpTest& test : op.tests(problem))
                check_steps(op.reference_plan(problem, test), devices_.front(), "the reference on " + on);
            const DataRules rules = op.data_rules(problem);
            check_steps(rules.prepare, devices_.front(), "a preparation on " + on);
            for (const auto& [index, path] : rules.files)
                if (const std::string wrong = npy_mismatch(path, problem.tensors[static_cast<std::size_t>(index)]);
                    !wrong.empty())
                    add({{file_.path}, wrong + " (on " + on + ")"});
            for (const Device& device : devices_) check_family(family, problem, device, on + ", " + device.arch());
        } catch (const Error& error) {
            add_error(error, on);
        }
    }

    void check_family(const DefinedFamily& family, const Problem& problem, const Device& device, const std::string& on) {
        const Names names(problem, device, Lets(file_.family.lets), file_.family.words);
        for (const FamilyDefinition::Rule& rule : file_.family.accepts) {
            if (Expression(rule.holds).evaluate(names.scope()) != 0) continue;
            Finding finding{{file_.path}, on + " is not accepted: " + rule.reason};
            if (const auto place = file_.expressions.find(rule.holds); place != file_.expressions.end())
                finding.place = place->second;
            return add(std::move(finding));
        }
        double points = 1;
        for (const Parameter& parameter : file_.family.parameters) points *= static_cast<double>(parameter.values.size());
        if (is_too_large_) return;
        if (points > kMostPoints) {
            std::string text = std::to_string(points);
            text = text.substr(0, text.find('.'));
            return add({{file_.path},
                        "the space has " + text +
                            " points, more than 10^12; give parameters fewer values, or use ranges with larger steps"});
        }
        const SearchSpace space = family.space(problem, device);
        std::vector<Config> legal;
        try {
            legal = configs_of(space);
        } catch (const Error& error) {
            if (error.code() != ErrorCode::usage || is_too_large_) throw;
            is_too_large_ = true;  // one finding represents all examples and devices
            return add({{file_.path}, error.what()});
        }
        if (legal.empty()) {
            if (without_config_.empty()) no_config_at_ = findings_.size();
            const bool is_first = without_config_.empty();
            without_config_.insert(on.substr(0, on.find(',')));
            if (is_first) findings_.push_back(no_config(space, on));
            return;
        }
        if (!space.contains(space.canonical(file_.family.default_config)) && told_default_.insert(on).second &&
            devices_.front().arch() == device.arch()) {
            const auto why = space.why_not(space.canonical(file_.family.default_config));
            add({{file_.path},
                 "the default config is not legal on " + on + ": " + why.value_or("") +
                     "; the first legal config takes its place",
                 true});
        }
        for (const Config& config : legal) {
            try {
                check_steps(family.plan(problem, config, device), device, on + ", " + config.to_string());
            } catch (const Error& error) {
                add_error(error, on + ", " + config.to_string());
                return;
            }
        }
    }

    static std::vector<Config> configs_of(const SearchSpace& space) {
        std::vector<Config> all = space.sample({}, kConfigsTried);
        for (const NamedConfig& named : space.named) all.push_back(named.config);
        return all;
    }

    // At the constraint that drops most.
    Finding no_config(const SearchSpace& space, const std::string& on) const {
        const SpaceCount count = space.count();
        std::string text = "no config is legal on " + on + ": of " + std::to_string(count.points) + " points";
        bool is_first = true;
        std::string strictest;
        decltype(count.points) most = 0;
        for (const auto& [reason, dropped] : count.dropped) {
            if (dropped == 0) continue;
            text += std::string(is_first ? " " : ", ") + std::to_string(dropped) + " break '" + reason + "'";
            is_first = false;
            if (dropped > most) {
                strictest = reason;
                most = dropped;
            }
        }
        for (const FamilyDefinition::Rule& rule : file_.family.constraints)
            if (rule.reason == strictest) return finding_at(rule.holds, text);
        return {{file_.path}, text};
    }

    // A finding at an expression of the file.
    Finding finding_at(const std::string& expression, const std::string& text) const {
        Finding finding{{file_.path}, text};
        const auto place = file_.expressions.find(expression);
        if (place == file_.expressions.end()) return finding;
        finding.place = place->second;
        finding.line = file_.line(finding.place.line);
        return finding;
    }

    // The step of the file that a launch comes from.
    const StepDefinition* definition_of(const LaunchStep& step) const {
        for (const auto* const steps : {&file_.family.steps, &file_.op().reference, &file_.op().prepare})
            for (const StepDefinition& each : *steps)
                if (each.entry == step.entry && each.action == StepDefinition::Action::launch) return &each;
        return nullptr;
    }

    void check_steps(const LaunchPlan& plan, const Device& device, const std::string& on) {
        for (const LaunchStep& step : plan.steps) {
            const std::uint64_t threads = std::uint64_t{step.block.x} * step.block.y * step.block.z;
            std::string wrong, expression;
            const StepDefinition* const definition = definition_of(step);
            const auto because = [&](const std::string& text, std::string StepDefinition::*value) {
                wrong = text;
                if (definition != nullptr) expression = definition->*value;
            };
            const auto in_dims = [&](const std::string& text, const std::array<std::string, 3> StepDefinition::*dims,
                                     std::size_t at) {
                wrong = text;
                if (definition != nullptr) expression = (definition->*dims)[at];
            };
            if (threads == 0) in_dims("a block has no thread", &StepDefinition::block, 0);
            if (threads > kMostThreads)
                in_dims("a block has " + std::to_string(threads) + " threads; a GPU takes 1024", &StepDefinition::block, 0);
            if (step.block.z > 64)
                in_dims("a block is " + std::to_string(step.block.z) + " deep; a GPU takes 64", &StepDefinition::block, 2);
            if (step.grid.x > kMostGridX || step.grid.y > kMostGridOther || step.grid.z > kMostGridOther)
                in_dims("the grid is " + std::to_string(step.grid.x) + "x" + std::to_string(step.grid.y) + "x" +
                            std::to_string(step.grid.z) + "; y and z take 65535",
                        &StepDefinition::grid,
                        step.grid.x > kMostGridX       ? 0
                        : step.grid.y > kMostGridOther ? 1
                                                       : 2);
            if (step.dynamic_smem_bytes > static_cast<std::size_t>(device.limits.smem_per_block_bytes))
                because("the step asks for " + std::to_string(step.dynamic_smem_bytes) + " bytes of shared memory; a block of " +
                            device.arch() + " has " + std::to_string(device.limits.smem_per_block_bytes),
                        &StepDefinition::dynamic_smem_bytes);
            if (wrong.empty()) continue;
            if (!told_steps_.insert(step.entry + wrong.substr(0, 12)).second) continue;
            add(finding_at(expression, wrong + " (" + on + "); add a [[constraint]] that drops such configs"));
        }
    }

    // Reports examples that are given twice.
    void check_examples_alike(const DefinedOp& op) {
        std::set<std::string> keys;
        for (const OpDefinition::Example& example : file_.op().examples) {
            try {
                const Problem problem = op.problem_of(example.extents, example.attributes);
                if (!keys.insert(problem.key()).second) add({{file_.path}, shape_of(example) + " is there twice", true});
            } catch (const Error&) {
                // told already
            }
        }
    }

    const KernelFile& file_;
    const std::vector<Device>& devices_;
    std::vector<Finding> findings_;
    std::set<std::string> told_default_, told_steps_;
    std::set<std::string> without_config_;  // examples
    std::size_t no_config_at_ = 0;
    bool is_too_large_ = false;
};

}  // namespace

std::vector<Finding> check(const KernelFile& file, const std::vector<Device>& devices) {
    return Checker(file, devices).run();
}

}  // namespace autotune::kernel_files
