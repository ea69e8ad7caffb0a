#include "kernel_templates/gemm/op/types.h"

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/scaling.h"
#include "kernel_templates/request.h"

namespace autotune::gemm {
namespace {

bool computes_in(const Types& types) {
    if (is_fp8(types.a)) return types.compute == kFp8;
    if (types.compute == to_string(types.a)) return true;
    return types.a == DType::f32 && (types.compute == kTf32 || types.compute == kTf32x3);
}

}  // namespace

std::string default_compute(const Types& types) {
    return is_fp8(types.a) ? kFp8 : std::string(to_string(types.a));
}

namespace {

// Checks that hardware and libraries can multiply these fp8 types.
void check_fp8(const Types& types) {
    const auto word = [](DType type) { return std::string(to_string(type)); };
    if (!is_fp8(types.a) || !is_fp8(types.b))
        refuse("a is " + word(types.a) + " and b is " + word(types.b) + "; fp8 is multiplied by fp8: give e4m3 or e5m2 for both");
    if (types.a == DType::e5m2 && types.b == DType::e5m2)
        refuse("a and b are both e5m2, which has 2 bits of mantissa; one of them must be e4m3");
    if (types.c != DType::f16 && types.c != DType::bf16 && types.c != DType::f32 && !is_fp8(types.c))
        refuse("c is " + word(types.c) + "; a product of fp8 is written as f16, bf16, f32 or fp8");
    if (types.scale_d != kScalesOfC[0] && !is_fp8(types.c))
        refuse("scale_d is the factor of a C in fp8, but c is " + word(types.c) + "; give c e4m3 or e5m2, or alpha");
    if (types.acc == "f16") refuse("acc f16 needs dtype f16, not " + word(types.a) + "; use acc f32 or f32fast");
    if (types.scale == kScalings[static_cast<std::size_t>(Scaling::block)] && types.acc == kFast)
        refuse("scale block multiplies sums of 128 k outside of the tensor cores; use acc f32, not f32fast");
}

void check_other(const Types& types) {
    const std::string type(to_string(types.a));
    for (const auto& [name, other] : {std::pair{"b", types.b}, std::pair{"c", types.c}}) {
        if (other != types.a)
            refuse(std::string(name) + " is " + std::string(to_string(other)) + " but a is " + type +
                   "; gemm wants one type for all");
    }
    if (types.a != DType::f16 && types.a != DType::bf16 && types.a != DType::f32)
        refuse("the tensors are " + type + "; gemm takes f16, bf16, f32 and fp8");
    if (types.acc == "f16" && types.a != DType::f16) refuse("acc f16 needs dtype f16, not " + type + "; use acc f32");
    if (types.acc == kFast) refuse("acc f32fast is for fp8, not " + type + "; use acc f32");
    if (types.scale != kScalings[0]) refuse("scale " + types.scale + " is for fp8, not " + type);
    if (types.bias != kBiases[0]) refuse("a bias is for fp8, not " + type);
    if (types.scale_d != kScalesOfC[0]) refuse("scale_d is for fp8, not " + type);
    if (types.amax != kAmaxes[0]) refuse("amax is for fp8, not " + type);
}

}  // namespace

Types checked_types(Types types) {
    const std::string type(to_string(types.a));
    (is_fp8(types.a) || is_fp8(types.b) ? check_fp8 : check_other)(types);
    if (types.compute.empty()) types.compute = default_compute(types);
    if (!computes_in(types)) {
        refuse("compute is " + types.compute + ", but the tensors are " + type + "; give " +
               (types.a == DType::f32 ? "f32, tf32 or tf32x3" : default_compute(types)));
    }
    return types;
}

}  // namespace autotune::gemm
