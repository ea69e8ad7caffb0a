// A consumer warpgroup of gemm/wgmma or gemm/wgmma_fp8 that multiplies whole tiles. REQUIRES gemm/device/hopper/hopper_ring.cuh and, before the include: Sums, uniform(), and
// multiply(sums, first, stage, fresh), which makes a stage's descriptors by additions of a First.
#pragma once

namespace {

struct Consumer {
    const Ring& ring;
    const First first;  // the descriptors of the ring's first stage
    int lane;
    bool notifies;
    Position at;

    // Multiplies a tile. `under(i)` runs while stage i is multiplied, for the first `count` stages; the tile has at least that
    // many. Returns the number of the last stage, which is still being multiplied and must be released afterwards.
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

}  // namespace
