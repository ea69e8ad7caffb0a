// The tiles of queries that meet a tile of keys, and the order in which tiles of keys add to the gradient of a tile of queries.
// Device and host share the text. Include attention/device/mask.cuh first, because device and host find it under different names.
#pragma once

namespace attention_bwd {

struct TileRange {
    int first, end;
};

// Tiles of `block_q` queries and of `block_k` keys meet if one of the queries sees one of the keys.
template <bool has_low, bool has_high>
struct TileMeetings {
    attention::Mask<has_low, has_high> mask;
    int q_len, block_q, block_k;

    ATTENTION_EVERYWHERE constexpr TileRange of_keys(int tile) const {
        const auto seen = attention::seen_from_keys(mask, q_len);
        const int first_key = tile * block_k;
        const int last_key = attention::clamped(first_key + block_k, 0, mask.kv_len) - 1;
        const int first_query = seen.first_key(first_key), end_query = seen.end_key(last_key);
        if (first_query >= end_query) return {0, 0};
        return {first_query / block_q, (end_query + block_q - 1) / block_q};
    }
    ATTENTION_EVERYWHERE constexpr TileRange of_queries(int tile) const {
        const int first_query = tile * block_q;
        const int last_query = attention::clamped(first_query + block_q, 0, q_len) - 1;
        const int first_key = mask.first_key(first_query), end_key = mask.end_key(last_query);
        if (first_key >= end_key) return {0, 0};
        return {first_key / block_k, (end_key + block_k - 1) / block_k};
    }
    // The position of key tile `keys` among the tiles that add to query tile `queries`, which is the number of key tiles before
    // it. Blocks process key tiles in ascending or descending order. REQUIRES: the two tiles meet.
    ATTENTION_EVERYWHERE constexpr int turn(int queries, int keys, bool descending) const {
        const TileRange range = of_queries(queries);
        return descending ? range.end - 1 - keys : keys - range.first;
    }
};

}  // namespace attention_bwd
