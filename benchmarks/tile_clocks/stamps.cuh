// Clocks of a consumer warpgroup's thread, summed by part over its tiles: wait, loop, drain, store, next.
struct Stamps {
    unsigned parts[5] = {}, tiles = 0, begin, last;
    static __device__ __forceinline__ unsigned now() {
        unsigned clock;
        asm volatile("mov.u32 %0, %%clock;" : "=r"(clock)::"memory");
        return clock;
    }
    __device__ __forceinline__ Stamps() : begin(now()), last(begin) {}
    __device__ __forceinline__ void tile() { ++tiles; }
    __device__ __forceinline__ void end(int part) {
        const unsigned clock = now();
        parts[part] += clock - last;
        last = clock;
    }
    // The first wait ends where the second begins, minus the issue of one stage.
    __device__ __forceinline__ void first_wait_is_over() { end(0); }
    __device__ __forceinline__ void write(long long* to, int group) const {
        if (threadIdx.x % 128 != 0) return;
        long long* out = to + (blockIdx.x * 2 + group) * 8;
        out[0] = tiles;
        for (int part = 0; part < 5; ++part) out[1 + part] = parts[part];
        out[6] = last - begin;
    }
};
