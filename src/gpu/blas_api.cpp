#include "src/gpu/blas_api.h"

#include "src/core/error.h"

namespace autotune::gpu::blas {

bool Api::bind(const SharedLibrary& cublas, const SharedLibrary& lt) {
    return cublas.find("cublasCreate_v2", create) && cublas.find("cublasDestroy_v2", destroy) &&
           cublas.find("cublasGetProperty", get_property) && cublas.find("cublasSetStream_v2", set_stream) &&
           cublas.find("cublasSetWorkspace_v2", set_workspace) && cublas.find("cublasGemmEx", gemm_ex) &&
           cublas.find("cublasGemmStridedBatchedEx", gemm_strided_batched_ex) && lt.find("cublasLtCreate", lt_create) &&
           lt.find("cublasLtDestroy", lt_destroy) && lt.find("cublasLtMatmulDescCreate", lt_desc_create) &&
           lt.find("cublasLtMatmulDescDestroy", lt_desc_destroy) && lt.find("cublasLtMatmulDescSetAttribute", lt_desc_set) &&
           lt.find("cublasLtMatrixLayoutCreate", lt_layout_create) && lt.find("cublasLtMatrixLayoutDestroy", lt_layout_destroy) &&
           lt.find("cublasLtMatrixLayoutSetAttribute", lt_layout_set) &&
           lt.find("cublasLtMatmulPreferenceCreate", lt_preference_create) &&
           lt.find("cublasLtMatmulPreferenceDestroy", lt_preference_destroy) &&
           lt.find("cublasLtMatmulPreferenceSetAttribute", lt_preference_set) &&
           lt.find("cublasLtMatmulAlgoGetHeuristic", lt_heuristics) && lt.find("cublasLtMatmul", lt_matmul);
}

std::string status_name(int status) {
    switch (status) {
        case 0:
            return "CUBLAS_STATUS_SUCCESS";
        case 1:
            return "CUBLAS_STATUS_NOT_INITIALIZED";
        case 3:
            return "CUBLAS_STATUS_ALLOC_FAILED";
        case 7:
            return "CUBLAS_STATUS_INVALID_VALUE";
        case 8:
            return "CUBLAS_STATUS_ARCH_MISMATCH";
        case 11:
            return "CUBLAS_STATUS_MAPPING_ERROR";
        case 13:
            return "CUBLAS_STATUS_EXECUTION_FAILED";
        case 14:
            return "CUBLAS_STATUS_INTERNAL_ERROR";
        case 15:
            return "CUBLAS_STATUS_NOT_SUPPORTED";
        default:
            return "cuBLAS status " + std::to_string(status);
    }
}

void throw_if_failed(int status, const char* call) {
    if (status != kSuccess) throw Error(ErrorCode::driver, std::string(call) + " failed: " + status_name(status));
}

}  // namespace autotune::gpu::blas
