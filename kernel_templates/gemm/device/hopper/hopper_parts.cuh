// Adds the parts into which a tile's K is divided. It does so within a cluster through its shared memory, by the part that
// finishes last, or by a second kernel. REQUIRES gemm/device/hopper/hopper_tile.cuh, gemm/device/hopper/hopper_schedule.cuh,
// gemm/device/pair_store.cuh, common/dependent_launch.cuh.
#pragma once

namespace {

// Adds one register at a time. Parts of a sum are added in f32, whatever type they are stored in, and rounded once.
__device__ __forceinline__ void add_to(float* sum, float part) { sum[0] += part; }
__device__ __forceinline__ void add_to(float* sum, u32 part) {
    const Pair pair = pair_of(&part, 0);
    sum[0] += pair.low;
    sum[1] += pair.high;
}
__device__ __forceinline__ void round_to(float& to, const float* sum) { to = sum[0]; }
__device__ __forceinline__ void round_to(u32& to, const float* sum) { to = pack2<f16>(sum[0], sum[1]); }

// Sends each peer in the cluster its share of this block's sums, then adds the peers' shares to this block's own share, in the order of the
// blocks.
__device__ __forceinline__ void exchange(u32 received, u32 barrier, int rank, Sums& acc) {
    const int thread = threadIdx.x - 128;
    if (thread == 0) barrier_expect(barrier, received_bytes);
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        const int owner = q / quads_each;
        if (owner == rank) continue;
        const int slot = rank < owner ? rank : rank - 1;
        const u32 to = received + ((slot * quads_each + q % quads_each) * math_threads + thread) * (quad_registers * 4);
        send_remote(to, barrier, owner, &acc[q / (block_n / 8)][q % (block_n / 8) * quad_registers]);
    }
    barrier_wait_cluster(barrier, 0);
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        if (q / quads_each != rank) continue;
        Register* own = &acc[q / (block_n / 8)][q % (block_n / 8) * quad_registers];
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int block = 0; block < cluster_k; ++block) {
            Register from[quad_registers];
#pragma unroll
            for (int i = 0; i < quad_registers; ++i) from[i] = own[i];
            const int slot = block < rank ? block : block - 1;
            if (block != rank)
                load_shared(received + ((slot * quads_each + q % quads_each) * math_threads + thread) * (quad_registers * 4), from);
#pragma unroll
            for (int i = 0; i < quad_registers; ++i) add_to(&sum[i * sums_each], from[i]);
        }
#pragma unroll
        for (int i = 0; i < quad_registers; ++i) round_to(own[i], &sum[i * sums_each]);
    }
}

constexpr int slot_registers = block_m * block_n / sums_each;

// Index of a thread's quad in a slot that a second kernel reads. The quads of neighbouring threads are adjacent.
__device__ __forceinline__ int quad_in_slot(int group_in_tile, int quad, int thread) {
    return ((group_in_tile * quads + quad) * 128 + thread) * quad_registers;
}
__device__ __forceinline__ void store_quad(float* to, const float* r) {
    __stcg(reinterpret_cast<float4*>(to), make_float4(r[0], r[1], r[2], r[3]));
}
__device__ __forceinline__ void store_quad(u32* to, const u32* r) { __stcg(reinterpret_cast<uint2*>(to), make_uint2(r[0], r[1])); }
__device__ __forceinline__ void load_quad(const float* from, float* r) {
    const float4 quad = __ldcg(reinterpret_cast<const float4*>(from));
    r[0] = quad.x, r[1] = quad.y, r[2] = quad.z, r[3] = quad.w;
}
__device__ __forceinline__ void load_quad(const u32* from, u32* r) {
    const uint2 quad = __ldcg(reinterpret_cast<const uint2*>(from));
    r[0] = quad.x, r[1] = quad.y;
}

// Stores this part in the workspace for the second kernel.
__device__ __forceinline__ void leave_part(const Output& out, const Schedule& schedule, const Work& work, int group, const Sums& acc) {
    const int thread = threadIdx.x % 128;
    Register* slot = out.partial + schedule.slot(work, work.part) * slot_registers;
#pragma unroll
    for (int q = 0; q < quads; ++q)
        store_quad(slot + quad_in_slot(pingpong ? 0 : group, q, thread), &acc[q / (block_n / 8)][q % (block_n / 8) * quad_registers]);
}

// Sums all parts in order: `count` registers from index `at` of a slot on.
template <int count>
__device__ __forceinline__ void add_parts(const Output& out, const Schedule& schedule, const Work& work, int at, Register* to) {
    float sum[count * sums_each];
#pragma unroll
    for (int i = 0; i < count * sums_each; ++i) sum[i] = 0.0f;
    for (int part = 0; part < work.parts; ++part) {
        const Register* from = out.partial + schedule.slot(work, part) * slot_registers + at;
#pragma unroll
        for (int i = 0; i < count; ++i) add_to(&sum[i * sums_each], __ldcg(from + i * 128));
    }
#pragma unroll
    for (int i = 0; i < count; ++i) round_to(to[i], &sum[i * sums_each]);
}

// Counts one of `parts` parts as finished. Returns whether it was the last; the counter is then 0 again.
__device__ __forceinline__ bool is_last_part(u32* counter, u32 parts) {
    return atomicInc(counter, parts - 1) == parts - 1;  // wraps to 0, so the counter is 0 for the next launch
}

// Stores this part in the workspace. Returns true in the group that finds all parts there; `acc` is then their sum, added in
// order.
__device__ __forceinline__ bool combine(const Output& out, const Schedule& schedule, const Work& work, int number, int group, u32 flag,
                                        Sums& acc) {
    const int thread = threadIdx.x % 128;
    const int group_in_tile = pingpong ? 0 : group;
    const int mine = group_in_tile * bands * accumulators * 128 + thread;
    Register* own = out.partial + schedule.slot(work, work.part) * slot_registers + mine;
#pragma unroll
    for (int i = 0; i < bands * accumulators; ++i) __stcg(own + i * 128, acc[i / accumulators][i % accumulators]);
    __threadfence();
    named_barrier(1 + group, 128);
    if (thread == 0) {
        u32* counter = out.counters + number * groups_per_tile + group_in_tile;
        const bool last = is_last_part(counter, static_cast<u32>(work.parts));
        __threadfence();
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(flag), "r"(last ? 1u : 0u) : "memory");
    }
    named_barrier(1 + group, 128);
    u32 last;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(last) : "r"(flag) : "memory");
    if (last == 0) return false;
    if constexpr (sums_each == 1) {
        add_parts<bands * accumulators>(out, schedule, work, mine, &acc[0][0]);
    } else {  // adds as many at a time as fit into registers in f32
        constexpr int at_once = accumulators / (accumulators > 32 ? 4 : accumulators > 16 ? 2 : 1);
#pragma unroll
        for (int first = 0; first < bands * accumulators; first += at_once)
            add_parts<at_once>(out, schedule, work, mine + first * 128, &acc[first / accumulators][first % accumulators]);
    }
    return true;
}

// The work of one thread of the second kernel: two neighbouring quads of a consumer warpgroup's thread.
struct TwoQuads {
    Tile tile;
    int row, col;          // the position in C of the first quad's first sum, in the multiplication's coordinates
    const Register* first_part;
};
// The grid has a block of 128 threads for each pair of quads of each consumer warpgroup.
__device__ __forceinline__ TwoQuads quads_of_thread(const Register* partial, const Extents& shape) {
    const int pair = static_cast<int>(blockIdx.x) % (quads / 2);
    const int group_of_all = static_cast<int>(blockIdx.x) / (quads / 2);
    const int number = group_of_all / groups_per_tile, group_in_tile = group_of_all % groups_per_tile;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const Schedule schedule(shape, number % sharing_blocks);
    Work work{};
    work.index = number / sharing_blocks;
    const Tile tile = schedule.tile(work);
    const int row = tile.m0 + group_in_tile * group_rows + 2 * pair / (block_n / 8) * 64 + warp * 16 + lane / 4;
    const int col = tile.n0 + 2 * pair % (block_n / 8) * 8 + lane % 4 * 2;
    return {tile, row, col, partial + schedule.slot(work, 0) * slot_registers + quad_in_slot(group_in_tile, 2 * pair, thread)};
}
// Adds the parts of two quads, one slot after another, to the eight `sums`.
__device__ __forceinline__ void add_quads(const Register* first_part, int split_k, float* sums) {
#pragma unroll 4
    for (int part = 0; part < split_k; ++part) {
        Register quad[2][quad_registers];
#pragma unroll
        for (int q = 0; q < 2; ++q) {
            load_quad(first_part + part * static_cast<long long>(slot_registers) + q * (128 * quad_registers), quad[q]);
#pragma unroll
            for (int i = 0; i < quad_registers; ++i) add_to(&sums[q * 4 + i * sums_each], quad[q][i]);
        }
    }
}

}  // namespace
