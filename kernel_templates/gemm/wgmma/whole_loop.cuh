// The math groups' loop where K is never divided: whole tiles alone, without the general schedule beside them. A cooperative tile's sums are
// rounded to elements of C, which take half the registers, and leave under the next tile's multiplications, where registers allow it: the
// store took 1,900 clocks of a 128x256 tile while nothing was multiplied. Ping-pong groups hide it under each other's multiplications.
// REQUIRES all that consume() in gemm/wgmma/kernel.cuh has.
#pragma once

namespace {

static_assert(!whole_tiles || (incremental && tma_store && !reads_c && !reduce_kernel && cluster_k == 1), "whole tiles are staged in rounds");

constexpr int packed_registers = block_n / 4;  // of one band, with two elements in each
constexpr bool leaves_late = !pingpong && bands * (accumulators + packed_registers) <= 192;
constexpr int rounds = spans / spans_in_round;
static_assert(cluster_k > 1 || spans % spans_in_round == 0, "all rounds of a tile are alike");

using Packed = u32[bands][packed_registers];

// Round `round` of a tile's spans: to their buffers, and on their way to memory.
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

struct MathGroup {
    const Ring& ring;
    const Descriptors first;
    int lane;
    bool notifies;
    Position at;

    // Multiplies a tile. `under(i)` runs while stage i is multiplied, for the first `count` stages, which the tile has at least. The last stage is
    // still being multiplied at the end; its number is returned, to be released.
    template <int count, class Under>
    __device__ __forceinline__ int multiply_tile(Sums& acc, int steps, Under under) {
        int previous = 0;
#pragma unroll
        for (int step = 0; step < count; ++step) previous = multiply_stage(acc, step == 0, previous, [&] { under(step); });
        for (int step = count; step < steps; ++step) previous = multiply_stage(acc, false, previous, [] {});
        return previous;
    }

    template <class Under>
    __device__ __forceinline__ int multiply_stage(Sums& acc, bool fresh, int previous, Under under) {
        const int stage = uniform(at.stage);
        barrier_wait(ring.full + at.stage * 8, at.parity);
        multiply(acc, first, stage, fresh);
        under();
        if (!fresh) {
            wgmma_wait<1>();
            release(ring, previous, lane, notifies);
        }
        const int issued = at.stage;
        at.next(ring.stages);
        return issued;
    }

    __device__ __forceinline__ void finish(int last) const {
        wgmma_wait<0>();
        release(ring, last, lane, notifies);
    }
};

// REQUIRES of the launch: K not divided, and at least `rounds` stages where a tile leaves late.
__device__ __forceinline__ void consume_whole_tiles(const Ring& ring, const Shape& s, const Output& out, u32 staging, int group, int rank) {
    const int lane = threadIdx.x % 32, steps = s.steps();
    const int row0 = pingpong || math_groups == 1 ? 0 : group * group_rows;
    MathGroup math{ring, first_descriptors(ring, row0), lane, shares_with(lane, rank), {}};
    WholeTiles tiles(s, rank, pingpong ? group : 0, pingpong ? math_groups : 1);
    Sums acc;
    Work work;
    if constexpr (leaves_late) {
        Packed packed;
        Tile before;
        bool is_first = true;
        while (tiles.next(work)) {
            const int last = math.multiply_tile<rounds>(acc, steps, [&](int round) {
                if (!is_first) store_round(out, before, row0, staging, group, packed, round);
            });
            before = tiles.tile(work);  // its divisions run under the last multiplications
            math.finish(last);
#pragma unroll
            for (int band = 0; band < bands; ++band) {
#pragma unroll
                for (int i = 0; i < packed_registers; ++i) packed[band][i] = pair_of_c(out, acc[band], i);
            }
            is_first = false;
        }
        if (!is_first) {
#pragma unroll
            for (int round = 0; round < rounds; ++round) store_round(out, before, row0, staging, group, packed, round);
        }
    } else {
        const Skip others(pingpong ? (math_groups - 1) * steps : 0, ring.stages);
        if (pingpong && group > 0) math.at.skip(group * steps, ring.stages);
        u32 order_parity = group == 0 ? 1 : 0;  // the first turn of group 0 waits for nobody
        while (tiles.next(work)) {
            if (pingpong) {
                // Turns in order: a group that ran ahead by a whole lap of the ring would take an old phase's parity for its own.
                barrier_wait(ring.order + group * 8, order_parity);
                order_parity ^= 1;
            }
            const int last = math.multiply_tile<1>(acc, steps, [group](int) { wait_for_buffers<true>(group); });
            if (pingpong && lane == 0) barrier_arrive(ring.order + (group + 1 == math_groups ? 0 : group + 1) * 8);
            if (pingpong) others.move(math.at, ring.stages);
            const Tile tile = tiles.tile(work);
            math.finish(last);
            store_staged(out, tile, row0, rank, staging, group, acc);
        }
    }
    if (threadIdx.x % 128 == 0) store_wait_read<0>();
}

}  // namespace
