#include <array>
#include <cmath>
#include <cstring>

#include "tests/support/fake/call_log.h"
#include "tests/support/fake/driver/pending.h"
#include "tests/support/fake/kernels/elements.h"

namespace autotune::fake {
namespace {

bool reads_only_its_own(const GemmView& g) {
    const std::size_t in = size_bytes(type_of(g.in_type));
    const std::size_t out = size_bytes(type_of(g.out_type));
    const StoredSpans spans = stored_spans(g);
    return is_mapped(g.a, spans.a, in) && is_mapped(g.b, spans.b, in) && (g.c == 0 || is_mapped(g.c, spans.c, out));
}

// A and B of one batch, dense and in the layout of the formula: rows of A, columns of B.
struct Dense {
    std::vector<float> a, b;
};

Dense gather(const GemmView& g, std::int64_t batch) {
    const DType type = type_of(g.in_type);
    Dense dense;
    dense.a.reserve(static_cast<std::size_t>(g.m * g.k));
    dense.b.reserve(static_cast<std::size_t>(g.n * g.k));
    const std::int64_t from_a = batch * g.stride_a;
    const std::int64_t from_b = batch * g.stride_b;
    for (std::int64_t i = 0; i < g.m; ++i) {
        for (std::int64_t k = 0; k < g.k; ++k) {
            dense.a.push_back(static_cast<float>(load(g.a, type, from_a + (g.trans_a ? k * g.lda + i : i * g.lda + k))));
        }
    }
    for (std::int64_t j = 0; j < g.n; ++j) {
        for (std::int64_t k = 0; k < g.k; ++k) {
            dense.b.push_back(static_cast<float>(load(g.b, type, from_b + (g.trans_b ? j * g.ldb + k : k * g.ldb + j))));
        }
    }
    return dense;
}

const float* row(const std::vector<float>& values, std::int64_t index, std::int64_t length) {
    return values.data() + index * length;
}

// Several columns are summed together along K: these sums take most of the time of a test on the scripted driver, and a single
// sum would wait for each of its additions.
constexpr std::int64_t kTogether = 8;
using Together = std::array<float, kTogether>;

// For each group of kTogether columns of B, their values at every k. They are zero after the last column.
std::vector<Together> columns_together(const std::vector<float>& b, std::int64_t n, std::int64_t k) {
    std::vector<Together> together(static_cast<std::size_t>((n + kTogether - 1) / kTogether * k));
    for (std::int64_t j = 0; j < n; ++j)
        for (std::int64_t at = 0; at < k; ++at)
            together[static_cast<std::size_t>(j / kTogether * k + at)][static_cast<std::size_t>(j % kTogether)] =
                row(b, j, k)[at];
    return together;
}

Together sums_of(const float* a, const Together* columns, std::int64_t k) {
    Together sums{};
    for (std::int64_t at = 0; at < k; ++at)
        for (std::size_t i = 0; i < kTogether; ++i) sums[i] += a[at] * columns[at][i];
    return sums;
}

Output output_of(const GemmView& g) {
    return {g.c, type_of(g.out_type), g.m, g.n, g.ldc, g.batch, g.stride_c, g.a};
}

// Kernels fed by TMA get the addresses of A and B through maps, which are map_a and map_b, or map_x and map_y, which swap_ab
// exchanges.
void take_tensor_maps(const Launch& launch, GemmView& g) {
    const auto size = static_cast<std::int64_t>(size_bytes(type_of(g.in_type)));
    const bool swaps = launch.function->library->program.integer("swap_ab", 0) != 0;
    const auto take = [&](const char* name, Address& address, std::int64_t& ld, std::int64_t& stride) {
        const auto found = launch.tensor_maps.find(name);
        if (found == launch.tensor_maps.end()) return;
        address = found->second.address;
        ld = found->second.row_bytes / size;
        stride = found->second.batch_bytes / size;
    };
    take("map_a", g.a, g.lda, g.stride_a);
    take("map_b", g.b, g.ldb, g.stride_b);
    take(swaps ? "map_y" : "map_x", g.a, g.lda, g.stride_a);
    take(swaps ? "map_x" : "map_y", g.b, g.ldb, g.stride_b);
    // If neither operand lies along K, such kernels use a transposed copy in the workspace as map_y.
    const bool arranges = launch.function->library->program.symbol.rfind("gemm_wgmma_tf32", 0) == 0;
    if (arranges && g.trans_a && !g.trans_b) (swaps ? g.trans_a : g.trans_b) = !swaps;
}

}  // namespace

StoredSpans stored_spans(const GemmView& g) {
    const std::int64_t rows_a = g.trans_a ? g.k : g.m;
    const std::int64_t rows_b = g.trans_b ? g.n : g.k;
    return {span(rows_a, g.m + g.k - rows_a, g.lda, g.batch, g.stride_a),
            span(rows_b, g.n + g.k - rows_b, g.ldb, g.batch, g.stride_b), span(g.m, g.n, g.ldc, g.batch, g.stride_c)};
}

namespace {

// Writes the elements that are shown to people, for a result that is too large to compute.
void write_samples(const GemmView& g) {
    const DType in = type_of(g.in_type);
    const DType out = type_of(g.out_type);
    const auto write = [&](std::int64_t batch, std::int64_t i, std::int64_t j) {
        double sum = 0;
        for (std::int64_t k = 0; k < g.k; ++k) {
            sum += load(g.a, in, batch * g.stride_a + (g.trans_a ? k * g.lda + i : i * g.lda + k)) *
                   load(g.b, in, batch * g.stride_b + (g.trans_b ? j * g.ldb + k : k * g.ldb + j));
        }
        const std::int64_t at = batch * g.stride_c + i * g.ldc + j;
        const double added = g.beta == 0 ? 0 : static_cast<double>(g.beta) * load(g.c, out, at);
        store(g.c, out, at, static_cast<double>(g.alpha) * sum + added);
    };
    write(0, 0, 0);
    write(g.batch - 1, g.m - 1, g.n - 1);
}

}  // namespace

void multiply(const GemmView& g) {
    const DType out = type_of(g.out_type);
    for (std::int64_t batch = 0; batch < g.batch; ++batch) {
        const Dense dense = gather(g, batch);
        const std::vector<Together> columns = columns_together(dense.b, g.n, g.k);
        for (std::int64_t i = 0; i < g.m; ++i) {
            const float* a = row(dense.a, i, g.k);
            Together sums{};
            for (std::int64_t j = 0; j < g.n; ++j) {
                if (j % kTogether == 0) sums = sums_of(a, &columns[static_cast<std::size_t>(j / kTogether * g.k)], g.k);
                const float sum = sums[static_cast<std::size_t>(j % kTogether)];
                const std::int64_t at = batch * g.stride_c + i * g.ldc + j;
                const double added = g.beta == 0 ? 0 : static_cast<double>(g.beta) * load(g.c, out, at);
                store(g.c, out, at, static_cast<double>(g.alpha) * static_cast<double>(sum) + added);
            }
        }
    }
}

std::optional<GemmView> gemm_view(const Launch& launch) {
    const Program& program = launch.function->library->program;
    const bool is_main = launch.function->kernel->symbol == program.symbol;
    if (!is_main || program.symbol.rfind("gemm_", 0) != 0) return std::nullopt;
    GemmView g;
    g.is_reference = program.symbol.rfind("gemm_reference", 0) == 0;
    g.a = launch.raw("a").value_or(0);
    g.b = launch.raw("b").value_or(0);
    g.c = launch.raw("c").value_or(0);
    g.alpha = launch.f32("alpha", 1);
    g.beta = launch.f32("beta", 0);
    g.m = launch.integer("m", 0);
    g.n = launch.integer("n", 0);
    g.k = launch.integer("k", 0);
    g.trans_a = program.integer("trans_a", 0) != 0;
    const bool is_fp8 = program.symbol.find("_fp8") != std::string::npos;  // these families have one layout, nt
    g.trans_b = program.integer("trans_b", is_fp8 ? 1 : 0) != 0;
    // Without this parameter there is one block per batch.
    g.batch = launch.integer("batch", static_cast<long>(launch.config.gridDimZ));
    g.lda = launch.integer("lda", 0);
    g.ldb = launch.integer("ldb", 0);
    g.ldc = launch.integer("ldc", g.n);
    g.stride_a = launch.integer("stride_a", 0);
    g.stride_b = launch.integer("stride_b", 0);
    g.stride_c = launch.integer("stride_c", g.m * g.ldc);
    g.in_type = program.word("in_type", program.word("a_type", "f16"));  // A reference's operands may have different types
    g.out_type = program.word("out_type", "f16");
    take_tensor_maps(launch, g);
    if (g.is_reference && launch.words.size() > 10) {
        g.expected = launch.words[3];
        g.bound = launch.words[4];
        std::array<float*, 4> terms{&g.norm, &g.value, &g.input, &g.floor};
        for (std::size_t i = 0; i < terms.size(); ++i) {
            const auto bits = static_cast<std::uint32_t>(launch.words[7 + i]);
            std::memcpy(terms[i], &bits, sizeof(bits));
        }
    }
    return g;
}

CUresult compute_gemm(const GemmView& g, const Effects& effects) {
    if (g.c == 0 || !reads_only_its_own(g)) {
        log_call("BUG a gemm's operand lies outside device memory");
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (effects.out_of_bounds_bytes > 0) {
        if (const CUresult result = write_behind(output_of(g), effects.out_of_bounds_bytes); result != CUDA_SUCCESS)
            return result;
    }
    skipped().wrong.erase(g.c);
    if (!g.is_small()) {
        write_samples(g);
        if (!effects.wrong.empty()) skipped().wrong.insert(g.c);
        return CUDA_SUCCESS;
    }
    Pending::get().add(g);
    if (effects.wrong.empty()) return CUDA_SUCCESS;
    Pending::get().touch(g.c, 1);
    spoil(output_of(g), effects);
    return CUDA_SUCCESS;
}

CUresult compute_reference(const GemmView& g) {
    if (!g.is_small()) {
        skipped().answers.insert(g.expected);
        return CUDA_SUCCESS;
    }
    skipped().answers.erase(g.expected);
    const std::int64_t count = g.m * g.n * g.batch;
    if (!reads_only_its_own(g) || !is_mapped(g.expected, count, 8) || !is_mapped(g.bound, count, 8))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    const StoredSpans spans = stored_spans(g);
    const DType out = type_of(g.out_type);
    Pending::get().touch(g.a, static_cast<std::size_t>(spans.a) * size_bytes(type_of(g.in_type)));
    Pending::get().touch(g.b, static_cast<std::size_t>(spans.b) * size_bytes(type_of(g.in_type)));
    Pending::get().touch(g.c, static_cast<std::size_t>(spans.c) * size_bytes(out));
    auto* expected = reinterpret_cast<double*>(g.expected);
    auto* bound = reinterpret_cast<double*>(g.bound);
    for (std::int64_t batch = 0; batch < g.batch; ++batch) {
        const Dense dense = gather(g, batch);
        for (std::int64_t i = 0; i < g.m; ++i) {
            for (std::int64_t j = 0; j < g.n; ++j) {
                double sum = 0;
                double squares = 0;
                for (std::int64_t k = 0; k < g.k; ++k) {
                    const double term =
                        static_cast<double>(row(dense.a, i, g.k)[k]) * static_cast<double>(row(dense.b, j, g.k)[k]);
                    sum += term;
                    squares += term * term;
                }
                const double alpha = static_cast<double>(g.alpha);
                const double added =
                    g.beta == 0 ? 0 : static_cast<double>(g.beta) * load(g.c, out, batch * g.stride_c + i * g.ldc + j);
                const double value = alpha * sum + added;
                *expected++ = value;
                *bound++ = static_cast<double>(g.norm) * std::fabs(alpha) * std::sqrt(squares) +
                           static_cast<double>(g.value) * std::fabs(value) + static_cast<double>(g.input) * std::fabs(added) +
                           static_cast<double>(g.floor);
            }
        }
    }
    return CUDA_SUCCESS;
}

std::optional<CUresult> compute_copy(const Launch& launch) {
    const std::string& symbol = launch.function->kernel->symbol;
    if (symbol.find("_pack") == std::string::npos && symbol.find("_arrange") == std::string::npos) return std::nullopt;
    const std::int64_t rows = launch.integer("rows", 0);
    const std::int64_t cols = launch.integer("cols", 0);
    const std::int64_t batch = launch.integer("batch", 1);
    const std::int64_t ld = launch.integer("ld", cols);
    const bool transposes = launch.integer("transposes", 0) != 0;
    const std::int64_t rows_to = transposes ? cols : rows, cols_to = transposes ? rows : cols;
    const std::int64_t ld_to = launch.integer("packed_ld", launch.integer("ld_packed", launch.integer("ld_to", cols_to)));
    const std::int64_t stride = launch.integer("stride", 0);
    const std::int64_t stride_to = launch.integer("packed_stride", rows_to * ld_to);
    if (rows * cols * batch > kMostProducts) return CUDA_SUCCESS;
    const auto size = static_cast<std::int64_t>(size_bytes(type_of(launch.function->library->program.word("in_type", "f16"))));
    const Address from = launch.raw("from").value_or(0);
    const Address to = launch.raw("to").value_or(0);
    const auto bytes = static_cast<std::size_t>(size);
    if (!is_mapped(from, span(rows, cols, ld, batch, stride), bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!is_mapped(to, span(rows_to, cols_to, ld_to, batch, stride_to), bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    Pending::get().touch(from, static_cast<std::size_t>(span(rows, cols, ld, batch, stride)) * bytes);
    Pending::get().touch(to, static_cast<std::size_t>(span(rows_to, cols_to, ld_to, batch, stride_to)) * bytes);
    for (std::int64_t i = 0; i < rows * batch; ++i) {
        for (std::int64_t j = 0; j < cols; ++j) {
            const std::int64_t source = i / rows * stride + i % rows * ld + j;
            const std::int64_t target = i / rows * stride_to + (transposes ? j * ld_to + i % rows : i % rows * ld_to + j);
            std::memcpy(reinterpret_cast<std::byte*>(to) + target * size,
                        reinterpret_cast<const std::byte*>(from) + source * size, bytes);
        }
    }
    return CUDA_SUCCESS;
}

}  // namespace autotune::fake
