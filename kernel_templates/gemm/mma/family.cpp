#include "src/core/family.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernel_templates/gemm/gemm_problem.h"
#include "src/core/error.h"

namespace autotune {
namespace {

using std::int64_t;

constexpr int64_t kChunkBytes = 16;
constexpr int64_t kElementBytes = 2;
constexpr int64_t kMaxExtent = std::numeric_limits<std::int32_t>::max() - 4096;  // sums with a tile stay in 32 bits
constexpr int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max();

int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
int64_t round_up(int64_t a, int64_t b) {
    return ceil_div(a, b) * b;
}

// What this family asks of a problem.
struct Gemm {
    int64_t m, n, k, batch;
    bool trans_a, trans_b, acc_f16;
    int align_a, align_b, align_c;
    DType in, out;
};

Gemm gemm_of(const Problem& problem) {
    const std::string& layout = problem.trait("layout");
    const auto& operands = problem.operands;
    return {.m = problem.extent("m"),
            .n = problem.extent("n"),
            .k = problem.extent("k"),
            .batch = problem.extent("batch"),
            .trans_a = layout[0] == 't',
            .trans_b = layout[1] == 't',
            .acc_f16 = problem.trait("acc") == "f16",
            .align_a = operands[0].alignment_bytes,
            .align_b = operands[1].alignment_bytes,
            .align_c = operands[2].alignment_bytes,
            .in = operands[0].dtype,
            .out = operands[2].dtype};
}

// A config with names resolved.
struct Shape {
    int64_t block_m, block_n, block_k, warps_m, warps_n, stages, smem_swizzle, reg_buffers, min_blocks, pack;
    int64_t split_k, raster, swizzle_stride;

    int64_t warps() const { return warps_m * warps_n; }
    int64_t threads() const { return 32 * warps(); }
    int64_t warp_m() const { return block_m / warps_m; }
    int64_t warp_n() const { return block_n / warps_n; }
};

Shape shape_of(const Config& c) {
    const auto get = [&c](std::string_view name) { return c.find(name).value_or(1); };
    return {get("block_m"), get("block_n"),      get("block_k"),       get("warps_m"),    get("warps_n"),
            get("stages"),  get("smem_swizzle"), get("reg_buffers"),   get("min_blocks"), get("pack"),
            get("split_k"), get("raster"),       get("swizzle_stride")};
}

// ---- resources ----

int64_t tile_bytes(const Shape& s, int64_t extent, bool k_contiguous) {
    const int64_t rows = k_contiguous ? extent : s.block_k;
    const int64_t cols = k_contiguous ? s.block_k : extent;
    return rows * (cols * kElementBytes + (s.smem_swizzle != 0 ? 0 : kChunkBytes));
}

// The ring of tiles, or the slabs through which C leaves, which take its place.
int64_t smem_bytes(const Gemm& g, const Shape& s) {
    const int64_t ring = s.stages * (tile_bytes(s, s.block_m, !g.trans_a) + tile_bytes(s, s.block_n, g.trans_b));
    const int64_t slabs = s.warps() * 16 * (s.warp_n() + 8) * static_cast<int64_t>(size_bytes(g.out));
    return std::max(ring, slabs);
}

// Registers a thread needs without spilling: accumulators, fragments, and 40 for addresses (ptxas 13.0 at 128x256x32: 46).
int64_t registers_needed(const Gemm& g, const Shape& s) {
    const int64_t accumulators = s.warp_m() * s.warp_n() / (g.acc_f16 ? 64 : 32);
    const int64_t fragments = s.reg_buffers * (s.warp_m() + s.warp_n()) / 4;
    return accumulators + fragments + 40;
}

int64_t registers_allowed(const Shape& s, const DeviceLimits& limits) {
    return std::min<int64_t>(255, limits.registers_per_sm / (s.threads() * s.min_blocks) / 8 * 8);
}

// The kernel's lanes_along: whether every thread copies the same number of whole passes of a tile.
bool copies_evenly(const Shape& s, int64_t extent, bool k_contiguous) {
    const int64_t rows = k_contiguous ? extent : s.block_k;
    const int64_t cols = k_contiguous ? s.block_k : extent;
    const int64_t chunks = cols / 8;
    const int64_t period = cols % 64 == 0 ? 8 : cols % 32 == 0 ? 4 : 2;
    for (int64_t lanes = 64; lanes >= 2; lanes /= 2) {
        const bool fits = chunks % lanes == 0 && (lanes == chunks || lanes % period == 0);
        if (!fits || s.threads() % lanes != 0) continue;
        const int64_t rows_a_pass = s.threads() / lanes;
        if (rows_a_pass % 8 == 0 && rows % rows_a_pass == 0) return true;
    }
    return false;
}

int64_t blocks_per_sm(const Gemm& g, const Shape& s, const DeviceLimits& limits) {
    const int64_t reserved = 1024;  // shared memory the system keeps for each block
    const int64_t registers = round_up(std::min(registers_needed(g, s), registers_allowed(s, limits)), 8) * s.threads();
    return std::max<int64_t>(
        1, std::min({limits.smem_per_sm_bytes / (smem_bytes(g, s) + reserved), limits.registers_per_sm / registers,
                     limits.threads_per_sm / s.threads(), static_cast<int64_t>(limits.blocks_per_sm)}));
}

int64_t tiles(const Gemm& g, const Shape& s) {
    return ceil_div(g.m, s.block_m) * ceil_div(g.n, s.block_n) * g.batch;
}
int64_t k_per_split(const Gemm& g, const Shape& s) {
    return round_up(ceil_div(g.k, s.split_k), s.block_k);
}
bool packs(const Shape& s, int align) {
    return s.pack != 0 && align < kChunkBytes;
}

// ---- the space ----

std::vector<Parameter> parameters() {
    const auto compile = ParameterKind::compile;
    const auto launch = ParameterKind::launch;
    return {
        {"block_m", {32, 64, 128, 192, 256}, compile, "rows of C that a block computes"},
        {"block_n", {32, 64, 96, 128, 192, 256}, compile, "columns of C that a block computes"},
        {"warps_m", {1, 2, 4}, compile, "warps along the rows of a block's tile"},
        {"warps_n", {1, 2, 4}, compile, "warps along its columns"},
        {"block_k", {16, 32, 64}, compile, "depth of a tile in shared memory"},
        {"stages", {2, 3, 4, 5, 6}, compile, "tiles in the cp.async ring"},
        {"smem_swizzle", {0, 1}, compile, "1: shared-memory addresses XORed; 0: rows padded by 16 bytes"},
        {"reg_buffers", {1, 2}, compile, "2: fragments of the next mma step load during this one"},
        {"min_blocks", {1, 2}, compile, "blocks that must fit an SM, which bounds registers"},
        {"pack", {0, 1}, compile, "1: operands with unaligned rows are first copied to aligned rows in the workspace"},
        {"split_k", {1, 2, 3, 4, 6, 8, 16}, launch, "parts of K summed by different blocks, added in order by a second kernel"},
        {"raster", {0, 1}, launch, "panels of the block order: 0 along M, blocks run across N; 1 the other way round"},
        {"swizzle_stride", {0, 512, 1024, 2048, 4096}, launch, "width of a panel in elements of C; 0: the whole extent"},
    };
}

using Rule = std::function<bool(const Config&)>;
Rule rule(std::function<bool(const Shape&)> holds) {
    return [holds = std::move(holds)](const Config& c) { return holds(shape_of(c)); };
}

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g) {
    const auto fits_problem = [](int64_t block, int64_t extent) { return block == 32 || block < 2 * extent; };
    to.push_back({"block_m is at least twice the problem's rows", {"block_m"}, rule([=](const Shape& s) {
                      return fits_problem(s.block_m, g.m);
                  })});
    to.push_back({"block_n is at least twice the problem's columns", {"block_n"}, rule([=](const Shape& s) {
                      return fits_problem(s.block_n, g.n);
                  })});
    to.push_back({"a warp's rows are not a multiple of 16", {"block_m", "warps_m"}, rule([](const Shape& s) {
                      return s.block_m % (16 * s.warps_m) == 0;
                  })});
    to.push_back({"a warp's columns are not a multiple of 16", {"block_n", "warps_n"}, rule([](const Shape& s) {
                      return s.block_n % (16 * s.warps_n) == 0;
                  })});
    to.push_back({"fewer than 2 warps", {"warps_m", "warps_n"}, rule([](const Shape& s) { return s.warps() >= 2; })});
    const std::vector<std::string> tile = {"block_m", "block_n", "warps_m", "warps_n"};
    to.push_back({"a warp's tile is too small: shared memory would feed fewer than 2 mma a ldmatrix", tile,
                  rule([](const Shape& s) { return s.warp_m() * s.warp_n() >= 512; })});
    to.push_back({"a warp's tile is more than 4 times as long as wide", tile,
                  rule([](const Shape& s) { return s.warp_m() <= 4 * s.warp_n() && s.warp_n() <= 4 * s.warp_m(); })});
    to.push_back({"more than 8 warps on a tile that 8 can compute", tile,
                  rule([](const Shape& s) { return s.warps() <= 8 || s.block_m * s.block_n >= 128 * 256; })});
}

void add_pipeline_rules(std::vector<Constraint>& to, const Gemm& g) {
    to.push_back({"block_k is more than twice K", {"block_k"}, rule([=](const Shape& s) {
                      return s.block_k == 16 || s.block_k < 2 * g.k;
                  })});
    to.push_back({"a tile does not divide evenly among the threads",
                  {"block_m", "block_n", "warps_m", "warps_n", "block_k"},
                  rule([=](const Shape& s) {
                      return copies_evenly(s, s.block_m, !g.trans_a) && copies_evenly(s, s.block_n, g.trans_b);
                  })});
    to.push_back({"the ring is deeper than K", {"block_k", "stages"}, rule([=](const Shape& s) {
                      return s.stages == 2 || (s.stages - 1) * s.block_k <= round_up(g.k, s.block_k);
                  })});
    to.push_back({"two register buffers need an even number of mma steps in block_k",
                  {"block_k", "reg_buffers"},
                  rule([](const Shape& s) { return s.reg_buffers == 1 || s.block_k % 32 == 0; })});
}

void add_resource_rules(std::vector<Constraint>& to, const Gemm& g, const DeviceLimits& limits) {
    to.push_back({"tiles exceed shared memory",
                  {"block_m", "block_n", "warps_m", "warps_n", "block_k", "stages", "smem_swizzle"},
                  rule([=](const Shape& s) { return smem_bytes(g, s) <= limits.smem_per_block_bytes; })});
    to.push_back({"min_blocks does not bind: below 256 threads two blocks always have the registers",
                  {"warps_m", "warps_n", "min_blocks"},
                  rule([](const Shape& s) { return s.min_blocks == 1 || s.threads() >= 256; })});
    to.push_back({"accumulators and fragments exceed the registers",
                  {"block_m", "block_n", "warps_m", "warps_n", "reg_buffers", "min_blocks"},
                  rule([=](const Shape& s) { return registers_needed(g, s) <= registers_allowed(s, limits); })});
    to.push_back({"min_blocks do not fit the SM's shared memory",
                  {"block_m", "block_n", "warps_m", "warps_n", "block_k", "stages", "smem_swizzle", "min_blocks"},
                  rule([=](const Shape& s) { return s.min_blocks * (smem_bytes(g, s) + 1024) <= limits.smem_per_sm_bytes; })});
    to.push_back({"nothing to pack: operands are aligned to 16 bytes", {"pack"}, rule([=](const Shape& s) {
                      return s.pack == 0 || std::min(g.align_a, g.align_b) < kChunkBytes;
                  })});
}

void add_launch_rules(std::vector<Constraint>& to, const Gemm& g, int sm_count) {
    to.push_back({"a part of K would have fewer than 4 tiles", {"block_k", "split_k"}, rule([=](const Shape& s) {
                      return s.split_k == 1 || g.k >= 4 * s.split_k * s.block_k;
                  })});
    to.push_back({"a part of K would be empty", {"block_k", "split_k"}, rule([=](const Shape& s) {
                      return s.split_k == 1 || (s.split_k - 1) * k_per_split(g, s) < g.k;
                  })});
    to.push_back({"split-K only where it adds blocks to fewer than four per SM",
                  {"block_m", "block_n", "split_k"},
                  rule([=](const Shape& s) { return s.split_k == 1 || tiles(g, s) * s.split_k <= 4 * sm_count; })});
    to.push_back({"a panel is narrower than two tiles, or no narrower than C",
                  {"block_m", "block_n", "raster", "swizzle_stride"},
                  rule([=](const Shape& s) {
                      const int64_t block = s.raster != 0 ? s.block_m : s.block_n;
                      const int64_t extent = s.raster != 0 ? g.m : g.n;
                      return s.swizzle_stride == 0 || (s.swizzle_stride >= 2 * block && s.swizzle_stride < extent);
                  })});
}

// ---- time ----

// Share of the dense tensor-core peak that mma.sync reaches: Hopper and datacentre Blackwell keep the rest for wgmma and tcgen05.
double mma_sync_share(int cc) {
    if (cc == 90) return 0.62;
    return cc / 10 == 10 || cc / 10 == 11 ? 0.5 : 0.95;
}

// Cycles of one SM for a block's k16 step when nothing waits: tensor cores, shared memory, L2.
double step_cycles(const Gemm& g, const Shape& s, const Device& device) {
    const double f16_bonus = g.acc_f16 && device.identity.cc() != 80 && device.identity.cc() != 90 ? 2.0 : 1.0;
    const double rate = device.tensor_flop_per_clock_sm() * mma_sync_share(device.identity.cc()) * f16_bonus;
    const auto area = static_cast<double>(s.block_m * s.block_n);
    const auto edges = static_cast<double>(s.block_m + s.block_n);
    const double mma = 2.0 * 16.0 * area / rate;
    const double reads = static_cast<double>(s.warps() * (s.warp_m() + s.warp_n())) * 32.0;
    double copies = edges * 32.0;
    const int access = s.pack != 0 ? 16 : std::min(g.align_a, g.align_b);
    if (access < 16) copies *= access == 8 ? 2.0 : access == 4 ? 4.0 : 24.0;
    const double smem = (reads + copies) / 128.0;
    const double l2 = edges * 32.0 / 40.0;
    return std::pow(std::pow(mma, 4) + std::pow(smem, 4) + std::pow(l2, 4), 0.25);
}

// Bytes of A and B that device memory delivers: what one wave of blocks covers is read once, the next wave again unless the L2
// holds it.
double operand_traffic(const Gemm& g, const Shape& s, const Device& device, double concurrent) {
    const double once = static_cast<double>((g.m + g.n) * g.k * g.batch) * kElementBytes;
    if (once < device.identity.l2_mib * 0.5e6) return once;
    const bool along_m = s.raster != 0;
    const double block_across = static_cast<double>(along_m ? s.block_m : s.block_n);
    const double block_along = static_cast<double>(along_m ? s.block_n : s.block_m);
    const double across = static_cast<double>(along_m ? g.m : g.n);
    const double panel = s.swizzle_stride == 0 ? across : std::min(across, static_cast<double>(s.swizzle_stride));
    const double tiles_across = std::min(std::ceil(panel / block_across), concurrent);
    const double tiles_along = std::ceil(concurrent / tiles_across);
    const double wave = (tiles_across * block_across + tiles_along * block_along) * static_cast<double>(g.k) * kElementBytes;
    const double waves = static_cast<double>(tiles(g, s)) / std::min(concurrent, static_cast<double>(tiles(g, s)));
    return std::max(once, wave * waves);
}

// Launches beside the main kernel: packing, and adding the parts of K.
double side_us(const Gemm& g, const Shape& s, const Device& device) {
    const double bytes_per_us = device.memory_gb_per_s * 0.8 * 1e3;
    double us = 0;
    if (packs(s, g.align_a)) us += 1.5 + 4.0 * static_cast<double>(g.m * g.k * g.batch) / bytes_per_us;
    if (packs(s, g.align_b)) us += 1.5 + 4.0 * static_cast<double>(g.n * g.k * g.batch) / bytes_per_us;
    if (s.split_k > 1) us += 1.5 + 8.0 * static_cast<double>(g.m * g.n * g.batch * s.split_k) / (2 * bytes_per_us);
    return us;
}

double predict(const Gemm& g, const Shape& s, const Device& device) {
    const double cycles_per_us = device.clock_mhz * 0.92;
    const auto sms = static_cast<double>(device.identity.sm_count);
    const double blocks = static_cast<double>(tiles(g, s) * s.split_k);
    const double resident = std::min(static_cast<double>(blocks_per_sm(g, s, device.limits)), std::ceil(blocks / sms));
    const double warps = resident * static_cast<double>(s.warps());

    // A tile of the ring: its steps, a barrier that other blocks on the SM hide, and the latency that the ring must cover.
    double step = step_cycles(g, s, device) * (warps < 6 ? 1.08 : 1.0);
    if (s.reg_buffers == 1) step *= warps < 12 ? 1.12 : 1.04;
    if (s.smem_swizzle == 0) step *= 1.01;
    const double barrier = 60.0 / resident;
    const double latency = 1000.0 / static_cast<double>(s.stages - 1) / resident;
    const double tile = std::max(step * static_cast<double>(s.block_k) / 16.0 + barrier, latency);
    const double loop =
        tile * std::ceil(static_cast<double>(std::max<int64_t>(1, k_per_split(g, s))) / static_cast<double>(s.block_k));

    // Start and end of a block, which only another block on the SM hides.
    const double epilogue = static_cast<double>(s.block_m * s.block_n) * (s.split_k > 1 ? 4.0 : 2.0) / 24.0;
    const double rounds = std::ceil(blocks / sms);
    const double exposed = (1200.0 + epilogue) * (resident > 1 ? 1.0 + 0.3 * (rounds - 1) : rounds);
    const double compute_us = (rounds * loop + exposed) / cycles_per_us;
    const double output = static_cast<double>(g.m * g.n * g.batch) * static_cast<double>(size_bytes(g.out));
    const double memory_us = (operand_traffic(g, s, device, sms * resident) + output) / (device.memory_gb_per_s * 0.85 * 1e3);
    return 2.0 + std::pow(std::pow(compute_us, 6) + std::pow(memory_us, 6), 1.0 / 6) + side_us(g, s, device);
}

// ---- well-known points ----

Config make_config(const Shape& s) {
    return {{"block_m", s.block_m},
            {"block_n", s.block_n},
            {"warps_m", s.warps_m},
            {"warps_n", s.warps_n},
            {"block_k", s.block_k},
            {"stages", s.stages},
            {"smem_swizzle", s.smem_swizzle},
            {"reg_buffers", s.reg_buffers},
            {"min_blocks", s.min_blocks},
            {"pack", s.pack},
            {"split_k", s.split_k},
            {"raster", s.raster},
            {"swizzle_stride", s.swizzle_stride}};
}

// Two by four warps of four by four mma tiles, as the classic kernels have it: 128x128, one or two mma steps deep.
Shape classic(int64_t block_k, int64_t stages) {
    return {.block_m = 128,
            .block_n = 128,
            .block_k = block_k,
            .warps_m = 2,
            .warps_n = 4,
            .stages = stages,
            .smem_swizzle = 0,
            .reg_buffers = 1,
            .min_blocks = 1,
            .pack = 0,
            .split_k = 1,
            .raster = 0,
            .swizzle_stride = 0};
}

void add_named(std::vector<NamedConfig>& to, const std::string& name, const Shape& shape) {
    to.push_back({name, make_config(shape)});
    for (const int64_t stride : {1024, 2048, 4096}) {
        Shape swizzled = shape;
        swizzled.swizzle_stride = stride;
        to.push_back({name + "_swizzle" + std::to_string(stride), make_config(swizzled)});
    }
}

std::vector<NamedConfig> named_configs() {
    const std::string base = "mma_m16n8k16_mma2x4_warp4x4";
    std::vector<NamedConfig> named = {{base, make_config(classic(16, 2))}};
    for (const int64_t stages : {2, 3, 4, 5, 6}) {
        const std::string suffix = "_stages" + std::to_string(stages) + "_dsmem";
        add_named(named, base + suffix, classic(16, stages));
        add_named(named, base + "x2" + suffix, classic(32, stages));
        Shape swizzled = classic(32, stages);
        swizzled.smem_swizzle = 1;
        add_named(named, base + "x2_smem_swizzle" + suffix, swizzled);
        swizzled.reg_buffers = 2;
        add_named(named, base + "x2_smem_swizzle_rbuf" + suffix, swizzled);
    }
    return named;
}

// Tiles worth trying first, large to small: {block_m, block_n, warps_m, warps_n, block_k, stages}.
constexpr std::array<std::array<int64_t, 6>, 12> kGoodTiles = {{{128, 256, 2, 4, 32, 4},
                                                                {256, 128, 4, 2, 32, 4},
                                                                {128, 256, 2, 4, 64, 3},
                                                                {128, 128, 2, 2, 32, 4},
                                                                {128, 128, 2, 2, 32, 3},
                                                                {64, 128, 2, 2, 64, 3},
                                                                {128, 64, 2, 2, 64, 3},
                                                                {64, 64, 2, 2, 64, 4},
                                                                {64, 64, 2, 2, 32, 3},
                                                                {32, 64, 1, 2, 64, 4},
                                                                {32, 64, 1, 2, 16, 2},
                                                                {32, 32, 1, 2, 16, 2}}};

Config default_config(const SearchSpace& space, const Gemm& g, const Device& device) {
    const int64_t pack = std::min(g.align_a, g.align_b) < kChunkBytes && g.m * g.n * g.k > (int64_t{1} << 24) ? 1 : 0;
    std::optional<Config> best;
    double best_us = std::numeric_limits<double>::infinity();
    for (const auto& t : kGoodTiles) {
        for (const int64_t split_k : {1, 2, 4, 8}) {
            for (const int64_t stride : {0, 1024}) {
                const Shape s = {.block_m = t[0],
                                 .block_n = t[1],
                                 .block_k = t[4],
                                 .warps_m = t[2],
                                 .warps_n = t[3],
                                 .stages = t[5],
                                 .smem_swizzle = 1,
                                 .reg_buffers = t[4] >= 32 ? 2 : 1,
                                 .min_blocks = 1,
                                 .pack = pack,
                                 .split_k = split_k,
                                 .raster = 0,
                                 .swizzle_stride = stride};
                const Config config = make_config(s);
                const double us = predict(g, s, device);
                if (us < best_us && space.contains(config)) {
                    best = config;
                    best_us = us;
                }
            }
        }
    }
    if (best) return *best;
    const auto first = space.enumerate({}, 1);
    check(!first.empty(), "gemm/mma has no config for a problem that it does not refuse");
    return first.front();
}

// ---- the launch ----

struct Workspace {
    int64_t packed_lda = 0, packed_ldb = 0;
    std::size_t packed_a = 0, packed_b = 0, partial = 0, bytes = 0;
};

int64_t packed_ld(const Operand& operand) {
    return round_up(operand.cols, kChunkBytes / kElementBytes);
}

Workspace workspace_of(const Problem& problem, const Gemm& g, const Shape& s) {
    Workspace w;
    const auto take = [&w](int64_t bytes) {
        const std::size_t at = w.bytes;
        w.bytes += static_cast<std::size_t>(round_up(bytes, 256));
        return at;
    };
    const auto take_packed = [&take](const Operand& operand) {
        return take(operand.rows * packed_ld(operand) * operand.batch * kElementBytes);
    };
    w.packed_lda = packed_ld(problem.operands[0]);
    w.packed_ldb = packed_ld(problem.operands[1]);
    if (packs(s, g.align_a)) w.packed_a = take_packed(problem.operands[0]);
    if (packs(s, g.align_b)) w.packed_b = take_packed(problem.operands[1]);
    if (s.split_k > 1) w.partial = take(s.split_k * g.batch * g.m * round_up(g.n, 4) * 4);
    return w;
}

I32Arg i32(int64_t value) {
    return {static_cast<std::int32_t>(value)};
}
Dim3 grid_of(int64_t blocks) {
    return {static_cast<std::uint32_t>(blocks), 1, 1};
}

// A warp copies 8 words a lane, a word being as wide as rows are aligned.
LaunchStep pack_step(const Operand& operand, int index, const char* entry, std::size_t offset_bytes) {
    const int64_t elements = std::min(8, operand.alignment_bytes) / kElementBytes;
    const int64_t segments = std::max<int64_t>(1, ceil_div(operand.cols / elements, 32 * 8));
    const int64_t ld = packed_ld(operand);
    return {.entry = entry,
            .grid = grid_of(ceil_div(operand.rows * operand.batch * segments, 8)),
            .block = {256, 1, 1},
            .cluster = {},
            .dynamic_smem_bytes = 0,
            .programmatic_dependent = false,
            .arguments = {OperandArg{index}, WorkspaceArg{offset_bytes}, i32(operand.rows), i32(operand.cols), I64Arg{operand.ld},
                          I64Arg{ld}, i32(operand.batch), I64Arg{operand.batch_stride}, I64Arg{ld * operand.rows}}};
}

LaunchStep main_step(const Problem& problem, const Gemm& g, const Shape& s, const Workspace& w) {
    const auto& o = problem.operands;
    const int64_t across = s.raster != 0 ? ceil_div(g.m, s.block_m) : ceil_div(g.n, s.block_n);
    const int64_t panel = s.swizzle_stride / (s.raster != 0 ? s.block_m : s.block_n);
    const int64_t group = s.swizzle_stride == 0 ? across : std::clamp<int64_t>(panel, 1, across);
    std::vector<Argument> arguments = gemm::arguments(problem);
    arguments.back() = WorkspaceArg{w.partial};
    for (const int64_t value : {s.raster, group, s.split_k, std::min(k_per_split(g, s), kMaxExtent)})
        arguments.push_back(i32(value));
    for (const Argument& argument :
         {Argument{WorkspaceArg{w.packed_a}}, Argument{I64Arg{w.packed_lda}}, Argument{I64Arg{w.packed_lda * o[0].rows}},
          Argument{WorkspaceArg{w.packed_b}}, Argument{I64Arg{w.packed_ldb}}, Argument{I64Arg{w.packed_ldb * o[1].rows}}}) {
        arguments.push_back(argument);
    }
    return {.entry = "",
            .grid = grid_of(tiles(g, s) * s.split_k),
            .block = {static_cast<std::uint32_t>(s.threads()), 1, 1},
            .cluster = {},
            .dynamic_smem_bytes = static_cast<std::size_t>(smem_bytes(g, s)),
            .programmatic_dependent = false,
            .arguments = std::move(arguments)};
}

LaunchStep reduce_step(const Problem& problem, const Gemm& g, const Shape& s, const Workspace& w) {
    const Operand& c = problem.operands[2];
    return {.entry = "_reduce",
            .grid = grid_of(ceil_div(g.batch * g.m * ceil_div(g.n, 4), 256)),
            .block = {256, 1, 1},
            .cluster = {},
            .dynamic_smem_bytes = 0,
            .programmatic_dependent = false,
            .arguments = {WorkspaceArg{w.partial}, OperandArg{2}, ScalarArg{0}, ScalarArg{1}, i32(g.m), i32(g.n), I64Arg{c.ld},
                          i32(g.batch), I64Arg{c.batch_stride}, i32(s.split_k)}};
}

class Mma final : public Family {
  public:
    std::string_view name() const override { return "gemm/mma"; }
    std::string_view about() const override { return "mma.sync m16n8k16 fed by a cp.async ring and ldmatrix, sm_80 and later"; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        const Gemm g = gemm_of(problem);
        if (device.identity.cc() < 80) return "mma.sync m16n8k16 and cp.async need sm_80 or later";
        if (g.in != problem.operands[1].dtype || (g.in != DType::f16 && g.in != DType::bf16))
            return "it multiplies f16 by f16 or bf16 by bf16";
        if (problem.trait("compute") != to_string(g.in)) return "it computes in the type of its inputs";
        if (g.acc_f16 && g.in != DType::f16) return "f16 accumulation is for f16 inputs";
        if (g.out != DType::f16 && g.out != DType::bf16 && g.out != DType::f32) return "it writes f16, bf16 or f32";
        if (std::max({g.m, g.n, g.k, g.batch}) > kMaxExtent) return "an extent does not fit 32-bit indices";
        if (ceil_div(g.m, 32) * ceil_div(g.n, 32) > kMaxBlocks / std::max<int64_t>(1, g.batch))
            return "C has more tiles than a grid has blocks";
        return std::nullopt;
    }

    SearchSpace space(const Problem& problem, const Device& device) const override {
        const Gemm g = gemm_of(problem);
        SearchSpace space;
        space.parameters = parameters();
        add_tile_rules(space.constraints, g);
        add_pipeline_rules(space.constraints, g);
        add_resource_rules(space.constraints, g, device.limits);
        add_launch_rules(space.constraints, g, device.identity.sm_count);
        space.default_config = default_config(space, g, device);
        for (NamedConfig& named : named_configs()) {
            if (space.contains(named.config)) space.named.push_back(std::move(named));
        }
        return space;
    }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const Gemm g = gemm_of(problem);
        const Shape s = shape_of(config);
        LaunchPlan plan;
        if (g.m == 0 || g.n == 0 || g.batch == 0) return plan;
        const Workspace w = workspace_of(problem, g, s);
        plan.workspace_bytes = w.bytes;
        if (packs(s, g.align_a) && g.k > 0) plan.steps.push_back(pack_step(problem.operands[0], 0, "_pack_a", w.packed_a));
        if (packs(s, g.align_b) && g.k > 0) plan.steps.push_back(pack_step(problem.operands[1], 1, "_pack_b", w.packed_b));
        plan.steps.push_back(main_step(problem, g, s, w));
        if (s.split_k > 1) plan.steps.push_back(reduce_step(problem, g, s, w));
        return plan;
    }

    std::optional<double> predict_us(const Problem& problem, const Config& config, const Device& device) const override {
        return predict(gemm_of(problem), shape_of(config), device);
    }
};

}  // namespace

const Family& family_gemm_mma() {
    static const Mma family;
    return family;
}

}  // namespace autotune
