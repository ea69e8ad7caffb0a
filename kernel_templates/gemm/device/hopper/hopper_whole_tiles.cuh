// The order of gemm/device/hopper/hopper_schedule.cuh for an undivided K, without its divisions. REQUIRES
// gemm/device/hopper/hopper_schedule.cuh and gemm/device/hopper/hopper_ring.cuh.
#pragma once

namespace {

// Divides by a constant in three instructions. floor(n / by) is the upper half of n times the reciprocal, or one more.
struct Divisor {
    u32 by, reciprocal;
    __device__ __forceinline__ explicit Divisor(int number) : by(static_cast<u32>(number)), reciprocal(0xFFFFFFFFu / by) {}
    __device__ __forceinline__ int of(int n) const {
        const u32 below = static_cast<u32>(static_cast<u64>(n) * reciprocal >> 32);
        return static_cast<int>(static_cast<u32>(n) - below * by >= by ? below + 1 : below);
    }
};

// A scheduler of whole tiles. The next tile follows by an addition, and a tile's position needs no hardware division. The general
// schedule's branches and divisions took a quarter of a ping-pong group's time (fp8, 8192x8192x512, H200). `first` and `stride`
// select tiles of the cluster; 0 and 1 select all.
class WholeTiles {
  public:
    __device__ __forceinline__ WholeTiles(const Extents& shape, int rank, int first, int stride)
        : s(shape), rank_(rank), next_(cluster_index() + first * cluster_count()), stride_(stride), strip_(shape.group * slow_count()),
          group_(shape.group), last_(last_width()) {}

    __device__ __forceinline__ bool next(Work& work) {
        if (next_ >= s.tiles()) return false;
        work = {next_, 0, s.steps(), 0, 1, 0};
        next_ += stride_ * cluster_count();
        return true;
    }
    __device__ __forceinline__ Tile tile(const Work& work) const {
        if (s.raster == 2 || s.batch > 1) return Schedule(s, rank_).tile(work);
        const int strip = strip_.of(work.index);
        const int in_strip = work.index - strip * static_cast<int>(strip_.by);
        const bool is_last = fast_count() - strip * s.group < s.group;
        const int slow = is_last ? last_.of(in_strip) : group_.of(in_strip);
        const int fast = strip * s.group + in_strip - slow * static_cast<int>(is_last ? last_.by : group_.by);
        return {((s.raster == 1 ? slow : fast) * cluster_m + rank_ % cluster_m) * block_m,
                ((s.raster == 1 ? fast : slow) * cluster_n + rank_ / cluster_m) * block_n, 0, work.index * sharing_blocks + rank_};
    }

  private:
    __device__ __forceinline__ int fast_count() const { return s.raster == 1 ? s.tiles_n : s.tiles_m; }
    __device__ __forceinline__ int slow_count() const { return s.raster == 1 ? s.tiles_m : s.tiles_n; }
    __device__ __forceinline__ int last_width() const { return fast_count() % s.group == 0 ? s.group : fast_count() % s.group; }

    const Extents& s;
    int rank_, next_, stride_;
    Divisor strip_, group_, last_;
};

// Advances the ring's position past the stages of the other ping-pong groups' tiles.
struct Skip {
    int stages;
    u32 laps;
    __device__ __forceinline__ Skip(int steps, int ring_stages) : stages(steps % ring_stages), laps(static_cast<u32>(steps / ring_stages)) {}
    __device__ __forceinline__ void move(Position& at, int ring_stages) const {
        at.stage += stages;
        at.parity ^= laps & 1;
        if (at.stage < ring_stages) return;
        at.stage -= ring_stages;
        at.parity ^= 1;
    }
};

// The interface of WholeTiles over the general schedule, for a divided K.
class AnyTiles {
  public:
    __device__ __forceinline__ AnyTiles(const Extents& shape, int rank) : general(shape, rank), s_(shape), whole_(shape, rank, 0, 1) {}
    __device__ __forceinline__ bool next(Work& work) {
        if (cluster_k > 1 || s_.split_k != 1) return general.next(work);
        return whole_.next(work);
    }
    __device__ __forceinline__ Tile tile(const Work& work) const { return cluster_k > 1 ? general.tile(work) : whole_.tile(work); }

    Schedule general;

  private:
    const Extents& s_;
    WholeTiles whole_;
};

}  // namespace
