// The first parameters of every kernel of attention's gradients, in the order of attention_bwd::arguments().
#pragma once

#include "attention/device/call.cuh"

// clang-format off
#define ATTENTION_BWD_PARAMETERS                                                                                    \
    ATTENTION_PARAMETERS, const Element *d_o, Element *d_q, Element *d_k, Element *d_v, i64 do_batch, i64 do_head,     \
    i64 do_row, i64 dq_batch, i64 dq_head, i64 dq_row, i64 dk_batch, i64 dk_head, i64 dk_row, i64 dv_batch,          \
    i64 dv_head, i64 dv_row
#define ATTENTION_BWD_CALL                                                                                          \
    {ATTENTION_CALL, d_o, d_q, d_k, d_v, {do_batch, do_head, do_row}, {dq_batch, dq_head, dq_row},                    \
     {dk_batch, dk_head, dk_row}, {dv_batch, dv_head, dv_row}}
// clang-format on

namespace attention {

template <class Element>
struct BwdCall {
    Call<Element> forward;  // the forward pass; its o and lse are inputs here
    const Element* d_o;
    Element *d_q, *d_k, *d_v;
    Strides do_strides, dq_strides, dk_strides, dv_strides;
};

}  // namespace attention
