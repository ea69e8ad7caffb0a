#include "src/runtime/load/opened_kernels.h"

#include <utility>

#include "src/catalogue/hash.h"
#include "src/catalogue/op_names.h"
#include "src/kernel_files/kernel_file.h"
#include "src/runtime/api/status.h"

namespace autotune::runtime {
namespace {

// Each one stays in memory as long as the handle.
constexpr std::size_t kMostOpened = 256;

std::string content_of(const FamilyDefinition& family) {
    Hash hash;
    hash.field(family.canonical_rules());
    for (const auto* texts : {&family.op->source.files, &family.op->source.headers}) {
        for (const KernelText& text : *texts) {
            hash.field(text.name);
            hash.field(text.text);
        }
    }
    return to_hex(hash.digest());
}

}  // namespace

std::string OpenedKernels::open(const std::string& path) {
    const std::lock_guard lock(mutex_);
    FamilyDefinition family = kernel_files::load_or_throw(
        path, {.taken_names = op_names(catalogue_),
               .needs_data = false,
               .toolkit = kernel_files::find_toolkit(settings_.toolkit_roots, settings_.library_folders)});
    const std::string name = family.op->name;
    const std::string content = content_of(family);
    if (const auto known = contents_.find(name); known != contents_.end()) {
        if (known->second == content) return name;
        throw Failure(AUTOTUNE_INVALID_ARGUMENT, path + " differs from the file of op " + name +
                                                     " that this handle has opened, whose plans may be in use; open it with "
                                                     "another handle");
    }
    if (contents_.size() == kMostOpened)
        throw Failure(AUTOTUNE_INVALID_ARGUMENT,
                      "this handle has opened 256 kernel files; open " + path + " with another handle");
    catalogue_.add(std::move(family));
    contents_.emplace(name, content);
    return name;
}

std::string OpenedKernels::interface_of(const std::string& name) const {
    const auto* const op = dynamic_cast<const DefinedOp*>(catalogue_.find_op(name));
    if (op == nullptr)
        throw Failure(AUTOTUNE_INVALID_ARGUMENT, "'" + name + "' is no op of a kernel file that this handle has opened");
    const OpDefinition& definition = op->definition();
    std::string text;
    for (const OpDefinition::Tensor& tensor : definition.tensors) {
        const char* const access = tensor.access == Access::in ? "in" : tensor.access == Access::out ? "out" : "inout";
        text += "tensor " + tensor.name + " " + access + "\n";
    }
    for (const OpDefinition::Scalar& scalar : definition.scalars) text += "scalar " + scalar.name + " " + scalar.type + "\n";
    for (const OpDefinition::Attribute& attribute : definition.attributes) {
        text += "attribute " + attribute.name;
        for (const std::string& value : attribute.values) text += " " + value;
        text += "\n";
    }
    for (const std::string& extent : definition.extents)
        text += "extent " + extent + (definition.is_given_by_a_tensor(extent) ? " of tensors\n" : " of attributes\n");
    return text;
}

}  // namespace autotune::runtime
