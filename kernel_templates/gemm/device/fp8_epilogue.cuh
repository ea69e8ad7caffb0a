// The epilogue of fp8 products. It adds the bias of the column and beta times C to a scaled sum, keeps the largest magnitude for
// amax, and scales and saturates a C in fp8. REQUIRES common/fp8.cuh, gemm/device/pair_store.cuh, gemm/device/fp8_scales.cuh and,
// before the include: AUTOTUNE_EPILOGUE (0: nothing is compiled), Bias, has_bias, scales_c, keeps_amax, block_m, block_n, Out.
#pragma once

#if AUTOTUNE_EPILOGUE
#define AUTOTUNE_EPILOGUE_PARAMETERS , const Bias *bias, const float *scale_d, u32 *amax_d
#define AUTOTUNE_EPILOGUE_ADDRESSES bias, scale_d, amax_d
#else
#define AUTOTUNE_EPILOGUE_PARAMETERS
#define AUTOTUNE_EPILOGUE_ADDRESSES nullptr, nullptr, nullptr
#endif

namespace {

constexpr bool has_epilogue = AUTOTUNE_EPILOGUE != 0;
constexpr bool writes_fp8 = sizeof(Out) == 1;
// The biases of a tile's columns, for each consumer warpgroup. With exchanged operands biases belong to rows, and a thread keeps its own in
// registers.
constexpr u32 bias_bytes = has_bias && !swap_ab ? block_n * 4 : 0;

class Epilogue {
  public:
    __device__ __forceinline__ Epilogue(const Bias* bias, const float* scale_d, u32* amax_d) : bias_(bias), amax_(amax_d) {
        if constexpr (scales_c) scale_ = load_scale(scale_d);
    }

    // Loads the biases of a consumer warpgroup's tile early, and computes where C ends within the tile, in this thread's
    // coordinates.
    template <int bands>
    __device__ __forceinline__ void read(const Extents& s, const Tile& tile, int row0) {
        const int lane = threadIdx.x % 32, row = tile.m0 + row0 + threadIdx.x / 32 % 4 * 16 + lane / 4;
        rows_left_ = s.m - row;
        columns_left_ = s.n - tile.n0 - lane % 4 * 2;
        if constexpr (has_bias && swap_ab) {
#pragma unroll
            for (int i = 0; i < 2 * bands; ++i) biases_[i] = bias_at(min(row + i / 2 * 64 + i % 2 * 8, s.m - 1));
        } else if constexpr (has_bias) {
#pragma unroll
            for (int i = 0; i < column_loads; ++i) biases_[i] = bias_at(min(tile.n0 + i * 128 + static_cast<int>(threadIdx.x % 128), s.n - 1));
        }
    }
    // Writes the biases of its columns to `area` for the consumer warpgroup, after all its threads have finished with those of the previous
    // tile.
    __device__ __forceinline__ void publish(u32 area, int barrier) {
        if constexpr (has_bias && !swap_ab) {
            hopper::named_barrier(barrier, 128);
#pragma unroll
            for (int i = 0; i < column_loads; ++i) {
                const int column = i * 128 + static_cast<int>(threadIdx.x % 128);
                if (column < block_n) asm volatile("st.shared.f32 [%0], %1;" ::"r"(area + column * 4), "f"(biases_[i]) : "memory");
            }
            hopper::named_barrier(barrier, 128);
            area_ = area + threadIdx.x % 4 * 8;
        }
    }

    // The final values of a consumer warpgroup's sums in row `half` of a band (0, or 1: eight rows below) and column group j.
    __device__ __forceinline__ Pair applied(int band, int half, int j, const Pair& sums) {
        if constexpr (!has_epilogue) return sums;
        const int row = band * 64 + half * 8, column = j * 8;
        return finished(biased(band, half, j, sums), row < rows_left_ && column < columns_left_, row < rows_left_ && column + 1 < columns_left_);
    }
    // The same, stored to C; adds beta times the old C.
    __device__ __forceinline__ void store_applied(const Output& out, const Extents& s, const Tile& tile, int row, int column, int band, int half,
                                                  int j, const Pair& sums) {
        if constexpr (has_epilogue)
            store(out, s, tile, row, column, biased(band, half, j, sums));
        else
            store_pair<true>(out, s, tile, row, column, sums);
    }
    // Stores sums without biases that were loaded in advance.
    __device__ __forceinline__ void store_sums(const Output& out, const Extents& s, const Tile& tile, int row, int column, const Pair& sums) {
        if constexpr (!has_epilogue) {
            store_pair<true>(out, s, tile, row, column, sums);
        } else {
            Pair biased = sums;
            if constexpr (has_bias) {
                const int last = (swap_ab ? s.m : s.n) - 1, first = swap_ab ? row : column;
                biased.low += bias_at(min(first, last));
                biased.high += bias_at(min(swap_ab ? first : first + 1, last));
            }
            store(out, s, tile, row, column, biased);
        }
    }

    // Raises amax to the largest magnitude in this warp. Called by all lanes.
    __device__ __forceinline__ void raise_amax() const {
        if constexpr (keeps_amax) {
            const u32 largest = __reduce_max_sync(0xffffffffu, largest_);
            if (threadIdx.x % 32 == 0 && largest > *static_cast<volatile u32*>(amax_)) atomicMax(amax_, largest);
        }
    }

  private:
    __device__ __forceinline__ float bias_at(int column) const { return to_f32(bias_[column]); }
    __device__ __forceinline__ Pair biased(int band, int half, int j, const Pair& sums) const {
        if constexpr (!has_bias) return sums;
        if constexpr (swap_ab) return {sums.low + biases_[2 * band + half], sums.high + biases_[2 * band + half]};
        Pair biases;
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(biases.low), "=f"(biases.high) : "r"(area_ + j * 32));
        return {sums.low + biases.low, sums.high + biases.high};
    }
    // Bit patterns of magnitudes are ordered like the numbers, with NaN above all.
    __device__ __forceinline__ void count(float value) { largest_ = max(largest_, __float_as_uint(value) & 0x7FFFFFFFu); }
    // Counts two values of C for amax, then applies the factor of C.
    __device__ __forceinline__ Pair finished(const Pair& values, bool has_low, bool has_high) {
        if constexpr (keeps_amax) {
            if (has_low) count(values.low);
            if (has_high) count(values.high);
        }
        if constexpr (!scales_c) return values;
        return {values.low * scale_, values.high * scale_};
    }
    template <class To = Out>
    __device__ __forceinline__ void store(const Output& out, const Extents& s, const Tile& tile, int row, int column, const Pair& biased) {
        if (row >= s.m || column >= s.n) return;
        const bool has_high = column + 1 < s.n;
        To* const low = out.c + tile.batch * out.stride_c + (swap_ab ? column * out.ldc + row : row * out.ldc + column);
        To* const high = low + (swap_ab ? out.ldc : 1);
        const Pair values = finished({with_c<true>(out, low, biased.low), has_high ? with_c<true>(out, high, biased.high) : 0.0f}, true, has_high);
        if (!swap_ab && align_c >= 2 * sizeof(To) && has_high) {
            if constexpr (writes_fp8)
                *reinterpret_cast<u16*>(low) = fp8_pair(To{}, values.low, values.high);
            else if constexpr (sizeof(To) == 2)
                *reinterpret_cast<u32*>(low) = pack2<To>(values.low, values.high);
            else
                *reinterpret_cast<float2*>(low) = make_float2(values.low, values.high);
            return;
        }
        *low = from_f32<To>(values.low);
        if (has_high) *high = from_f32<To>(values.high);
    }

    static constexpr int column_loads = (block_n + 127) / 128;
    static constexpr int bias_count = !has_bias ? 1 : swap_ab ? 2 * ((block_m + 63) / 64) : column_loads;
    const Bias* bias_;
    u32* amax_;
    float scale_ = 1.0f;
    float biases_[bias_count];
    int rows_left_ = 0, columns_left_ = 0;
    u32 area_ = 0;
    u32 largest_ = 0;
};

}  // namespace
