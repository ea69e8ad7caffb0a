// The hgemm and sgemm variants of tutorials and comparisons. Each row has the named config for one of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/jit/render.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/test_names.h"

namespace autotune::classic_catalogue_test {
namespace {

struct Row {
    const char* variant;
    const char* family;
    std::vector<std::string> names;
    bool is_for_f32_sums = true;  // false if the sums fit into registers only in f16
};

std::vector<std::string> staged(const std::string& before, const std::vector<std::string>& after) {
    std::vector<std::string> names;
    for (const char* stages : {"2", "3", "4", "5"}) {
        for (const std::string& end : after) names.push_back(before + "_stage" + stages + end);
    }
    return names;
}

std::vector<Row> cuda_core_rows() {
    const std::string t4 = "t_4x4_sliced_k_f16x4_pack", t8x4 = "t_8x8_sliced_k_f16x4", t8x8 = "t_8x8_sliced_k_f16x8_pack";
    const std::string k16 = "t_8x8_sliced_k16_f16x8_pack_dbuf", k32 = "t_8x8_sliced_k32_f16x8_pack_dbuf";
    const char* simt = "gemm/simt";
    return {
        {"naive", simt, {"naive"}},
        {"sliced-K through shared memory", simt, {"sliced_k"}},
        {"8x8 thread tile, f16x4, unpacked and packed", simt, {t8x4, t8x4 + "_pack"}},
        {"8x8, f16x4, bank-conflict-free layout, packed or not", simt, {t8x4 + "_bcf", t8x4 + "_pack_bcf"}},
        {"8x8, f16x4, the same with offset", simt, {t8x4 + "_bcf_offset", t8x4 + "_pack_bcf_offset"}},
        {"4x4, f16x4, packed, bcf, with and without offset", simt, {t4 + "_bcf", t4 + "_bcf_offset"}},
        {"8x8, f16x8, packed, bcf, with and without offset", simt, {t8x8 + "_bcf", t8x8 + "_bcf_offset"}},
        {"8x8, f16x8, packed, bcf, double-buffered", simt, {t8x8 + "_bcf_dbuf"}},
        {"8x8, f16x8, packed, double-buffered, K16", simt, {k16, k16 + "_offset", k16 + "_async", k16 + "_async_offset"}},
        {"8x8, f16x8, packed, double-buffered, K32", simt, {k32, k32 + "_offset", k32 + "_async", k32 + "_async_offset"}},
        {"16x8, K32, double-buffered", simt, {"t_16x8_sliced_k32_f16x8_pack_dbuf", "t_16x8_sliced_k32_f16x8_pack_dbuf_async"}}};
}

std::vector<Row> wmma_rows() {
    const std::string m16 = "wmma_m16n16k16", base = m16 + "_mma4x2_warp2x4";
    const std::vector<std::string> orders = {"_dsmem", "_dsmem_swizzle1024", "_dsmem_swizzle2048"};
    const char* wmma = "gemm/wmma";
    return {{"m16n16k16 naive", wmma, {m16 + "_naive"}},
            {"mma4x2", wmma, {m16 + "_mma4x2"}},
            {"mma4x2 + warp2x4", wmma, {base}},
            {"the same, cp.async", wmma, {base + "_async"}},
            {"the same, offset padding", wmma, {base + "_async_offset"}},
            {"the same, double buffer", wmma, {base + "_dbuf_offset", base + "_dbuf_async", base + "_dbuf_async_offset"}},
            {"stages 2..4 in static shared memory",
             wmma,
             {base + "_stage2", base + "_stage3", base + "_stage4", base + "_stage3_swizzle1024", base + "_stage3_swizzle2048"}},
            {"stages 2..5, dsmem, thread-block swizzle", wmma, staged(base, orders)},
            {"mma4x2 + warp4x4, stages", wmma, staged(m16 + "_mma4x2_warp4x4", orders)},
            {"mma4x4 + warp4x4, stages, dsmem, swizzle", wmma, staged(m16 + "_mma4x4_warp4x4", orders), false},
            {"m32n8k16 mma2x4 + warp2x4, double buffer, async", wmma, {"wmma_m32n8k16_mma2x4_warp2x4_dbuf_async"}}};
}

std::vector<Row> mma_rows() {
    const std::string base = "mma_m16n8k16_mma2x4_warp4x4";
    const std::vector<std::string> orders = {"_dsmem", "_dsmem_swizzle1024", "_dsmem_swizzle2048"};
    const char* mma = "gemm/mma";
    return {{"m16n8k16, mma2x4 + warp4x4", mma, {base}},
            {"stages, padding", mma, staged(base, orders)},
            {"stages, XOR shared-memory swizzle", mma, staged(base + "_smem_swizzle", orders)},
            {"x2 in K", mma, staged(base + "x2", orders)},
            {"x2 in K, XOR shared-memory swizzle", mma, staged(base + "x2_smem_swizzle", orders)},
            {"x2 in K, register double buffering", mma, staged(base + "x2_rbuf", orders)},
            {"x2 in K, both", mma, staged(base + "x2_smem_swizzle_rbuf", orders)}};
}

// The f32 rows, grouped by the op whose problems they run.
std::vector<Row> sgemm_rows() {
    const std::string t8 = "t_8x8_sliced_k_f32x4", k16 = "t_8x8_sliced_k16_f32x4_bcf_dbuf";
    const char* simt = "gemm/simt_f32";
    return {{"naive", simt, {"naive"}},
            {"sliced-K through shared memory", simt, {"sliced_k"}},
            {"8x8 thread tile, f32x4", simt, {t8}},
            {"bank-conflict-free layout", simt, {t8 + "_bcf", t8 + "_bcf_offset"}},
            {"double buffer", simt, {t8 + "_bcf_dbuf"}},
            {"K16, double buffer", simt, {k16, k16 + "_offset"}},
            {"K16, double buffer, cp.async", simt, {k16 + "_async", k16 + "_offset_async"}},
            {"warp tiles, 2 to 4 stages",
             simt,
             {"warp_128x128_t_8x8_k8_stage2", "warp_128x256_t_8x16_k8_stage3", "warp_128x256_t_8x16_k8_stage4"}}};
}

std::vector<Row> tf32_rows() {
    const std::string base = "wmma_m16n16k8_mma4x2_warp2x4";
    const std::vector<std::string> orders = {"", "_swizzle1024", "_dsmem", "_dsmem_swizzle1024", "_dsmem_swizzle2048"};
    std::vector<std::string> stages;
    for (const char* count : {"2", "3"}) {
        for (const std::string& end : orders) stages.push_back(base + "_stage" + count + end);
    }
    const char* wmma = "gemm/wmma_tf32";
    return {{"m16n16k8 naive", wmma, {"wmma_m16n16k8_naive"}},
            {"mma4x2", wmma, {"wmma_m16n16k8_mma4x2"}},
            {"mma4x2 + warp2x4", wmma, {base}},
            {"2 and 3 stages, dsmem, swizzle", wmma, stages},
            {"mma.sync m16n8k8, stages, dsmem, swizzle",
             "gemm/mma_tf32",
             {"mma_m16n8k8_128x128x32_warps2x4_stage2_dsmem", "mma_m16n8k8_128x128x32_warps2x4_stage3_dsmem_swizzle1024"}}};
}

std::vector<Row> rows_of(const std::string& op) {
    if (op == "sgemm") return sgemm_rows();
    if (op == "tf32gemm") return tf32_rows();

    std::vector<Row> all = cuda_core_rows();
    for (const Row& row : wmma_rows()) all.push_back(row);
    for (const Row& row : mma_rows()) all.push_back(row);
    return all;
}

class ClassicCatalogue : public testing::TestWithParam<const char*> {
  protected:
    // Returns the rows that are missing or illegal for an op on a device of this architecture, one per line.
    std::string missing(const std::string& op) const {
        const Problem problem = catalogue_.problem({op, "4096x4096x2048", {}});
        const Device device = reference_device(GetParam()).value();
        std::string lines;
        for (const Row& row : rows_of(op)) {
            if (op == "hgemm" && !row.is_for_f32_sums) continue;
            const SearchSpace space = catalogue_.find_family(row.family)->space(problem, device);
            for (const std::string& name : row.names) {
                const bool is_there = std::any_of(space.named.begin(), space.named.end(), [&](const NamedConfig& named) {
                    return named.name == name && space.contains(named.config);
                });
                if (!is_there) lines += std::string(row.variant) + ": " + name + "\n";
            }
        }
        return lines;
    }

    const Catalogue& catalogue_ = test::embedded_catalogue();
};

TEST_P(ClassicCatalogue, EveryRowIsANamedConfigWithF32Accumulation) {
    EXPECT_EQ(missing("hgemm"), "");
}

TEST_P(ClassicCatalogue, EveryRowIsANamedConfigWithF16Accumulation) {
    EXPECT_EQ(missing("hgemm_f16acc"), "");
}

TEST_P(ClassicCatalogue, EveryRowOfF32IsANamedConfig) {
    EXPECT_EQ(missing("sgemm"), "");
    EXPECT_EQ(missing("tf32gemm"), "");
}

INSTANTIATE_TEST_SUITE_P(Architectures, ClassicCatalogue, testing::Values("sm_80", "sm_90a"), test::NamedByParameter());

// A device with 99 KiB of shared memory, which are enough for everything but five stages of the largest tile.
class ClassicCatalogueInLittleMemory : public ClassicCatalogue {};

TEST_P(ClassicCatalogueInLittleMemory, OnlyFiveStagesOf256x256AreMissing) {
    EXPECT_EQ(missing("hgemm"), "");
    std::istringstream lines(missing("hgemm_f16acc"));
    for (std::string line; std::getline(lines, line);)
        EXPECT_NE(line.find("wmma_m16n16k16_mma4x4_warp4x4_stage5"), std::string::npos) << line;
}

INSTANTIATE_TEST_SUITE_P(Architectures, ClassicCatalogueInLittleMemory, testing::Values("sm_86", "sm_89", "sm_120"),
                         test::NamedByParameter());

TEST(ClassicCatalogueTexts, AtLeast40Differ) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Problem problem = catalogue.problem({"hgemm_f16acc", "4096x4096x2048", {}});
    const Device device = reference_device("sm_90a").value();
    std::set<std::string> texts;
    for (const char* name : {"gemm/simt", "gemm/wmma", "gemm/mma"}) {
        const Family& family = *catalogue.find_family(name);
        const SearchSpace space = family.space(problem, device);
        for (const NamedConfig& named : space.named)
            texts.insert(jit::render(catalogue, family, problem, space, named.config, {"sm_90a", "13.0"}).identity);
    }
    EXPECT_GE(texts.size(), 40U);
}

}  // namespace
}  // namespace autotune::classic_catalogue_test
