// Combines the parts of all threads that share a row. Lanes exchange them by shuffles, warps and blocks through shared memory.
#pragma once

#include "common/cluster.cuh"
#include "softmax/device/softmax.cuh"

namespace softmax {

__device__ __forceinline__ Part joined_by_lanes(Part mine, int lanes, f32 slope) {
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        const Part other = {__shfl_xor_sync(0xFFFFFFFFU, mine.peak, step), __shfl_xor_sync(0xFFFFFFFFU, mine.sum, step)};
        // Both sides use the same operands in the same positions, because otherwise their sums could differ in the last bit.
        const bool is_first = (threadIdx.x & step) == 0;
        mine = join(is_first ? mine : other, is_first ? other : mine, slope);
    }
    return mine;
}

// Combines `lanes` neighbours of a warp. All of them get the same bits, because both sides of an exchange add the same two numbers.
template <int lanes>
__device__ __forceinline__ f32 peak_of_lanes(f32 peak) {
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) peak = fmaxf(peak, __shfl_xor_sync(0xFFFFFFFFU, peak, step));
    return peak;
}
template <int lanes>
__device__ __forceinline__ f32 sum_of_lanes(f32 sum) {
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, step);
    return sum;
}

// A block's threads are `groups` of `threads_per_row`. Each group shares `rows` rows at a time with the same threads of the other blocks of
// its cluster. The object is in shared memory.
template <int rows, int groups, int threads_per_row, int cluster_blocks, bool agreed>
struct Exchange {
    static constexpr int warps = threads_per_row > 32 ? threads_per_row / 32 : 1;  // warps of one block that share a row
    static constexpr int parts_of_row = cluster_blocks * warps;

    // Two sets, used alternately: a thread may write the next rows' parts while another reads these. Ordered by block and warp.
    float2 parts[2][rows][groups][cluster_blocks][warps];

    // Replaces each thread's part by the whole row's. `agreed` says that the lanes of a warp have already combined theirs. Every
    // thread of the block and of the cluster calls this. `turn` alternates between calls.
    __device__ __forceinline__ void join(Part (&mine)[rows], f32 slope, int turn) {
#pragma unroll
        for (int r = 0; r < rows && !agreed; ++r)
            mine[r] = joined_by_lanes(mine[r], threads_per_row < 32 ? threads_per_row : 32, slope);
        if constexpr (parts_of_row > 1) {
            const int group = threadIdx.x / threads_per_row;
            if (threadIdx.x % 32 == 0) publish(mine, group, turn);
            if constexpr (cluster_blocks == 1) {
                __syncthreads();
            } else {
                cluster::sync();
            }
#pragma unroll
            for (int r = 0; r < rows; ++r) {
                const float2* const all = &parts[turn][r][group][0][0];
                if constexpr (agreed) {
                    mine[r] = agreed_part(all, slope);
                } else {
                    Part lane;
                    for (int i = threadIdx.x % 32; i < parts_of_row; i += 32) lane = softmax::join(lane, {all[i].x, all[i].y}, slope);
                    mine[r] = joined_by_lanes(lane, 32, slope);
                }
            }
        }
    }

  private:
    static __device__ __forceinline__ Part agreed_part(const float2* all, f32 slope) {
        constexpr int readers = smaller(parts_of_row, 32);
        const float2* const mine = all + threadIdx.x % readers;
        Part lane = {mine->x, mine->y};
#pragma unroll
        for (int i = readers; i < parts_of_row; i += readers) lane = softmax::join(lane, {mine[i].x, mine[i].y}, slope);
        const f32 peak = peak_of_lanes<readers>(lane.peak);
        return {peak, sum_of_lanes<readers>(lane.sum * weight(lane.peak, origin_of(peak), slope))};
    }
    __device__ __forceinline__ void publish(const Part (&mine)[rows], int group, int turn) {
        const int warp = threadIdx.x % threads_per_row / 32;
        const u32 rank = cluster_blocks > 1 ? cluster::rank() : 0;
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            const float2 part = {mine[r].peak, mine[r].sum};
            float2* const to = &parts[turn][r][group][rank][warp];
            if constexpr (cluster_blocks == 1) {
                *to = part;
            } else {
#pragma unroll
                for (int block = 0; block < cluster_blocks; ++block) cluster::store_pair(ptx::shared_address(to), block, part);
            }
        }
    }
};

}  // namespace softmax
