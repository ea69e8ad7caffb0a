#include "kernel_templates/gemm/shared/family_parts.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "src/core/integer_math.h"

namespace autotune::gemm {

using std::int64_t;

Gemm::Gemm(const Problem& problem)
    : m(problem.extent("m")),
      n(problem.extent("n")),
      k(problem.extent("k")),
      batch(problem.extent("batch")),
      trans_a(problem.word("layout")[0] == 't'),
      trans_b(problem.word("layout")[1] == 't'),
      acc_f16(problem.word("acc") == "f16"),
      reads_c(problem.word("beta") != "zero"),
      align_a(problem.tensors[kA].alignment_bytes),
      align_b(problem.tensors[kB].alignment_bytes),
      align_c(problem.tensors[kC].alignment_bytes),
      in(problem.tensors[kA].dtype),
      out(problem.tensors[kC].dtype),
      promotes(gemm::promotes(problem)),
      scaling(scaling_of(problem)),
      has_bias(epilogue_of(problem).bias.has_value()) {}

std::optional<std::string> refuses_half_product(const Problem& problem) {
    const Gemm g(problem);
    if (g.in != problem.tensors[1].dtype || (g.in != DType::f16 && g.in != DType::bf16))
        return "it multiplies f16 by f16 or bf16 by bf16";
    if (problem.word("compute") != to_string(g.in)) return "it computes in the type of its inputs";
    if (g.acc_f16 && g.in != DType::f16) return "f16 accumulation is for f16 inputs";
    if (g.out != DType::f16 && g.out != DType::bf16 && g.out != DType::f32) return "it writes f16, bf16 or f32";
    if (std::max({g.m, g.n, g.k, g.batch}) > kMaxExtent) return "an extent does not fit 32-bit indices";
    return std::nullopt;
}

std::optional<std::string> refuses_fp8_product(const Problem& problem) {
    const Gemm g(problem);
    if (!is_fp8(g.in) || !is_fp8(problem.tensors[kB].dtype)) return "it multiplies fp8: e4m3 and e5m2";
    if (g.trans_a || !g.trans_b) return "it takes operands that lie along K: layout nt";
    if (std::max({g.m, g.n, g.k, g.batch}) > kMaxExtent) return "an extent does not fit 32-bit indices";
    return std::nullopt;
}

std::vector<Binding> fp8_facts(const Problem& problem) {
    const Gemm g(problem);
    std::vector<Binding> all = {{"a_type", g.in},
                                {"b_type", problem.tensors[kB].dtype},
                                {"out_type", g.out},
                                {"promotes", g.promotes ? 1 : 0},
                                {"scale_mode", static_cast<int64_t>(g.scaling)},
                                {"align_a", g.align_a},
                                {"align_b", g.align_b},
                                {"align_c", g.align_c},
                                {"reads_c", g.reads_c ? 1 : 0}};
    for (Binding& binding : epilogue_facts(problem)) all.push_back(std::move(binding));
    return all;
}

I32Arg i32(int64_t value) {
    return {narrow<std::int32_t>(value)};
}

Dim3 one_dimension(int64_t count) {
    return {narrow<std::uint32_t>(count), 1, 1};
}

std::size_t WorkspaceLayout::take(int64_t bytes) {
    const std::size_t at = bytes_;
    bytes_ += static_cast<std::size_t>(round_up(bytes, 256));
    return at;
}

int64_t BlockOrder::group(const Gemm& g) const {
    const int64_t block = raster != 0 ? block_m : block_n;
    const int64_t across = ceil_div(raster != 0 ? g.m : g.n, block);
    return swizzle_stride == 0 ? across : std::clamp<int64_t>(swizzle_stride / block, 1, across);
}

bool BlockOrder::is_proper(const Gemm& g) const {
    const int64_t block = raster != 0 ? block_m : block_n;
    return swizzle_stride == 0 || (swizzle_stride >= 2 * block && swizzle_stride < (raster != 0 ? g.m : g.n));
}

int64_t registers_allowed(const DeviceLimits& limits, int64_t threads, int64_t min_blocks) {
    return std::min<int64_t>(255, limits.registers_per_sm / (threads * min_blocks) / 8 * 8);
}

int64_t blocks_per_sm(const DeviceLimits& limits, int64_t smem_bytes, int64_t threads, int64_t registers) {
    const int64_t reserved = 1024;  // shared memory that the system reserves for each block
    const int64_t block_registers = round_up(registers, 8) * threads;
    return std::max<int64_t>(
        1, std::min({limits.smem_per_sm_bytes / (smem_bytes + reserved), limits.registers_per_sm / block_registers,
                     limits.threads_per_sm / threads, static_cast<int64_t>(limits.blocks_per_sm)}));
}

int64_t usable_sms(const Device& device, int64_t cluster_size) {
    const int64_t sms = device.identity.sm_count;
    if (cluster_size <= 2) return sms;
    const int64_t unusable = cluster_size == 6 ? 30 : 12;
    return std::max<int64_t>(1, (sms - unusable) / (cluster_size + cluster_size % 2)) * cluster_size;
}

bool DefaultChoice::offer(const Config& config, double predicted_us) {
    if (!wants(predicted_us) || !space_.contains(config)) return false;
    best_ = config;
    best_us_ = predicted_us;
    return true;
}

Config DefaultChoice::choose() const {
    if (best_) return *best_;
    const std::vector<Config> first = space_.enumerate({}, 1);
    return first.empty() ? Config{} : first.front();
}

namespace {

int64_t chunk_elements(const TypedMatrix& matrix) {
    return kChunkBytes / static_cast<int64_t>(size_bytes(matrix.dtype));
}

}  // namespace

double ragged(const Gemm& g, std::int64_t tile_m, std::int64_t tile_n) {
    const std::int64_t side = std::min(g.m, g.n), tile = g.m <= g.n ? tile_m : tile_n;
    const std::int64_t others = ceil_div(side, tile) - 1;
    if (others < 1) return 0.0;
    const double lacking = 1.0 - static_cast<double>(side - others * tile) / static_cast<double>(tile);
    return lacking / static_cast<double>(others);
}

double shared_sectors(const Gemm& g, std::int64_t columns) {
    if (columns >= g.n) return 0.0;
    constexpr int64_t kSector = 32;
    const int64_t row = g.n * g.out_bytes(), tile = columns * g.out_bytes();
    return static_cast<double>(kSector - std::gcd(std::gcd(row, tile), kSector)) / static_cast<double>(tile);
}

double concurrent_requests_per_line(const Gemm& g, bool swap_ab, double loads_along_m, double loads_along_n) {
    const bool x_along_k = swap_ab ? g.trans_b : !g.trans_a, y_along_k = swap_ab ? !g.trans_a : g.trans_b;
    const int64_t rows = swap_ab ? g.n : g.m, columns = swap_ab ? g.m : g.n;
    const auto rows_of_a_line = [&](bool along_k, int64_t extent) {
        return along_k ? 1.0 : std::max(1.0, 128.0 / static_cast<double>(extent * g.in_bytes()));
    };
    return std::max(rows_of_a_line(x_along_k, rows) * loads_along_n, rows_of_a_line(y_along_k, columns) * loads_along_m);
}

double line_requests_by_tiles(const Gemm& g, int64_t block_m, int64_t block_n, double running) {
    const auto along_m = static_cast<double>(ceil_div(g.m, block_m)), along_n = static_cast<double>(ceil_div(g.n, block_n));
    return std::min(concurrent_requests_per_line(g, false, along_m, along_n), 8.0 * running);
}

int64_t packed_ld(const TypedMatrix& matrix) {
    return round_up(matrix.cols, chunk_elements(matrix));
}

int64_t packed_bytes(const TypedMatrix& matrix) {
    return matrix.rows * packed_ld(matrix) * matrix.batch * static_cast<int64_t>(size_bytes(matrix.dtype));
}

LaunchStep pack_step(const TypedMatrix& matrix, int index, std::size_t offset_bytes) {
    const int64_t ld = packed_ld(matrix);
    const int64_t chunks = ld / chunk_elements(matrix) * matrix.rows * matrix.batch;
    LaunchStep step;
    step.entry = "_pack";
    step.grid = one_dimension(std::clamp<int64_t>(ceil_div(chunks, 256), 1, 65535));
    step.block = {256, 1, 1};
    step.arguments = {TensorArg{index},  WorkspaceArg{offset_bytes}, i32(matrix.rows),
                      i32(matrix.cols),  I64Arg{matrix.ld},          I64Arg{ld},
                      i32(matrix.batch), I64Arg{matrix.batch_stride}};
    return step;
}

}  // namespace autotune::gemm
