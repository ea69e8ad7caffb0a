#include "src/runtime/ops/described_problem.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/runtime/api/versions.h"

namespace autotune::runtime {
namespace {

// This flag is set in keys of described problems and clear in keys of the structs of single ops.
constexpr std::uint64_t kIsDescribed = std::uint64_t{1} << 62;

// Two 64-bit hashes of all values in order.
class KeyHash {
  public:
    void add(std::uint64_t word) noexcept {
        first_ = (first_ ^ word) * 0xff51afd7ed558ccdU;
        first_ ^= first_ >> 32;
        second_ = (second_ ^ std::rotl(word, 29)) * 0xc4ceb9fe1a85ec53U;
        second_ ^= second_ >> 29;
    }
    void add(std::int64_t word) noexcept { add(static_cast<std::uint64_t>(word)); }
    // REQUIRES: the caller also adds the length.
    void add(const char* text, std::size_t length) noexcept {
        for (std::size_t at = 0; at < length; at += sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, text + at, std::min(length - at, sizeof(word)));
            add(word);
        }
    }
    std::uint64_t first() const noexcept { return first_; }
    std::uint64_t second() const noexcept { return second_; }

  private:
    std::uint64_t first_ = 0x9e3779b97f4a7c15U, second_ = 0xd1342543de82ef95U;
};

std::uint64_t length_of(const char* text) noexcept {
    return text == nullptr ? 0 : std::strlen(text);
}

template <typename Element>
const Element* element_at(const Element* first, std::size_t index) noexcept {
    return reinterpret_cast<const Element*>(reinterpret_cast<const char*>(first) + index * first->struct_size);
}

// The caller's element itself if it is as large as ours, else a copy of its known members in `copy`. Returns null if no version
// has its size.
template <typename Element>
const Element* known_element(const Element* element, Element& copy) noexcept {
    if (element->struct_size == sizeof(Element)) return element;
    return copy_versioned(copy, element) ? &copy : nullptr;
}

// Checks that every element gives its size, and that all sizes are equal.
template <typename Element>
void check_array(const Element* first, std::size_t count, const char* name) {
    if (count == 0) return;
    const auto member = [&](std::size_t i) { return std::string("problem.") + name + "[" + std::to_string(i) + "]"; };
    if (first == nullptr) refuse(std::string("problem.") + name + " is NULL, but its count is " + std::to_string(count));
    for (std::size_t i = 0; i < count; ++i) {
        Element copy;
        const Element* const element = element_at(first, i);
        const Element* const known = element->struct_size == first->struct_size ? known_element(element, copy) : nullptr;
        if (known == nullptr)
            refuse(member(i) + ".struct_size must be that of the struct, here " + std::to_string(sizeof(Element)) + " bytes");
        if (known->name == nullptr) refuse(member(i) + ".name is NULL");
    }
}

std::vector<Dim> dims_of(const autotune_tensor& tensor) {
    const std::string name = std::string("tensor ") + tensor.name;
    if (tensor.rank < 0 || tensor.rank > AUTOTUNE_MAX_DIMS)
        refuse(name + " has rank " + std::to_string(tensor.rank) + "; it must be from 0 to " + std::to_string(AUTOTUNE_MAX_DIMS));
    const auto rank = static_cast<std::size_t>(tensor.rank);
    const bool is_dense = std::all_of(tensor.strides, tensor.strides + rank, [](std::int64_t stride) { return stride == 0; });
    std::vector<Dim> dims(rank);
    std::int64_t dense = 1;
    for (std::size_t i = rank; i-- > 0;) {
        dims[i] = {tensor.extents[i], is_dense ? dense : tensor.strides[i]};
        if (__builtin_mul_overflow(dense, std::max<std::int64_t>(tensor.extents[i], 1), &dense))
            refuse(name + " has more elements than 64 bits count; make it smaller");
    }
    return dims;
}

Attribute attribute_of(const autotune_attribute& given) {
    switch (given.kind) {
        case AUTOTUNE_ATTRIBUTE_WORD:
            if (given.word == nullptr) refuse(std::string("attribute ") + given.name + ": its word is NULL");
            return {given.name, std::string(given.word)};
        case AUTOTUNE_ATTRIBUTE_INTEGER:
            return {given.name, given.integer};
        case AUTOTUNE_ATTRIBUTE_NUMBER:
            return {given.name, given.number};
        case AUTOTUNE_ATTRIBUTE_RANGE:
            break;
    }
    refuse(std::string("attribute ") + given.name + " has the kind " + std::to_string(static_cast<int>(given.kind)) +
           ", no value of autotune_attribute_kind");
}

const Op& op_named(const Catalogue& catalogue, std::string_view name) {
    std::string known;
    for (const Op* op : catalogue.ops()) {
        if (op->name() == name) return *op;
        known += (known.empty() ? "" : ", ") + std::string(op->name());
    }
    const bool may_be_users = name.starts_with("user_");
    refuse("unknown op '" + std::string(name) + "'; known are " + known +
           (may_be_users ? "; open its kernel file with autotune_kernel_open()" : ""));
}

}  // namespace

GivenProblem::GivenProblem(const autotune_problem* given) {
    if (given == nullptr) refuse("problem is NULL");
    if (!copy_versioned(given_, given))
        refuse("problem.struct_size must be sizeof(autotune_problem), here " + std::to_string(sizeof(given_)) + " bytes");
    if (given_.op == nullptr) refuse("problem.op is NULL");
    check_array(given_.tensors, given_.tensor_count, "tensors");
    check_array(given_.attributes, given_.attribute_count, "attributes");
}

const autotune_tensor& GivenProblem::tensor(std::size_t index, autotune_tensor& copy) const noexcept {
    return *known_element(element_at(given_.tensors, index), copy);
}

const autotune_attribute& GivenProblem::attribute(std::size_t index, autotune_attribute& copy) const noexcept {
    return *known_element(element_at(given_.attributes, index), copy);
}

PlanKey DescribedPlanRequest::key(std::uint64_t context_id) const noexcept {
    KeyHash hash;
    const auto byte = [](auto value) { return std::min<std::uint64_t>(static_cast<std::uint64_t>(value), 0xffU); };
    hash.add(std::uint64_t{given_.op().size()});
    hash.add(given_.op().data(), given_.op().size());
    for (std::size_t i = 0; i < given_.tensor_count(); ++i) {
        autotune_tensor copy;
        const autotune_tensor& tensor = given_.tensor(i, copy);
        const std::uint64_t name_length = length_of(tensor.name);
        const std::uint64_t align = addresses_.empty() ? byte(tensor.align == 0 ? 16 : tensor.align) : 0;
        hash.add(name_length << 24 | align << 16 | byte(tensor.rank) << 8 | byte(tensor.type));
        hash.add(tensor.name, name_length);
        for (int d = 0; d < std::clamp(tensor.rank, 0, AUTOTUNE_MAX_DIMS); ++d) {
            hash.add(tensor.extents[d]);
            hash.add(tensor.strides[d]);
        }
    }
    for (const void* address : addresses_) hash.add(static_cast<std::uint64_t>(alignment_of(address)));
    for (std::size_t i = 0; i < given_.attribute_count(); ++i) {
        autotune_attribute copy;
        const autotune_attribute& attribute = given_.attribute(i, copy);
        const std::uint64_t name_length = length_of(attribute.name);
        const std::uint64_t word_length = attribute.kind == AUTOTUNE_ATTRIBUTE_WORD ? length_of(attribute.word) : 0;
        hash.add(word_length << 36 | name_length << 8 | byte(attribute.kind));
        hash.add(attribute.name, name_length);
        hash.add(attribute.word, word_length);
        if (attribute.kind == AUTOTUNE_ATTRIBUTE_INTEGER) hash.add(attribute.integer);
        if (attribute.kind == AUTOTUNE_ATTRIBUTE_NUMBER) hash.add(std::bit_cast<std::uint64_t>(attribute.number));
    }
    return {{context_id, hash.first(), hash.second(), kIsDescribed | (addresses_.empty() ? 0U : 1U)}};
}

// The alignment comes from the address, if there is one. Addresses come in the op's documented order of tensors.
TensorDescription DescribedPlanRequest::description(const Op& op, const autotune_tensor& tensor) const {
    const DType type = dtype_of(tensor.type, (std::string("the type of tensor ") + tensor.name).c_str());
    TensorDescription described{.name = tensor.name, .dtype = type, .dims = dims_of(tensor)};
    described.alignment_bytes = checked_align(tensor.align, tensor.name, static_cast<std::int64_t>(size_bytes(type)));
    const std::vector<TensorForm> forms = op.tensors();
    const auto form =
        std::find_if(forms.begin(), forms.end(), [&](const TensorForm& entry) { return entry.name == tensor.name; });
    const auto place = static_cast<std::size_t>(form - forms.begin());
    if (place < addresses_.size()) described.alignment_bytes = static_cast<int>(alignment_of(addresses_[place]));
    return described;
}

ProblemDescription DescribedPlanRequest::whole_description(const Op& op) const {
    ProblemDescription description{.op = std::string(given_.op()), .tensors = {}};
    autotune_tensor tensor;
    for (std::size_t i = 0; i < given_.tensor_count(); ++i)
        description.tensors.push_back(this->description(op, given_.tensor(i, tensor)));
    autotune_attribute attribute;
    for (std::size_t i = 0; i < given_.attribute_count(); ++i)
        description.attributes.push_back(attribute_of(given_.attribute(i, attribute)));
    return description;
}

std::optional<Problem> DescribedPlanRequest::with_word(const Catalogue& catalogue, const std::string& attribute,
                                                       const std::string& word) const {
    const Op& op = op_named(catalogue, given_.op());
    ProblemDescription description = whole_description(op);
    std::erase_if(description.attributes, [&](const Attribute& given) { return given.name == attribute; });
    description.attributes.push_back({attribute, word});
    return op.described(description).problem;
}

std::vector<Problem> DescribedPlanRequest::wider_problems(const Catalogue& catalogue) const {
    const Op& op = op_named(catalogue, given_.op());
    ProblemDescription description = whole_description(op);
    const Problem own = op.described(description).problem;
    std::vector<Problem> wider;
    for (const Scalar& scalar : own.scalars) {
        if (!own.has_attribute(scalar.name) || own.attribute(scalar.name) != AttributeValue("zero")) continue;
        std::erase_if(description.attributes, [&](const Attribute& given) { return given.name == scalar.name; });
        description.attributes.push_back({scalar.name, std::string("any")});
        wider.push_back(op.described(description).problem);
    }
    for (TensorDescription& tensor : description.tensors) tensor.alignment_bytes = static_cast<int>(size_bytes(tensor.dtype));
    try {
        wider.push_back(op.described(description).problem);
    } catch (const Error& error) {  // an op of a kernel file has the alignments that its file states
        if (error.code() != ErrorCode::usage) throw;
    }
    return wider;
}

Problem DescribedPlanRequest::problem(const Catalogue& catalogue) const {
    const Op& op = op_named(catalogue, given_.op());
    const ProblemDescription description = whole_description(op);
    DescribedProblem described = op.described(description);
    if (described.order.size() > CallForm::kMostTensors)
        refuse("op '" + description.op + "' has more tensors than a call passes");
    std::copy(described.order.begin(), described.order.end(), form_.order.begin());
    form_.may_be_in_place = op.works_in_place();
    return std::move(described.problem);
}

}  // namespace autotune::runtime
