// FlashAttention-3's forward kernels behind a C function, for attention.py --fa3 LIBRARY: bf16, head sizes 64 and 128, sm_90a.
//
// Compile this file and, each in a file of its own, the instantiations that are declared extern below (FlashAttention's hopper/
// at 0251105 and the CUTLASS it names on the include path, the flags of its setup.py), and link them to a shared library.
#include <cmath>
#include <cstdint>
#include <tuple>

#include <cuda_runtime.h>
#include <cutlass/numeric_types.h>

#include "flash.h"
#include "heuristics.h"
#include "tile_size.h"

using Element = cutlass::bfloat16_t;

struct Extents {
    int batch, heads, kv_heads, queries, keys, size, causal;
};

template <int Arch, int kHeadDim, int kHeadDimV, int ClusterM, typename T, typename Out, bool Causal, bool Local, bool Softcap,
          bool Varlen, bool Paged, bool Append, bool HasQv, bool PackGQA, bool Split, bool VColumns>
void run_flash_fwd(Flash_fwd_params& params, cudaStream_t stream);
template <typename T, typename Partial, int kBlockK>
void run_mha_fwd_combine_(Flash_fwd_params& params, cudaStream_t stream, bool enable_pdl);

namespace {

template <int Size, int Cluster, bool Causal, bool Pack, bool Split>
void launch(Flash_fwd_params& params, cudaStream_t stream) {
    run_flash_fwd<90, Size, Size, Cluster, Element, Element, Causal, false, false, false, false, false, false, Pack, Split, false>(
        params, stream);
}

void set_strides(const Extents& e, Flash_fwd_params& p) {
    p.q_row_stride = p.k_row_stride = p.v_row_stride = p.o_row_stride = e.size;
    p.q_head_stride = p.o_head_stride = static_cast<int64_t>(e.queries) * e.size;
    p.k_head_stride = p.v_head_stride = static_cast<int64_t>(e.keys) * e.size;
    p.q_batch_stride = p.o_batch_stride = p.q_head_stride * e.heads;
    p.k_batch_stride = p.v_batch_stride = p.k_head_stride * e.kv_heads;
    p.v_dim_stride = 1;
    p.oaccum_row_stride = e.size;
    p.oaccum_head_stride = p.q_head_stride;
    p.oaccum_batch_stride = p.q_batch_stride;
    p.oaccum_split_stride = p.q_batch_stride * e.batch;
    p.lseaccum_head_stride = e.queries;
    p.lseaccum_batch_stride = static_cast<int64_t>(e.heads) * e.queries;
    p.lseaccum_split_stride = p.lseaccum_batch_stride * e.batch;
}

void set_problem(const Extents& e, int splits, int sms, Flash_fwd_params& p) {
    p.b = p.b_k = e.batch;
    p.h = e.heads;
    p.h_k = e.kv_heads;
    p.seqlen_q = e.queries;
    p.seqlen_k = e.keys;
    p.seqlen_q_rounded = (e.queries + 127) / 128 * 128;
    p.seqlen_k_rounded = (e.keys + 127) / 128 * 128;
    p.d = p.dv = p.d_rounded = p.dv_rounded = e.size;
    p.total_q = e.batch * e.queries;
    p.total_k = e.batch * e.keys;
    p.scale_softmax = static_cast<float>(1 / std::sqrt(static_cast<double>(e.size)));
    p.p_dropout = 1;
    p.is_bf16 = true;
    p.is_causal = e.causal != 0;
    p.window_size_left = e.keys - 1;
    p.window_size_right = e.causal ? 0 : e.queries - 1;
    p.arch = 90;
    p.num_sm = sms;
    p.page_size = 1;
    p.num_splits = splits;
    p.pack_gqa = splits > 1 || e.heads != e.kv_heads;
    p.varlen_sort_batches = true;
    p.head_swizzle = p.is_causal;
}

int sm_count() {
    int device = 0, count = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
}

bool launch_parts(const Extents& e, Flash_fwd_params& p, cudaStream_t stream) {
    if (e.size == 64 && p.is_causal) {
        launch<64, 1, true, true, true>(p, stream);
        run_mha_fwd_combine_<Element, float, 64>(p, stream, true);
    } else if (e.size == 128 && !p.is_causal) {
        launch<128, 1, false, true, true>(p, stream);
        run_mha_fwd_combine_<Element, float, 128>(p, stream, true);
    } else {
        return false;
    }
    return true;
}

bool launch_whole(const Extents& e, Flash_fwd_params& p, cudaStream_t stream) {
    if (e.heads != e.kv_heads) {
        if (e.size != 128 || p.is_causal) return false;
        launch<128, 1, false, true, false>(p, stream);
    } else if (e.size == 64) {
        p.is_causal ? launch<64, 1, true, false, false>(p, stream) : launch<64, 1, false, false, false>(p, stream);
    } else if (p.is_causal) {
        launch<128, 1, true, false, false>(p, stream);
    } else if ((e.queries + 127) / 128 % 2 == 0) {
        launch<128, 2, false, false, false>(p, stream);
    } else {
        return false;
    }
    return true;
}

}  // namespace

// The number of splits that flash_api.cpp chooses for sequences of one length.
extern "C" int fa3_splits(const Extents* e) {
    const auto tile = tile_size_fwd_sm90(e->size, e->size, e->causal != 0, false);
    const int rows = std::get<0>(tile), columns = std::get<1>(tile);
    const int key_tiles = (e->keys + columns - 1) / columns, query_tiles = (e->queries * (e->heads / e->kv_heads) + rows - 1) / rows;
    return num_splits_heuristic(e->batch * e->kv_heads * query_tiles, sm_count(), key_tiles, query_tiles, e->keys * 2 * e->size * 2,
                                e->causal != 0, 128);
}

// Returns 0, or -1 if there is no instantiation. Tensors are dense, [batch, heads, length, size]. `counter` is a zeroed int that
// no other launch uses before it is zeroed again. With splits > 1 the parts have splits times the size of o and of lse.
extern "C" int fa3_forward(const Extents* e, int splits, void* const* tensors, int* counter, void* stream) {
    Flash_fwd_params p{};
    set_strides(*e, p);
    set_problem(*e, splits, sm_count(), p);
    p.q_ptr = tensors[0];
    p.k_ptr = tensors[1];
    p.v_ptr = tensors[2];
    p.o_ptr = tensors[3];
    p.softmax_lse_ptr = tensors[4];
    p.oaccum_ptr = tensors[5];
    p.softmax_lseaccum_ptr = tensors[6];
    p.tile_count_semaphore = counter;
    const auto queue = static_cast<cudaStream_t>(stream);
    return (splits > 1 ? launch_parts(*e, p, queue) : launch_whole(*e, p, queue)) ? 0 : -1;
}
