// FlashAttention-3's backward kernels behind a C function, for attention_bwd.py --fa3 LIBRARY: bf16, sm_90a, head size 128 and, under
// a causal mask, 64.
//
// Compile this file and, each in a file of its own, the instantiations that launch() names (FlashAttention's hopper/ at 0251105 and the
// CUTLASS it names on the include path, the flags of its setup.py), and link them to a shared library.
#include <cmath>
#include <cstdint>

#include <cuda_runtime.h>
#include <cutlass/numeric_types.h>

#include "flash.h"

using Element = cutlass::bfloat16_t;

struct Extents {
    int batch, heads, length, size, causal, deterministic;
};

template <int Arch, int kHeadDim, int kBlockM, int kBlockN, typename T, bool Causal, bool Local, bool Softcap, bool Varlen,
          bool Deterministic, bool GQA, int Stages_dO, int Stages_dS, bool SdP_swapAB, bool dKV_swapAB, bool dQ_swapAB, int WarpGroups,
          int AtomLayoutMSdP, int AtomLayoutNdKV, int AtomLayoutMdQ, bool V_in_regs>
void run_flash_bwd(Flash_bwd_params& params, cudaStream_t stream);

namespace {

// The tiles of its own run_mha_bwd: columns of 128 keys.
template <int Size, int Rows, bool Causal, bool Deterministic, bool SwapDq, int AtomLayoutMdQ>
void launch(Flash_bwd_params& params, cudaStream_t stream) {
    run_flash_bwd<90, Size, Rows, 128, Element, Causal, false, false, false, Deterministic, false, 2, 2, true, false, SwapDq, 2, 1, 2,
                  AtomLayoutMdQ, false>(params, stream);
}

int tile_rows(const Extents& e) {
    return e.size == 64 ? 128 : e.causal ? 64 : 80;
}

void set_strides(const Extents& e, Flash_bwd_params& p) {
    const int64_t head = static_cast<int64_t>(e.length) * e.size, batch = head * e.heads;
    p.q_row_stride = p.k_row_stride = p.v_row_stride = p.o_row_stride = e.size;
    p.do_row_stride = p.dq_row_stride = p.dk_row_stride = p.dv_row_stride = e.size;
    p.q_head_stride = p.k_head_stride = p.v_head_stride = p.o_head_stride = head;
    p.do_head_stride = p.dq_head_stride = p.dk_head_stride = p.dv_head_stride = head;
    p.q_batch_stride = p.k_batch_stride = p.v_batch_stride = p.o_batch_stride = batch;
    p.do_batch_stride = p.dq_batch_stride = p.dk_batch_stride = p.dv_batch_stride = batch;
    p.v_dim_stride = 1;
}

void set_problem(const Extents& e, Flash_bwd_params& p) {
    int device = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&p.num_sm, cudaDevAttrMultiProcessorCount, device);
    p.b = p.b_k = e.batch;
    p.h = p.h_k = e.heads;
    p.seqlen_q = p.seqlen_k = e.length;
    p.seqlen_q_rounded = (e.length + tile_rows(e) - 1) / tile_rows(e) * tile_rows(e);
    p.seqlen_k_rounded = (e.length + 127) / 128 * 128;
    p.d = p.dv = p.d_rounded = p.dv_rounded = e.size;
    p.total_q = p.total_k = e.batch * e.length;
    p.scale_softmax = static_cast<float>(1 / std::sqrt(static_cast<double>(e.size)));
    p.p_dropout = p.rp_dropout = 1;
    p.p_dropout_in_uint8_t = 255;
    p.is_bf16 = true;
    p.is_causal = e.causal != 0;
    p.window_size_left = e.length - 1;
    p.window_size_right = e.causal ? 0 : e.length - 1;
    p.arch = 90;
    p.page_size = p.num_splits = 1;
    p.deterministic = e.deterministic != 0;
}

}  // namespace

// The padded number of rows of its sums of dQ, deltas and logarithms.
extern "C" int fa3_padded_rows(const Extents* e) {
    return (e->length + tile_rows(*e) - 1) / tile_rows(*e) * tile_rows(*e);
}

// Returns 0, or -1 if there is no instantiation. Tensors: q, k, v, o, lse, dO, dQ, dK, dV, dense, [batch, heads, length, size];
// then, with padded rows, sums of dQ, deltas and logarithms in f32, and an int for each of their tiles.
extern "C" int fa3_backward(const Extents* e, void* const* tensors, void* stream) {
    Flash_bwd_params p{};
    set_strides(*e, p);
    set_problem(*e, p);
    p.q_ptr = tensors[0];
    p.k_ptr = tensors[1];
    p.v_ptr = tensors[2];
    p.o_ptr = tensors[3];
    p.softmax_lse_ptr = tensors[4];
    p.do_ptr = tensors[5];
    p.dq_ptr = tensors[6];
    p.dk_ptr = tensors[7];
    p.dv_ptr = tensors[8];
    p.dq_accum_ptr = tensors[9];
    p.dsoftmax_sum = tensors[10];
    p.softmax_lse_log2_ptr = tensors[11];
    p.dq_semaphore = static_cast<int*>(tensors[12]);
    const auto queue = static_cast<cudaStream_t>(stream);
    if (e->size == 64 && e->causal)
        e->deterministic ? launch<64, 128, true, true, false, 2>(p, queue) : launch<64, 128, true, false, false, 2>(p, queue);
    else if (e->size == 128 && e->causal)
        e->deterministic ? launch<128, 64, true, true, false, 1>(p, queue) : launch<128, 64, true, false, false, 1>(p, queue);
    else if (e->size == 128)
        e->deterministic ? launch<128, 80, false, true, true, 1>(p, queue) : launch<128, 80, false, false, true, 1>(p, queue);
    else
        return -1;
    return 0;
}
