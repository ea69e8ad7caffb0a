// The consumer warpgroups' loop for an undivided K. It has only whole tiles and does without the general schedule. If there are
// enough registers, a cooperative tile's sums are rounded to elements of C, which need half the registers, and are stored during
// the next tile's multiplications. Without this the store took 1,900 clocks per 128x256 tile with idle tensor cores. Ping-pong
// groups store during each other's multiplications. REQUIRES everything that consume() in gemm/wgmma/kernel.cuh requires.
#pragma once

namespace {

static_assert(!overlap_epilogue || (advance_descriptors && tma_store && !reduce_kernel && cluster_k == 1), "whole tiles are staged in rounds");

constexpr int packed_registers = block_n / 4;  // the registers of one band, with two elements in each
constexpr bool leaves_late = !pingpong && bands * (accumulators + packed_registers) <= 192;
constexpr int rounds = spans / spans_in_round;
static_assert(cluster_k > 1 || spans % spans_in_round == 0, "all rounds of a tile are alike");

static_assert(!overlap_epilogue || !reads_c || (leaves_late && reads_pairs_of_c), "what beta multiplies waits in the registers of a tile's elements");

using First = Descriptors;
using Packed = u32[bands][packed_registers];

// Writes round `round` of a tile's spans to their buffers and begins to store them.
__device__ __forceinline__ void store_round(const Output& out, const Tile& tile, int row0, u32 staging, int group, const Packed& packed, int round) {
    if (round == 0)
        wait_for_buffers<true>(group);
    else
        wait_for_buffers<false>(group);
    const int first = round * spans_in_round;
    const auto buffer_of = [staging](int part) { return staging + part % (spans_in_round * rounds_on_their_way) * staging_bytes; };
#pragma unroll
    for (int part = first; part < first + spans_in_round; ++part)
        stage_span(buffer_of(part), part, [&packed](int band, int i) { return packed[band][i]; });
    fence_async_proxy();
    named_barrier(1 + group, 128);
    if (threadIdx.x % 128 != 0) return;
#pragma unroll
    for (int part = first; part < first + spans_in_round; ++part) send_span(out, tile, row0, buffer_of(part), part);
    store_commit();
}

}  // namespace

#include "gemm/device/hopper/hopper_consumer.cuh"

namespace {

// K steps during which C is read. If all of it is read in one step, the loads fill the SM's queue and the next steps' barriers
// wait: 243 us instead of 233 us (8192x8192x1024, H200). A prefetch into L2 before the loads gains nothing.
constexpr int most_steps_of_c = 8, steps_of_c = reads_c ? most_steps_of_c : 0;

// Calls read(down, along) for a thread's pairs in part `share`; rows and columns count from its first.
template <class Read>
__device__ __forceinline__ void fill(Packed& packed, int share, Read read) {
    constexpr int pairs = bands * packed_registers, each = (pairs + most_steps_of_c - 1) / most_steps_of_c;
#pragma unroll
    for (int at = share * each; at < share * each + each && at < pairs; ++at) {
        const int band = at / packed_registers, i = at % packed_registers;
        packed[band][i] = read(band * 64 + i % 2 * 8, i / 2 * 8);
    }
}

// Reads a part of C into registers that the previous tile's elements no longer need. Elements outside of C are zeros.
__device__ __forceinline__ void read_c(Packed& packed, const Output& out, const Extents& s, const Tile& tile, int row0, int share) {
    const int row = row_of_quad(tile, row0, 0), col = col_of_quad(tile, 0);
    if (tile.m0 + block_m <= s.m && tile.n0 + block_n <= s.n) {
        const Out* const from = out.c + tile.batch * out.stride_c + row * out.ldc + col;
        fill(packed, share, [&](int down, int along) { return *reinterpret_cast<const u32*>(from + down * out.ldc + along); });
    } else {
        fill(packed, share, [&](int down, int along) { return pair_of_c(out, s, tile, row + down, col + along).low; });
    }
}

__device__ __forceinline__ void round_sums(Packed& packed, const Output& out, const Sums& acc, bool adds_c) {
#pragma unroll
    for (int band = 0; band < bands; ++band) {
#pragma unroll
        for (int i = 0; i < packed_registers; ++i) {
            if (reads_c && adds_c) {
                const Pair pair = with_pair_of_c(out, pair_of(acc[band], i), PairOfC{packed[band][i], 0});
                packed[band][i] = pack2<Out>(pair.low, pair.high);
            } else {
                packed[band][i] = pair_of_c(out, acc[band], i);
            }
        }
    }
}

// REQUIRES a launch with undivided K and, if the epilogue overlaps, at least `rounds` + `steps_of_c` K steps.
__device__ __forceinline__ void consume_whole_tiles(const Ring& ring, const Extents& s, const Output& out, u32 staging, int group, int rank) {
    const int lane = threadIdx.x % 32, steps = s.steps();
    const int row0 = pingpong || consumer_warpgroups == 1 ? 0 : group * group_rows;
    Consumer math{ring, first_descriptors(ring, row0), lane, shares_with(lane, rank), {}};
    WholeTiles tiles(s, rank, pingpong ? group : 0, pingpong ? consumer_warpgroups : 1);
    Sums acc;
    Work work;
    if constexpr (leaves_late) {
        Packed packed;
        Tile before;
        bool is_first = true;
        const bool adds_c = reads_c && out.beta != 0.0f;
        while (tiles.next(work)) {
            Tile tile;
            if constexpr (reads_c) tile = tiles.tile(work);
            const int last = math.multiply_tile<rounds + steps_of_c>(acc, steps, [&](int step) {
                if (step >= rounds) {
                    if (adds_c) read_c(packed, out, s, tile, row0, step - rounds);
                } else if (!is_first) {
                    store_round(out, before, row0, staging, group, packed, step);
                }
            });
            before = tiles.tile(work);  // its divisions overlap the last multiplications
            math.finish(last);
            round_sums(packed, out, acc, adds_c);
            is_first = false;
        }
        if (!is_first) {
#pragma unroll
            for (int round = 0; round < rounds; ++round) store_round(out, before, row0, staging, group, packed, round);
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
            const int last = math.multiply_tile<1>(acc, steps, [group](int) { wait_for_buffers<true>(group); });
            if (pingpong && lane == 0) barrier_arrive(ring.order + (group + 1 == consumer_warpgroups ? 0 : group + 1) * 8);
            if (pingpong) others.move(math.at, ring.stages);
            const Tile tile = tiles.tile(work);
            math.finish(last);
            store_staged(out, tile, row0, rank, staging, group, acc);
        }
    }
    if (threadIdx.x % 128 == 0) store_wait_read<0>();
}

}  // namespace
