// The consumer warpgroups' loop for fast sums with an undivided K, as in gemm/wgmma/whole_loop.cuh. It has only whole tiles, does
// without the general schedule, and makes descriptors by additions. If there are enough registers, a cooperative tile's sums are
// rounded to elements of C and stored during the next tile's multiplications; scales and biases are read during its own first
// multiplications. REQUIRES everything that consume() in gemm/wgmma_fp8/kernel.cuh requires.
#pragma once

namespace {

static_assert(!overlap_epilogue || (!promotes && tma_store && !reads_c && !reduce_kernel && cluster_k == 1), "whole tiles are staged in rounds");

constexpr int packed_registers = block_n / 4;  // the registers of one band, with two elements in each
constexpr bool leaves_late = !pingpong && sizeof(Out) == 2 && bands * (accumulators + packed_registers) <= 192;
constexpr int rounds = (spans_of_c + spans_in_round - 1) / spans_in_round;

using First = Operands;
using Packed = u32[bands][packed_registers];

__device__ __forceinline__ void multiply(Sums& acc, const Operands& first, int stage, bool fresh) { multiply(acc, first.of_stage(stage), fresh); }

}  // namespace

#include "gemm/device/hopper/hopper_consumer.cuh"

namespace {

// Writes round `round` of a tile's spans to their buffers and begins to store them.
__device__ __forceinline__ void store_round(const Output& out, const Tile& tile, int row0, u32 staging, int group, const Packed& packed, int round) {
    if (round == 0)
        wait_for_buffers<true>(group);
    else
        wait_for_buffers<false>(group);
    const int first = round * spans_in_round, last = min(first + spans_in_round, spans_of_c);
    const MatrixPlace place;
    const auto buffer_of = [staging](int part) { return staging + part % (spans_in_round * rounds_on_their_way) * staging_bytes; };
#pragma unroll
    for (int part = first; part < last; ++part) {
#pragma unroll
        for (int j = 0; j < span_c / 8; j += 2) {
#pragma unroll
            for (int band = 0; band < bands; ++band) {
                const u32* const at = &packed[band][2 * (part * span_c / 8 + j)];
                place.stage(buffer_of(part), band, j, {at[0], at[1], at[2], at[3]});
            }
        }
    }
    fence_async_proxy();
    named_barrier(1 + group, 128);
    if (threadIdx.x % 128 != 0) return;
#pragma unroll
    for (int part = first; part < last; ++part) send_span(out, tile, row0, buffer_of(part), part);
    store_commit();
}

// The sums as elements of C. It is a template because not every type of C can be packed this way.
template <class To = Out>
__device__ __forceinline__ void round_sums(Packed& packed, const Factors& factors, Epilogue& epilogue, const Sums& acc) {
#pragma unroll
    for (int j = 0; j < block_n / 8; ++j) {
        const Pair columns = factors.of_columns(j);
#pragma unroll
        for (int band = 0; band < bands; ++band) {
#pragma unroll
            for (int i = 2 * j; i < 2 * j + 2; ++i) {
                const Pair pair = finished_pair(factors, epilogue, columns, acc, band, i);
                packed[band][i] = pack2<To>(pair.low, pair.high);
            }
        }
    }
}

// REQUIRES a launch with undivided K and, if the epilogue overlaps, at least `rounds` K steps.
template <class To = Out>
__device__ __forceinline__ void consume_whole_tiles(const Ring& ring, const Extents& s, const Output& out, const Scales& scales, Epilogue epilogue,
                                                    const Areas& areas, int group, int rank) {
    const int lane = threadIdx.x % 32, steps = s.steps();
    const int row0 = pingpong || consumer_warpgroups == 1 ? 0 : group * group_rows;
    Consumer math{ring, Operands(ring.x(0), ring.y(0), row0).held(), lane, shares_with(lane, rank), {}};
    WholeTiles tiles(s, rank, pingpong ? group : 0, pingpong ? consumer_warpgroups : 1);
    Sums acc;
    Work work;
    Factors factors(out.alpha);
    // At the end of a tile a load would wait in L2 behind the ring's next stages: 4000 clocks.
    const auto read_early = [&] {
        if constexpr (scale_mode == 2) factors.read(scales, s, tiles.tile(work), row0);
        if constexpr (has_epilogue) epilogue.read<bands>(s, tiles.tile(work), row0);
    };
    const auto finish = [&](int last) {
        math.finish(last);
        factors.publish(areas.columns, 1 + group);
        epilogue.publish(areas.biases, 1 + group);
    };
    if constexpr (leaves_late) {
        Packed packed;
        Tile before;
        bool is_first = true;
        while (tiles.next(work)) {
            const int last = math.multiply_tile<rounds>(acc, steps, [&](int round) {
                if (round == 0) read_early();
                if (!is_first) store_round(out, before, row0, areas.staging, group, packed, round);
            });
            before = tiles.tile(work);  // its divisions overlap the last multiplications
            finish(last);
            round_sums<To>(packed, factors, epilogue, acc);
            is_first = false;
        }
        if (!is_first) {
#pragma unroll
            for (int round = 0; round < rounds; ++round) store_round(out, before, row0, areas.staging, group, packed, round);
        }
    } else {
        const Skip others(pingpong ? (consumer_warpgroups - 1) * steps : 0, ring.stages);
        if (pingpong && group > 0) math.at.skip(group * steps, ring.stages);
        u32 order_parity = group == 0 ? 1 : 0;  // the first turn of group 0 needs no wait
        while (tiles.next(work)) {
            if (pingpong) {
                // Groups take turns in order. Otherwise a group that is ahead by a whole lap of the ring could mistake an old
                // phase's parity for its own.
                barrier_wait(ring.order + group * 8, order_parity);
                order_parity ^= 1;
            }
            const int last = math.multiply_tile<1>(acc, steps, [&](int) {
                read_early();
                wait_for_buffers<true>(group);
            });
            if (pingpong && lane == 0) barrier_arrive(ring.order + (group + 1 == consumer_warpgroups ? 0 : group + 1) * 8);
            if (pingpong) others.move(math.at, ring.stages);
            const Tile tile = tiles.tile(work);
            finish(last);
            store_staged(out, tile, row0, rank, areas.staging, group, factors, epilogue, acc);
        }
    }
    epilogue.raise_amax();
    if (threadIdx.x % 128 == 0) store_wait_read<0>();
}

}  // namespace
