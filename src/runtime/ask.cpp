#include "src/runtime/ask.h"

#include "src/runtime/status.h"

namespace autotune::runtime {

[[noreturn]] void refuse(const std::string& message) {
    throw Failure(AUTOTUNE_INVALID_ARGUMENT, message);
}

DType dtype_of(autotune_dtype type, const char* member) {
    switch (type) {
        case AUTOTUNE_F16:
            return DType::f16;
        case AUTOTUNE_BF16:
            return DType::bf16;
        case AUTOTUNE_F32:
            return DType::f32;
        case AUTOTUNE_DTYPE_RANGE:
            break;
    }
    refuse(std::string(member) + " is " + std::to_string(static_cast<int>(type)) + ", no value of autotune_dtype");
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
