// Runs every family of every op on edge-case problems and compares it with the op's reference, in full: exact and numeric tests,
// red zones, unwritten elements, unchanged inputs, the same bits twice. Configs: the default, a few named ones and a seeded
// sample of the space; and every named config on problems of its own.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "src/gpu/nvrtc.h"
#include "tests/conformance/compile_together.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/nvrtc_for_tests.h"
#include "tuner/fixture/problem_fixture.h"
#include "tuner/verify/verifier.h"

namespace autotune::test {
namespace {

using Requests = std::vector<ProblemRequest>;

// The candidates for one problem.
struct Group {
    Problem problem;
    std::vector<Config> configs;
};

int env_int(const char* name, int fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::atoi(text);
}

// AUTOTUNE_CONFORMANCE_PART=I/N selects the problems of part I of N, counted from 0.
bool is_of_part(std::size_t problem) {
    const char* text = std::getenv("AUTOTUNE_CONFORMANCE_PART");
    std::size_t part = 0, parts = 1;
    if (text != nullptr) check(std::sscanf(text, "%zu/%zu", &part, &parts) == 2 && part < parts, "a part is I/N, with I < N");
    return problem % parts == part;
}

ProblemRequest gemm(const std::string& shape, std::map<std::string, std::string> options) {
    return {"gemm", shape, std::move(options)};
}

// Problems that are aligned, have tails in every extent, or have nothing aligned; one row, one column, K shorter than a tile,
// padded rows, batches, alpha and beta.
Requests gemm_requests() {
    Requests all;
    for (const std::string dtype : {"f16", "bf16"}) {
        for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
            all.push_back(gemm("256x384x512", {{"dtype", dtype}, {"layout", layout}}));
            all.push_back(gemm("264x136x1032", {{"dtype", dtype}, {"layout", layout}, {"beta", "0.5"}, {"alpha", "0.75"}}));
            all.push_back(gemm("129x257x131", {{"dtype", dtype}, {"layout", layout}}));
        }
    }
    for (const std::string layout : {"nn", "nt"}) {
        for (const std::string shape : {"1x1x1", "1x4096x256", "333x1x77", "17x65x9", "16x1024x4096", "130x2x258", "64x64x8192"})
            all.push_back(gemm(shape, {{"dtype", "f16"}, {"layout", layout}}));
        all.push_back(gemm("100x72x200", {{"dtype", "f16"}, {"layout", layout}, {"lda", "208"}, {"ldb", "216"}, {"ldc", "80"}}));
        all.push_back(
            gemm("65x67x69", {{"dtype", "f16"}, {"layout", layout}, {"lda", "71"}, {"ldb", "73"}, {"ldc", "75"}, {"beta", "1"}}));
        // The rows are aligned, and their last 16 bytes contain elements beyond the matrix, which no kernel may write.
        all.push_back(
            gemm("131x177x140", {{"dtype", "f16"}, {"layout", layout}, {"lda", "144"}, {"ldb", "184"}, {"ldc", "184"}}));
        all.push_back(gemm("384x500x2048",
                           {{"dtype", "bf16"}, {"layout", layout}, {"ldb", layout == "nn" ? "504" : "2048"}, {"ldc", "504"}}));
        all.push_back(gemm("512x512x4096", {{"dtype", "f16"}, {"layout", layout}}));
        all.push_back(gemm("128x96x160", {{"dtype", "f16"}, {"layout", layout}, {"batch", "3"}}));
        for (const std::string shape :
             {"192x264x320", "129x257x131", "16x1024x4096", "130x2x258", "512x512x4096", "2048x1536x1024"})
            all.push_back(gemm(shape, {{"dtype", "f16"}, {"layout", layout}, {"acc", "f16"}}));
        all.push_back(
            gemm("264x136x1032",
                 {{"dtype", "f16"}, {"layout", layout}, {"acc", "f16"}, {"beta", "0.5"}, {"alpha", "0.75"}, {"batch", "2"}}));
        all.push_back(gemm("2048x1536x1024", {{"dtype", "f16"}, {"layout", layout}}));
        // These problems have a beta that is not zero. They cover every way to divide a product and to store it.
        for (const std::string shape : {"2048x1536x1024", "512x512x4096", "24x1024x4096", "1032x517x2049", "1333x24x328"})
            all.push_back(gemm(shape, {{"dtype", "bf16"}, {"layout", layout}, {"beta", "-1.25"}, {"alpha", "0.5"}}));
        all.push_back(gemm("384x500x2048", {{"dtype", "f16"},
                                            {"layout", layout},
                                            {"ldb", layout == "nn" ? "504" : "2048"},
                                            {"ldc", "504"},
                                            {"batch", "2"},
                                            {"beta", "0.5"}}));
    }
    return all;
}

// The same problems for f32 operands, in each compute type.
Requests f32_gemm_requests() {
    Requests all;
    for (const std::string op : {"sgemm", "tf32gemm", "sgemm_tc"}) {
        for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
            all.push_back({op, "256x384x512", {{"layout", layout}}});
            all.push_back({op, "264x136x1032", {{"layout", layout}, {"beta", "0.5"}, {"alpha", "0.75"}}});
            all.push_back({op, "129x257x131", {{"layout", layout}}});
            all.push_back({op, "66x70x34", {{"layout", layout}, {"align", "8"}, {"batch", "3"}, {"beta", "1"}}});
        }
        for (const std::string layout : {"nn", "nt"}) {
            for (const std::string shape : {"1x1x1", "333x1x77", "17x65x9", "16x1024x4096", "64x64x8192"})
                all.push_back({op, shape, {{"layout", layout}}});
            all.push_back({op, "100x72x200", {{"layout", layout}, {"lda", "208"}, {"ldb", "216"}, {"ldc", "80"}}});
            all.push_back({op, "65x67x69", {{"layout", layout}, {"lda", "71"}, {"ldb", "73"}, {"ldc", "75"}, {"beta", "1"}}});
            all.push_back({op, "1024x768x512", {{"layout", layout}}});
        }
    }
    // tf32x3 does not split shorter sums.
    for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
        all.push_back({"sgemm_tc", "129x257x387", {{"layout", layout}}});
        all.push_back({"sgemm_tc", "66x70x290", {{"layout", layout}, {"align", "8"}, {"batch", "3"}, {"beta", "1"}}});
        all.push_back(
            {"sgemm_tc", "65x67x325", {{"layout", layout}, {"lda", "327"}, {"ldb", "329"}, {"ldc", "75"}, {"beta", "1"}}});
        all.push_back({"sgemm_tc", "1x1x257", {{"layout", layout}}});
    }
    return all;
}

// fp8 problems with both accumulators, every kind of scale and every type of C, rows that are not aligned, few rows, and long K.
Requests fp8_gemm_requests() {
    const std::string fast = "f32fast";
    Requests all;
    for (const std::string scale : {"none", "tensor", "row", "block"}) {
        for (const std::string acc : {"f32", "f32fast"}) {
            if (scale == "block" && acc == fast) continue;
            all.push_back({"fp8gemm", "256x384x512", {{"acc", acc}, {"scale", scale}}});
            all.push_back(
                {"fp8gemm", "264x136x1040", {{"acc", acc}, {"scale", scale}, {"c", "f16"}, {"beta", "0.5"}, {"alpha", "0.75"}}});
            all.push_back({"fp8gemm", "129x257x131", {{"acc", acc}, {"scale", scale}, {"c", "f32"}, {"align", "1,1,4"}}});
            all.push_back({"fp8gemm", "16x1024x4096", {{"acc", acc}, {"scale", scale}}});
            all.push_back({"fp8gemm", "100x72x208", {{"acc", acc}, {"scale", scale}, {"batch", "3"}}});
            all.push_back({"fp8gemm", "1024x768x512", {{"acc", acc}, {"scale", scale}}});
        }
    }
    for (const std::string shape : {"1x1x1", "1x4096x256", "17x65x16", "64x64x4096", "2048x1536x1024"})
        all.push_back({"fp8gemm", shape, {{"acc", fast}, {"c", "f16"}}});
    all.push_back({"fp8gemm", "300x520x640", {{"a", "e5m2"}, {"scale", "tensor"}}});
    all.push_back({"fp8gemm", "300x520x640", {{"b", "e5m2"}, {"acc", fast}, {"lda", "656"}, {"ldb", "672"}, {"ldc", "528"}}});
    return all;
}

// Problems from one element up to several waves of the GPU, with and without tails, with every alignment, and with operands of
// different alignments.
Requests add_requests() {
    Requests all = {{"hadd", "16777219", {}}, {"sadd", "4096x1024", {}}};
    for (const std::string op : {"sadd", "hadd", "badd"}) {
        for (const std::string shape : {"1", "7", "8", "255", "65536", "1000003", "513x1027"}) all.push_back({op, shape, {}});
        for (const std::string align : {"8", "4", "16,8,4", "4,16,16"}) all.push_back({op, "300007", {{"align", align}}});
    }
    for (const std::string align : {"2", "2,16,4"}) {
        all.push_back({"hadd", "300007", {{"align", align}}});
        all.push_back({"badd", "70001", {{"align", align}}});
    }
    return all;
}

// Problems from one element up to the longest row, and from one row up to more than fill the GPU. They cover every width of
// access, gaps between rows, scales of either sign, and both forms with respect to the second output.
Requests softmax_requests() {
    Requests all;
    for (const std::string dtype : {"bf16", "f16", "f32"}) {
        for (const std::string shape :
             {"1x1", "1x7", "5x64", "1000x64", "129x1000", "70x4096", "33x32768", "3x131072", "2000x333"})
            all.push_back({"softmax", shape, {{"dtype", dtype}, {"lse", "yes"}}});
        all.push_back({"softmax", "257x1001", {{"dtype", dtype}, {"scale", "0.125"}}});
        all.push_back({"softmax", "65x1024", {{"dtype", dtype}, {"scale", "-3"}, {"lse", "yes"}}});
        all.push_back({"softmax", "77x136", {{"dtype", dtype}, {"ldx", "144"}, {"ldy", "160"}, {"lse", "yes"}}});
        all.push_back({"softmax", "77x132", {{"dtype", dtype}, {"align", "4"}}});
    }
    all.push_back({"softmax", "2x1048576", {{"dtype", "f32"}, {"lse", "yes"}}});
    all.push_back({"softmax", "77x132", {{"dtype", "f16"}, {"align", "8,2"}}});
    return all;
}

ProblemRequest attention(const std::string& shape, std::map<std::string, std::string> options) {
    return {"attention", shape, std::move(options)};
}

// Problems from one query up to more than a tile. They cover different lengths, rows without a key, heads that share keys, every
// mask, head sizes that are no multiple of a step, rows outside heads, and small alignments.
Requests attention_requests() {
    Requests all;
    for (const std::string dtype : {"bf16", "f16", "f32"}) {
        const auto add = [&](const std::string& shape, std::map<std::string, std::string> options) {
            options["dtype"] = dtype;
            options.emplace("lse", "yes");
            all.push_back(attention(shape, std::move(options)));
        };
        for (const std::string d : {"64", "128"}) {
            add("2x3x257x" + d, {});
            add("1x4x300x" + d, {{"mask", "causal"}, {"kv-heads", "2"}, {"kv-len", "411"}});
            add("2x2x333x" + d, {{"mask", "causal_bottom_right"}, {"kv-len", "190"}, {"order", "bshd"}});
            add("1x3x270x" + d, {{"mask", "window"}, {"left", "77"}, {"right", "5"}, {"kv-heads", "1"}});
            add("1x2x1x" + d, {{"kv-len", "1"}});
            add("1x8x1x" + d, {{"kv-len", "1000"}, {"kv-heads", "2"}});
        }
        add("1x2x130x96", {{"mask", "causal"}});
        add("1x2x100x192", {{"dv", "128"}, {"mask", "causal"}, {"lse", "no"}});
        add("1x2x140x256", {{"mask", "window_bottom_right"}, {"left", "40"}, {"right", "3"}, {"kv-len", "100"}});
        add("1x2x77x40", {{"align", "4"}, {"scale", "0.5"}});
        add("1x2x190x8", {{"dv", "72"}, {"kv-len", "65"}});
    }
    all.push_back(attention("1x2x99x64", {{"dtype", "f16"}, {"align", "2,16,8,4"}}));
    all.push_back(attention("1x2x200x64", {{"dtype", "f32"}, {"compute", "tf32"}, {"mask", "causal"}}));
    return all;
}

// Packed sequences of different lengths, some of them empty, with tails in each, heads that share keys, every mask and both
// orders.
Requests packed_requests() {
    Requests all;
    for (const std::string dtype : {"bf16", "f16", "f32"}) {
        const auto add = [&](const std::string& shape, std::map<std::string, std::string> options) {
            options.insert({{"dtype", dtype}, {"packed", "yes"}});
            options.emplace("lse", "yes");
            all.push_back(attention(shape, std::move(options)));
        };
        for (const std::string d : {"64", "128"}) {
            add("4x4x237x" + d, {{"kv-heads", "2"}, {"kv-len", "360"}});
            add("7x2x300x" + d, {{"mask", "causal"}, {"order", "bhsd"}});
            add("3x3x250x" + d, {{"mask", "causal_bottom_right"}, {"kv-len", "410"}, {"total-kv", "500"}});
        }
        add("3x3x330x64", {{"mask", "window"}, {"left", "90"}, {"right", "20"}, {"kv-len", "400"}, {"kv-heads", "1"}});
        add("5x2x140x96", {{"mask", "window_bottom_right"}, {"left", "30"}, {"kv-len", "170"}, {"lse", "no"}});
        add("7x2x3x64", {{"total-q", "5"}, {"total-kv", "4"}});  // some are empty
    }
    return all;
}

// Problems for the gradients of attention.
Requests attention_bwd_requests() {
    Requests all;
    for (const std::string dtype : {"bf16", "f16", "f32"}) {
        const auto add = [&](const std::string& shape, std::map<std::string, std::string> options) {
            options["dtype"] = dtype;
            all.push_back({"attention_bwd", shape, std::move(options)});
        };
        for (const std::string d : {"64", "128"}) {
            add("2x3x257x" + d, {});
            add("1x4x300x" + d, {{"mask", "causal"}, {"kv-heads", "2"}, {"kv-len", "411"}});
            add("2x2x333x" + d, {{"mask", "causal_bottom_right"}, {"kv-len", "190"}, {"order", "bshd"}});
            add("1x3x270x" + d, {{"mask", "window"}, {"left", "77"}, {"right", "5"}, {"kv-heads", "1"}});
            add("1x2x1x" + d, {{"kv-len", "90"}});
        }
        add("1x2x130x96", {{"mask", "causal"}});
        add("1x2x77x40", {{"align", "4"}, {"scale", "0.5"}});
        add("1x2x100x128", {{"dv", "72"}, {"kv-len", "65"}});
        add("1x2x100x192", {{"dv", "128"}, {"mask", "causal"}});
        add("1x4x140x256",
            {{"mask", "window_bottom_right"}, {"left", "40"}, {"right", "3"}, {"kv-len", "100"}, {"kv-heads", "2"}});
    }
    return all;
}

// Problems with every type of C and of a bias and with each kind of scale. They cover whole tiles, few rows, batches, tails, rows
// that are not aligned, and several tiles.
Requests epilogue_requests() {
    Requests all;
    const std::map<std::string, std::string> of_fp8 = {{"c", "e4m3"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}};
    const auto add = [&](const std::string& shape, std::map<std::string, std::string> options) {
        if (!options.contains("c")) options.insert(of_fp8.begin(), of_fp8.end());
        all.push_back({"fp8gemm", shape, std::move(options)});
    };
    for (const std::string scale : {"none", "tensor", "row", "block"}) {
        const std::string acc = scale == "block" ? "f32" : "f32fast";
        add("1024x784x512", {{"acc", acc}, {"scale", scale}});
        add("16x1024x4096", {{"acc", acc}, {"scale", scale}});
        add("129x257x131", {{"acc", "f32"}, {"scale", scale}, {"align", "1,1,1"}, {"beta", "0.5"}, {"alpha", "0.75"}});
        add("264x136x1040", {{"acc", acc}, {"scale", scale}, {"c", "bf16"}, {"bias", "bf16"}});
        add("100x80x208", {{"acc", acc}, {"scale", scale}, {"c", "e5m2"}, {"bias", "f32"}, {"amax", "yes"}, {"batch", "3"}});
        add("131x258x272", {{"acc", "f32"},
                            {"scale", scale},
                            {"c", "f16"},
                            {"bias", "f16"},
                            {"amax", "yes"},
                            {"beta", "any"},
                            {"align", "16,16,4"}});
        add("200x136x400", {{"acc", acc}, {"scale", scale}, {"c", "f32"}, {"amax", "yes"}});
        add("520x264x400", {{"acc", acc}, {"scale", scale}, {"c", "e4m3"}});
    }
    return all;
}

Requests awkward_requests() {
    Requests all = gemm_requests();
    for (const Requests& more : {f32_gemm_requests(), fp8_gemm_requests(), add_requests(), softmax_requests(),
                                 attention_requests(), attention_bwd_requests()})
        all.insert(all.end(), more.begin(), more.end());
    return all;
}

// Problems for named configs, with every layout and accumulator, aligned and not, with tails in every extent. They are wide
// enough for the widest named panels.
Requests named_requests() {
    Requests all;
    for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
        for (const std::string acc : {"f32", "f16"}) {
            for (const std::string shape : {"264x8200x176", "259x8201x177"})
                all.push_back(gemm(shape, {{"dtype", "f16"}, {"layout", layout}, {"acc", acc}}));
        }
    }
    for (const std::string layout : {"nn", "tt"}) {
        for (const std::string shape : {"260x4100x180", "258x4098x178"})
            all.push_back(gemm(shape, {{"dtype", "f16"}, {"layout", layout}, {"beta", "0.5"}}));
    }
    for (const std::string op : {"sgemm", "tf32gemm", "sgemm_tc"}) {
        for (const std::string layout : {"nn", "nt", "tn", "tt"}) {
            all.push_back({op, "260x4100x260", {{"layout", layout}}});
            all.push_back({op, "259x4099x257", {{"layout", layout}, {"beta", "0.5"}}});
        }
    }
    for (const std::string acc : {"f32", "f32fast"}) {
        all.push_back({"fp8gemm", "264x4104x400", {{"acc", acc}, {"c", "f16"}}});
        all.push_back({"fp8gemm", "259x4099x177", {{"acc", acc}, {"align", "1,1,2"}}});
    }
    all.push_back({"fp8gemm", "264x4104x400", {{"scale", "block"}}});
    for (const std::string op : {"sadd", "hadd", "badd"}) {
        for (const std::string shape : {"1048576", "1048573"}) all.push_back({op, shape, {}});
    }
    for (const std::string dtype : {"bf16", "f16", "f32"}) {
        for (const std::string shape : {"300x2048", "300x8192", "41x20000"})
            all.push_back({"softmax", shape, {{"dtype", dtype}, {"lse", "yes"}}});
        for (const std::string shape : {"1x3x1000x128", "1x3x1000x64"})
            all.push_back(attention(shape, {{"dtype", dtype}, {"mask", "causal"}, {"lse", "yes"}}));
        all.push_back({"attention_bwd", "1x3x500x128", {{"dtype", dtype}, {"mask", "causal"}}});
        all.push_back(attention("3x12x1x128", {{"dtype", dtype}, {"kv-heads", "4"}, {"kv-len", "20000"}, {"lse", "yes"}}));
        all.push_back(
            attention("2x16x7x64", {{"dtype", dtype}, {"kv-heads", "2"}, {"kv-len", "5001"}, {"mask", "causal_bottom_right"}}));
    }
    return all;
}

// The smallest problems on which a block of 128x128 is legal, for compute-sanitizer, which is slow.
Requests small_requests() {
    Requests all;
    for (const std::string layout : {"nn", "tt"}) {
        for (const std::string shape : {"136x136x80", "131x133x77"})
            all.push_back(gemm(shape, {{"dtype", "f16"}, {"layout", layout}, {"beta", "1"}}));
    }
    for (const std::string op : {"sgemm", "tf32gemm", "sgemm_tc"}) {
        for (const std::string layout : {"nn", "tt"}) all.push_back({op, "131x133x257", {{"layout", layout}, {"beta", "1"}}});
    }
    all.push_back({"fp8gemm", "136x136x144", {{"acc", "f32fast"}, {"c", "f16"}}});
    all.push_back({"fp8gemm", "131x133x272", {{"scale", "block"}, {"align", "1,1,2"}}});
    for (const std::string op : {"sadd", "hadd", "badd"}) {
        for (const std::string shape : {"20000", "19997"}) all.push_back({op, shape, {}});
    }
    for (const std::string shape : {"9x2048", "9x2049"}) all.push_back({"softmax", shape, {{"dtype", "f16"}, {"lse", "yes"}}});
    for (const std::string dtype : {"f16", "f32"}) {
        all.push_back(attention("1x2x130x64", {{"dtype", dtype}, {"mask", "causal"}, {"lse", "yes"}}));
        all.push_back({"attention_bwd", "1x2x70x64", {{"dtype", dtype}, {"mask", "causal"}}});
        all.push_back(attention("1x8x1x64", {{"dtype", dtype}, {"kv-heads", "2"}, {"kv-len", "2500"}, {"lse", "yes"}}));
        all.push_back(attention("1x2x65x40", {{"dtype", dtype}, {"mask", "window"}, {"left", "20"}, {"kv-len", "150"}}));
    }
    return all;
}

// All named configs, or only those with different text.
std::vector<Config> named_configs(const SearchSpace& space, bool distinct_texts) {
    std::set<std::string> seen;
    std::vector<Config> chosen;
    for (const NamedConfig& named : space.named) {
        const Config key = distinct_texts ? space.compile_part(named.config) : named.config;
        if (seen.insert(key.to_string()).second) chosen.push_back(named.config);
    }
    return chosen;
}

// Chooses the default, two named configs and a sample. One config of each instance comes first.
std::vector<Config> configs_for(const SearchSpace& space, std::uint64_t seed) {
    std::vector<Config> chosen = {space.default_config};
    std::mt19937_64 random(seed);
    std::vector<NamedConfig> named = space.named;
    std::shuffle(named.begin(), named.end(), random);
    for (std::size_t i = 0; i < std::min<std::size_t>(2, named.size()); ++i) chosen.push_back(named[i].config);
    std::vector<Config> legal = space.enumerate({}, 200'000);
    std::shuffle(legal.begin(), legal.end(), random);
    const auto sample = static_cast<std::size_t>(env_int("AUTOTUNE_CONFORMANCE_SAMPLE", 5));
    chosen.insert(chosen.end(), legal.begin(), legal.begin() + static_cast<std::ptrdiff_t>(std::min(sample, legal.size())));
    return chosen;
}

class Conformance : public GpuTest, public ::testing::WithParamInterface<std::string> {
  protected:
    void SetUp() override {
        GpuTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        nvrtc_ = gpu::Nvrtc::load(test::nvrtc_search());
        target_ = {device().arch(), nvrtc_->version()};
        const jit::Rendered harness = jit::render_harness(catalogue_, target_);
        gpu_ = std::make_unique<tuner::WorkerGpu>(
            tuner::WorkerGpu{driver(), gpu::Context(driver(), 0), gpu::Stream(driver()), device()});
        harness_ = std::make_unique<tuner::Harness>(driver(), library_of(compiled(harness)), gpu_->stream);
    }
    void TearDown() override {
        harness_.reset();
        gpu_.reset();
        GpuTest::TearDown();
    }

    jit::CompileResult compile_now(const jit::Rendered& rendered) const { return jit::compile(*nvrtc_, cache_, rendered); }
    jit::Compiled compiled(const jit::Rendered& rendered) const {
        const jit::CompileResult result = compile_now(rendered);
        if (!result.compiled) throw Error(ErrorCode::compile_failed, result.failure + "\n" + result.log);
        return *result.compiled;
    }
    std::shared_ptr<const gpu::Library> library_of(const jit::Compiled& compiled) const {
        return std::make_shared<const gpu::Library>(driver(), compiled.cubin);
    }

    // `choose` selects the configs of the nth problem from its space. Problems of other ops, and those that the family refuses,
    // are skipped.
    using Choose = std::function<std::vector<Config>(const SearchSpace&, std::size_t)>;
    std::vector<Group> groups(const Family& family, const Requests& requests, const Choose& choose) const {
        std::vector<Group> all;
        std::size_t turn = 0;
        const std::string_view op = family.name().substr(0, family.name().find('/'));
        for (const ProblemRequest& request : requests) {
            const Problem problem = catalogue_.problem(request);
            if (problem.op != op || family.refuses(problem, device())) continue;
            const std::size_t mine = turn++;
            if (is_of_part(mine)) all.push_back({problem, choose(family.space(problem, device()), mine)});
        }
        return all;
    }

    void expect_right(const Family& family, const std::vector<Group>& all) {
        if (all.empty()) GTEST_SKIP() << family.name() << " accepts none of the problems on this device";
        compile_all(family, all);
        for (const Group& group : all) verify_group(family, group);
        std::printf("%s: %zu problems, %d candidates verified, %d rejected by the compiler's report\n", GetParam().c_str(),
                    all.size(), verified_, rejected_);
        EXPECT_GT(verified_, 0);
        EXPECT_GE(verified_, rejected_);  // If most configs of a template spill or serialise, it is broken.
    }

    // All instances and references.
    void compile_all(const Family& family, const std::vector<Group>& all) {
        std::vector<jit::Rendered> wanted;
        for (const Group& group : all) {
            wanted.push_back(jit::render_reference(catalogue_, catalogue_.op_of(group.problem), group.problem, target_));
            const SearchSpace space = family.space(group.problem, device());
            for (const Config& config : group.configs)
                wanted.push_back(jit::render(catalogue_, family, group.problem, space, config, target_));
        }
        results_ = compile_together(*nvrtc_, cache_, wanted);
    }

    // Reports one line per failure. A sticky error ends the test.
    void verify_group(const Family& family, const Group& group) {
        const Op& op = catalogue_.op_of(group.problem);
        const jit::CompileResult& made = results_.at(jit::render_reference(catalogue_, op, group.problem, target_).identity);
        ASSERT_TRUE(made.compiled) << made.failure << "\n" << made.log;
        const jit::Compiled& reference = *made.compiled;
        tuner::ProblemFixture bench(*gpu_, *harness_, op, group.problem, {.timing = false});
        ASSERT_EQ(bench.compute_reference({library_of(reference), reference.symbol}, true), tuner::Reference::full);
        const SearchSpace space = family.space(group.problem, device());
        for (const Config& config : group.configs) {
            const auto& result = results_.at(jit::render(catalogue_, family, group.problem, space, config, target_).identity);
            const std::string what = group.problem.key() + " | " + config.to_string();
            if (!result.compiled) {
                ADD_FAILURE() << "does not compile: " << what << "\n" << result.failure;
                continue;
            }
            if (!result.rejected.empty()) {
                ++rejected_;
                continue;
            }
            try {
                tuner::Runnable runnable = bench.bind({library_of(*result.compiled), result.compiled->symbol},
                                                      family.plan(group.problem, config, device()));
                const tuner::Verification found = tuner::verify_on_device(*harness_, bench, runnable);
                EXPECT_TRUE(found.right) << what << "\n  " << found.detail;
                ++verified_;
            } catch (const gpu::DriverError& error) {
                ADD_FAILURE() << what << "\n  " << error.what();
                if (error.severity() == gpu::Severity::sticky || error.severity() == gpu::Severity::lost) throw;
            }
        }
    }

    Catalogue catalogue_ = Catalogue::embedded();
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    jit::CubinCache cache_{std::getenv("AUTOTUNE_CACHE_DIR") == nullptr ? "" : std::getenv("AUTOTUNE_CACHE_DIR")};
    jit::Target target_;
    std::unique_ptr<tuner::WorkerGpu> gpu_;
    std::unique_ptr<tuner::Harness> harness_;
    std::map<std::string, jit::CompileResult> results_;
    int verified_ = 0, rejected_ = 0;
};

TEST_P(Conformance, AgreesWithTheReferenceOnAwkwardProblems) {
    const Family& family = *catalogue_.find_family(GetParam());
    const auto choose = [](const SearchSpace& space, std::size_t turn) { return configs_for(space, 17 + turn); };
    expect_right(family, groups(family, awkward_requests(), choose));
}

TEST_P(Conformance, EpiloguesOfFp8AgreeWithTheReference) {
    const Family& family = *catalogue_.find_family(GetParam());
    const auto choose = [](const SearchSpace& space, std::size_t turn) { return configs_for(space, 29 + turn); };
    expect_right(family, groups(family, epilogue_requests(), choose));
}

// Names that differ only in the order of blocks are all tried, but only on the first problems.
TEST_P(Conformance, EveryNamedConfigAgreesInAllLayoutsAlignedAndNot) {
    const Family& family = *catalogue_.find_family(GetParam());
    const auto choose = [](const SearchSpace& space, std::size_t turn) { return named_configs(space, turn >= 2); };
    expect_right(family, groups(family, named_requests(), choose));
}

TEST_P(Conformance, NamedConfigsAgreeOnSmallProblems) {
    const Family& family = *catalogue_.find_family(GetParam());
    const auto choose = [](const SearchSpace& space, std::size_t) { return named_configs(space, true); };
    expect_right(family, groups(family, small_requests(), choose));
}

std::vector<std::string> family_names() {
    std::vector<std::string> names;
    const Catalogue catalogue = Catalogue::embedded();
    for (const Family* family : catalogue.families()) names.emplace_back(family->name());
    return names;
}

std::vector<std::string> families_of(const std::string& op) {
    std::vector<std::string> names = family_names();
    std::erase_if(names, [&](const std::string& name) { return !name.starts_with(op + "/"); });
    return names;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& parameter) {
    std::string name = parameter.param;
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Families, Conformance, ::testing::ValuesIn(family_names()), test_name);

class PackedConformance : public Conformance {};

TEST_P(PackedConformance, AgreesWithTheReference) {
    const Family& family = *catalogue_.find_family(GetParam());
    const auto choose = [](const SearchSpace& space, std::size_t turn) { return configs_for(space, 17 + turn); };
    expect_right(family, groups(family, packed_requests(), choose));
}

INSTANTIATE_TEST_SUITE_P(Families, PackedConformance, ::testing::ValuesIn(families_of("attention")), test_name);

}  // namespace
}  // namespace autotune::test
