// The keys that a query sees, and the tiles of keys that a tile of queries needs. Device and host include this file, so that
// families, launch plans and tests use the same formulas.
#pragma once

#ifdef __CUDACC__
#define ATTENTION_EVERYWHERE __device__ __forceinline__
#else
#define ATTENTION_EVERYWHERE inline
#endif

namespace attention {

ATTENTION_EVERYWHERE constexpr int clamped(int value, int least, int most) {
    return value < least ? least : value > most ? most : value;
}

// Query `row` sees the existing keys from row + low to row + high, inclusive. A bound that the mask does not have is ignored.
// Rows, keys and bounds are below 2^30, so that sums of two fit.
template <bool has_low, bool has_high>
struct Mask {
    int low, high;
    int kv_len;

    ATTENTION_EVERYWHERE constexpr int first_key(int row) const { return has_low ? clamped(row + low, 0, kv_len) : 0; }
    ATTENTION_EVERYWHERE constexpr int end_key(int row) const { return has_high ? clamped(row + high + 1, 0, kv_len) : kv_len; }
    ATTENTION_EVERYWHERE constexpr bool sees(int row, int key) const { return key >= first_key(row) && key < end_key(row); }

    // ---- tiles of `block_k` keys for the rows from `first` to `last`, inclusive ----

    // The rows see keys only in tiles [first_tile, end_tile); in none if end_tile <= first_tile.
    ATTENTION_EVERYWHERE constexpr int first_tile(int first, int block_k) const { return first_key(first) / block_k; }
    ATTENTION_EVERYWHERE constexpr int end_tile(int last, int block_k) const { return (end_key(last) + block_k - 1) / block_k; }
    // Every row sees every key of the tiles in [first_full_tile, end_full_tile), which hold no keys beyond the last; there are no
    // such tiles if end_full_tile <= first_full_tile.
    ATTENTION_EVERYWHERE constexpr int first_full_tile(int last, int block_k) const {
        return (first_key(last) + block_k - 1) / block_k;
    }
    ATTENTION_EVERYWHERE constexpr int end_full_tile(int first, int block_k) const { return end_key(first) / block_k; }
};

// The same mask from the point of view of the keys: the queries from row + low to row + high see key `row`.
template <bool has_low, bool has_high>
ATTENTION_EVERYWHERE constexpr Mask<has_high, has_low> seen_from_keys(const Mask<has_low, has_high>& mask, int q_len) {
    return {-mask.high, -mask.low, q_len};
}

}  // namespace attention
