#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/catalogue/code_of.h"
#include "src/core/family/family.h"
#include "src/core/family/family_definition.h"
#include "src/core/op/op.h"
#include "src/core/op/op_definition.h"

namespace autotune {

// A header that device text may include by this name: {"common/ptx.cuh", text}. Every .cuh file that is not a kernel, reference
// or harness.
struct TemplateHeader {
    std::string name;
    DeviceText device_text;

    const std::string& text() const { return device_text.text(); }
};

// All ops and families with their device text. A value: families may be added to a copy. Built from the folders at compile time
// (CMake generates the registry); texts can be replaced from a directory for kernel development.
class Catalogue {
  public:
    // The texts that are embedded in the binary.
    static Catalogue embedded();
    // Files under `directory` (<op>/<family>/kernel.cuh, <op>/op/reference.cuh, common/*.cuh) replace the embedded texts of the
    // same path, and headers that only the directory has are added. Throws Error{usage} if the directory cannot be read, if a
    // .cuh file neither replaces a text nor is included by one, or if a template would have two headers of the same base name.
    static Catalogue from_directory(const std::string& directory);

    Catalogue(const Catalogue& other);
    Catalogue& operator=(const Catalogue& other);

    const std::vector<const Op*>& ops() const { return contents().ops; }
    const std::vector<const Family*>& families() const { return contents().families; }
    // Adds a family that is defined by data, and its op if the definition has one. Throws Error{usage} for definitions that
    // DefinedFamily and DefinedOp refuse, for an unknown op and for a name that is taken. Other threads may read meanwhile, but
    // not add. References from before stay valid.
    void add(FamilyDefinition definition);
    // The definitions passed to add(), so that another process can add them as well.
    std::vector<FamilyDefinition> definitions() const;

    // Families of an op, in name order.
    std::vector<const Family*> families_of(std::string_view op) const;

    const Op* find_op(std::string_view name_or_alias) const;
    // Also finds the family of empty sums (empty_sum.h), which is not one of families().
    const Family* find_family(std::string_view name) const;

    // Parses a request with its op. Throws Error{usage} for an unknown op, naming the known ones.
    Problem problem(const ProblemRequest& request) const;
    // Makes a problem from a typed description, with the same error for an unknown op.
    DescribedProblem described(const ProblemDescription& description) const;
    const Op& op_of(const Problem& problem) const;

    const DeviceText& device_text(const Family& family) const;
    const DeviceText& device_text_of_reference(const Op& op) const;
    // Kernels for measuring and verifying: fill, poison, compare, canary (common/harness.cuh).
    const DeviceText& device_text_of_harness() const;
    const std::string& text(const Family& family) const { return device_text(family).text(); }
    const std::string& reference_text(const Op& op) const { return device_text_of_reference(op).text(); }
    const std::string& harness_text() const { return device_text_of_harness().text(); }
    const std::vector<TemplateHeader>& headers() const { return headers_; }

    // Identity of a family's template: hash of the code of its text (code_of.h) and of every header that it includes, and of the
    // space's version. 16 hex digits. Comments, white space and the folders of headers do not count.
    std::string template_identity(const Family& family) const;

  private:
    explicit Catalogue(const std::string& directory);  // empty: only embedded text
    void require_effect(const std::string& directory) const;
    void require_distinct_names(const std::string& directory) const;

    // The part that add() changes: it makes new contents and then shows them to all readers at once.
    struct Contents {
        std::vector<const Op*> ops;
        std::vector<const Family*> families;                                           // in name order
        std::vector<std::shared_ptr<const DefinedFamily>> defined;                     // those that were added
        std::vector<std::shared_ptr<const DefinedOp>> defined_ops;                     // ops that came with added families
        std::vector<std::pair<std::string, std::shared_ptr<const DeviceText>>> texts;  // by file name
    };
    const Contents& contents() const { return *shown_.load(std::memory_order_acquire); }
    void show(std::shared_ptr<const Contents> contents);

    // Every version that was ever shown, because other threads may still read it
    std::vector<std::shared_ptr<const Contents>> kept_;
    std::atomic<const Contents*> shown_{nullptr};
    std::vector<TemplateHeader> headers_;
};

}  // namespace autotune
