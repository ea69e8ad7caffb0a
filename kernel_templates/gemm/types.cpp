#include "kernel_templates/gemm/types.h"

#include "kernel_templates/request.h"

namespace autotune::gemm {
namespace {

bool computes_in(const Types& types) {
    if (types.compute == to_string(types.a)) return true;
    return types.a == DType::f32 && (types.compute == kTf32 || types.compute == kTf32x3);
}

}  // namespace

std::string default_compute(const Types& types) {
    return std::string(to_string(types.a));
}

Types checked_types(Types types) {
    const std::string type(to_string(types.a));
    for (const auto& [name, other] : {std::pair{"b", types.b}, std::pair{"c", types.c}}) {
        if (other != types.a)
            refuse(std::string(name) + " is " + std::string(to_string(other)) + " but a is " + type +
                   "; gemm wants one type for all");
    }
    if (types.a != DType::f16 && types.a != DType::bf16 && types.a != DType::f32)
        refuse("the tensors are " + type + "; gemm takes f16, bf16 and f32");
    if (types.compute.empty()) types.compute = default_compute(types);
    if (!computes_in(types)) {
        refuse("compute is " + types.compute + ", but the tensors are " + type + "; give " +
               (types.a == DType::f32 ? "f32, tf32 or tf32x3" : type));
    }
    if (types.acc == "f16" && types.a != DType::f16) refuse("acc f16 needs dtype f16, not " + type + "; use acc f32");
    return types;
}

}  // namespace autotune::gemm
