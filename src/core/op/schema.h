#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/problem/problem.h"

namespace autotune {

// A problem as people write it: `--op hgemm --shape 4096x4096x2048 --layout nt`.
struct ProblemRequest {
    std::string op;                              // an op's name or one of its aliases
    std::string shape;                           // "4096x4096x2048"
    std::map<std::string, std::string> options;  // by OpOption::name; attributes of a class key are options too
};

// A tensor as a program describes it.
struct TensorDescription {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Dim> dims;     // in the op's order (TensorForm::dims); leading dimensions of extent 1 may be left out
    int alignment_bytes = 16;  // a power of two up to 16 that divides the base address
};

// A problem as a program describes it: the same for every op, for the C interface, bindings and users' kernels.
struct ProblemDescription {
    std::string op;                          // an op's name
    std::vector<TensorDescription> tensors;  // by name, in any order; optional ones may be left out
    std::vector<Attribute> attributes = {};  // attributes that are left out have the op's usual value
};

// A described problem as the op knows it. Its tensors may be in another order than the op documents, for example if a
// column-major product is computed as a row-major one.
struct DescribedProblem {
    Problem problem;
    std::vector<std::size_t> order;  // tensor i of the problem is number order[i] of OpSchema::tensors()
};

// The value of an output whose sums have no terms, because an extent is 0: (factor * itself + value + bias of its column) *
// scale. If the factor is 0 in a call, the old value is not read.
struct EmptySum {
    int tensor = 0;                  // an index into Problem::tensors
    float value = 0;                 // the constant part of the sum
    std::optional<int> factor = {};  // an index into Problem::scalars, or 0 if there is none
    std::optional<int> bias = {};    // a tensor of one element for each column
    std::optional<int> scale = {};   // a tensor of one f32
    std::optional<int> amax = {};    // a tensor of one f32 that receives the running maximum of the magnitudes before scaling
};

// One option or attribute of an op, from which the command line, its messages and documentation are made. If `allowed` is empty,
// `form` describes the values.
struct OpOption {
    std::string name;                  // "layout"
    std::vector<std::string> allowed;  // {"nn", "nt", "tn", "tt"}
    std::string form;                  // such as "integer >= 1", "power of two <= 16, one or one per tensor"
    std::string about;
};

struct OpAlias {
    std::string name;  // "hgemm"
    std::map<std::string, std::string> presets;
};

// A tensor of an op's documented interface.
struct TensorForm {
    std::string name;               // "a"
    Access access = Access::in;     // inout: the attributes decide whether it is read
    std::vector<std::string> dims;  // {"batch", "m", "k"}
    bool is_optional = false;
    std::string about = {};
};

// How problems of an op are described. Stateless, pure, thread-safe.
class OpSchema {
  public:
    virtual ~OpSchema() = default;

    virtual std::string_view name() const = 0;
    virtual std::string_view about() const = 0;
    // The form of a shape, such as "MxNxK". "N|SxK" means either of two forms, the longer one last.
    virtual std::string_view shape_form() const = 0;
    virtual std::vector<OpAlias> aliases() const = 0;
    virtual std::vector<OpOption> options() const = 0;
    // Requests that show the op at work, the plainest first: help texts print them, and conformance tests run every family on
    // them.
    virtual std::vector<ProblemRequest> examples() const { return {}; }

    // The tensors of a description and of a call, in the documented order.
    virtual std::vector<TensorForm> tensors() const = 0;
    // The attributes that a description may have: words from a closed list, or numbers.
    virtual std::vector<OpOption> attributes() const { return {}; }
    // Whether an output may be in the memory of an input of the same size.
    virtual bool works_in_place() const { return false; }

    // The outputs of a problem whose sums have no terms: one entry for each output that is not empty; no entries if nothing is
    // written at all. nullopt: families compute the problem. The rule is the same for every op: an empty output is success
    // without a launch, and a sum without terms is 0.
    virtual std::optional<std::vector<EmptySum>> empty_sums(const Problem& problem) const;

    // Throws Error{usage}: one sentence that names the culprit and what is allowed. A request can only describe problems that can
    // be tuned, whose extents are at least 1 except for the length of an add. Round trip: problem({p.op, p.shape(), attributes
    // and "align" of p as options}).key() == p.key() for every such p.
    virtual Problem problem(const ProblemRequest& request) const = 0;
    // Makes the same problems with the same checks from a description instead of words. Throws Error{usage}, too.
    virtual DescribedProblem described(const ProblemDescription& description) const = 0;
};

}  // namespace autotune
