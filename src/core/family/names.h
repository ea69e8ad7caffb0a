#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/family/expression.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/core/space/config.h"

namespace autotune {

// A named expression, for use in other expressions.
struct Let {
    std::string name;
    std::string value;  // an expression
    bool operator==(const Let&) const = default;
};

// Named expressions that may use each other. Immutable; copies share them.
class Lets {
  public:
    Lets() = default;
    // Throws ExpressionError, and Error{usage} for names that define each other in a circle.
    explicit Lets(const std::vector<Let>& lets);

    const Expression* find(std::string_view name) const;
    // All names that an expression depends on. These are its own names and those of the lets that it uses, but not the lets
    // themselves.
    std::vector<std::string> names_of(const Expression& expression) const;

  private:
    std::shared_ptr<const std::map<std::string, Expression, std::less<>>> lets_;
};

// The words that a parameter's values represent, by the parameter's name.
using ParameterWords = std::map<std::string, std::vector<std::string>, std::less<>>;

// The values of names in the expressions of a definition (FamilyDefinition): those of a problem, a device and a config, and lets.
class Names {
  public:
    explicit Names(const Problem& problem, Lets lets = {});
    Names(const Problem& problem, const Device& device, Lets lets = {}, ParameterWords words = {});
    // Fills in the names of a problem without a device, for example for the constants of a source.
    void know(ParameterWords words) { words_ = std::move(words); }

    // REQUIRES: this and the config outlive the scope.
    Expression::Scope scope(const Config* config = nullptr) const;

  private:
    using Known = std::map<std::string, ExpressionValue, std::less<>>;

    std::optional<ExpressionValue> find(std::string_view name, const Config* config, const std::shared_ptr<Known>& lets) const;

    std::map<std::string, std::int64_t, std::less<>> values_;
    std::vector<Attribute> attributes_;
    Lets lets_;
    ParameterWords words_;
};

// Names that describe a device, and those that follow a tensor's name and a dot.
const std::vector<std::string>& device_names();
const std::vector<std::string>& tensor_properties();

}  // namespace autotune
