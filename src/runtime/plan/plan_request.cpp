#include "src/runtime/plan/plan_request.h"

#include "src/runtime/api/status.h"

namespace autotune::runtime {

[[noreturn]] void refuse(const std::string& message) {
    throw Failure(AUTOTUNE_INVALID_ARGUMENT, message);
}

DType dtype_of(autotune_dtype type, const char* member) {
    // The public enumeration has the order of ours, after the default.
    static_assert(static_cast<int>(DType::f16) + 1 == AUTOTUNE_F16 && static_cast<int>(DType::u64) + 1 == AUTOTUNE_U64);
    const auto number = static_cast<unsigned>(type) - 1;
    if (number < kDTypes.size()) return kDTypes[number].type;
    if (type == AUTOTUNE_DTYPE_DEFAULT) refuse(std::string(member) + " is missing");
    refuse(std::string(member) + " is " + std::to_string(static_cast<int>(type)) + ", no value of autotune_dtype");
}

DType dtype_of(autotune_dtype type, const char* member, DType usual) {
    return type == AUTOTUNE_DTYPE_DEFAULT ? usual : dtype_of(type, member);
}

int checked_align(int align, const std::string& name, std::int64_t element_bytes) {
    if (align == 0) align = 16;
    if (align < 1 || align > 16 || (align & (align - 1)) != 0)
        refuse("align_" + name + " is " + std::to_string(align) + "; it must be 0, 1, 2, 4, 8 or 16");
    if (align < element_bytes)
        refuse("align_" + name + " is smaller than an element of " + std::to_string(element_bytes) + " bytes");
    return align;
}

}  // namespace autotune::runtime
