// The order in which the clusters of a persistent grid process the tiles of C and their K steps. REQUIRES, as constants before
// the include: block_m, block_n, block_k, cluster_m, cluster_n, cluster_k, sharing_blocks (cluster_m * cluster_n) and
// cluster_blocks (times cluster_k).
#pragma once

namespace {

// M and N in the multiplication's coordinates (exchanged with swap_ab), and the tiles of a whole cluster. Stream-K does not
// divide the first `whole` tiles.
struct Extents {
    int m, n, k, batch, tiles_m, tiles_n, whole, split_k, group, raster;
    __device__ __forceinline__ int steps() const { return (k + block_k - 1) / block_k; }
    __device__ __forceinline__ int tiles() const { return tiles_m * tiles_n * batch; }
};

// A run of K steps of one tile.
struct Work {
    int index;         // the tile's index in the order of work
    int first, steps;  // steps of the K loop
    int part, parts;   // index of this run among the `parts` runs of its tile
    int unit;          // stream-K: the cluster that has part 0
};

// The position of a block's part of a tile.
struct Tile {
    int m0, n0, batch, number;
};

__device__ __forceinline__ int cluster_count() { return static_cast<int>(gridDim.x) / cluster_blocks; }
__device__ __forceinline__ int cluster_index() { return static_cast<int>(blockIdx.x) / cluster_blocks; }

// Iterates over a cluster's work. Producer and consumer warpgroups iterate over the same sequence. Values derived from the
// launch's constants are computed where they are used, because accumulators leave no registers to keep them.
class Schedule {
  public:
    __device__ __forceinline__ Schedule(const Extents& shape, int rank) : s(shape), rank_(rank), next_(cluster_index()) {}

    __device__ __forceinline__ bool next(Work& work) {
        const int steps = s.steps();
        if constexpr (cluster_k > 1) {
            if (next_ >= s.tiles()) return false;
            divide(work, steps, next_, rank_, cluster_k);
            next_ += cluster_count();
            return true;
        }
        const int parts = max(s.split_k, 1);
        if (next_ < s.whole * parts) {
            const int index = parts == 1 ? next_ : next_ / parts;
            divide(work, steps, index, next_ - index * parts, parts);
            next_ += cluster_count();
            return true;
        }
        return s.split_k == 0 && next_streamed(work, steps);
    }

    // Groups of `group` tiles along one direction keep the operands of concurrent blocks in L2.
    __device__ __forceinline__ Tile tile(const Work& work) const {
        const int rank = cluster_k > 1 ? 0 : rank_;
        const int plane = s.tiles_m * s.tiles_n;
        const int batch = s.batch == 1 ? 0 : work.index / plane;
        const int in_plane = work.index - batch * plane;
        const int fast_count = s.raster == 1 ? s.tiles_n : s.tiles_m;
        const int slow_count = s.raster == 1 ? s.tiles_m : s.tiles_n;
        const int strip = in_plane / (s.group * slow_count);
        const int in_strip = in_plane - strip * s.group * slow_count;
        const int width = min(s.group, fast_count - strip * s.group);
        int slow = in_strip / width;
        int in_width = in_strip - slow * width;
        if (s.raster == 2 && width == s.group && slow / s.group < slow_count / s.group) along_hilbert_curve(in_strip, slow, in_width);
        const int fast = strip * s.group + in_width;
        return {((s.raster == 1 ? slow : fast) * cluster_m + rank % cluster_m) * block_m,
                ((s.raster == 1 ? fast : slow) * cluster_n + rank / cluster_m) * block_n, batch, work.index * sharing_blocks + rank};
    }

    // Index of the workspace slot that holds part `part` of the tile.
    __device__ __forceinline__ long long slot(const Work& work, int part) const {
        if (s.split_k != 0) return static_cast<long long>(work.index * sharing_blocks + rank_) * s.split_k + part;
        const int tile_start = (work.index - s.whole) * s.steps();
        const int unit = work.unit + part;
        return static_cast<long long>(unit * 2 + (run_start(unit) > tile_start ? 0 : 1)) * cluster_blocks + rank_;
    }

  private:
    __device__ __forceinline__ static void divide(Work& work, int steps, int index, int part, int parts) {
        work.index = index;
        work.part = part;
        work.parts = parts;
        work.first = parts == 1 ? 0 : steps * part / parts;
        work.steps = parts == 1 ? steps : steps * (part + 1) / parts - work.first;
    }

    // Stream-K over the last, incomplete wave and the one before: each cluster gets an equal run of their K steps. The host
    // ensures that products of steps and clusters fit into 32 bits.
    __device__ __forceinline__ bool next_streamed(Work& work, int steps) {
        const int cluster = cluster_index();
        const int run = run_start(cluster) + streamed_;
        const int run_end = run_start(cluster + 1);
        if (run >= run_end) return false;
        const int index = run / steps;
        const int tile_start = index * steps;
        work.index = s.whole + index;
        work.first = run - tile_start;
        work.steps = min(run_end, tile_start + steps) - run;
        work.unit = owner(tile_start);
        work.part = cluster - work.unit;
        work.parts = owner(tile_start + steps - 1) - work.unit + 1;
        streamed_ += work.steps;
        return true;
    }
    __device__ __forceinline__ int streamed_steps() const { return (s.tiles() - s.whole) * s.steps(); }
    __device__ __forceinline__ int run_start(int unit) const { return streamed_steps() * unit / cluster_count(); }
    // The cluster whose run contains this step of the streamed tiles.
    __device__ __forceinline__ int owner(int step) const { return ((step + 1) * cluster_count() - 1) / streamed_steps(); }

    // Squares of group x group tiles, group a power of two, each visited along Hilbert's curve, which ends next to the next
    // square.
    __device__ __forceinline__ void along_hilbert_curve(int in_strip, int& slow, int& fast) const {
        int rest = in_strip % (s.group * s.group), x = 0, y = 0;
        for (int side = 1; side < s.group; side *= 2) {
            const int right = rest / 2 & 1, up = (rest ^ right) & 1;
            if (up == 0) {
                const int old_x = right ? side - 1 - x : x;
                x = right ? side - 1 - y : y;
                y = old_x;
            }
            x += side * right;
            y += side * up;
            rest /= 4;
        }
        slow = slow / s.group * s.group + x;
        fast = y;
    }

    const Extents& s;
    int rank_, next_;
    int streamed_ = 0;
};

}  // namespace
