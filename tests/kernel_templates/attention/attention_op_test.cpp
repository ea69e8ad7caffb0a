#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <string_view>

#include "kernel_templates/attention/op/attention_problem.h"
#include "kernel_templates/harness/fill.h"
#include "src/catalogue/catalogue.h"
#include "src/core/error.h"
#include "tests/kernel_templates/bad_input.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/refusal.h"
#include "tests/support/sanitizer.h"
#include "tests/support/test_names.h"

namespace autotune::attention_op_test {
namespace {

using test::BadInput;
using test::refusal_of;
using ::testing::HasSubstr;
using Options = std::map<std::string, std::string>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const Op& attention_op() {
    const Catalogue& catalogue = test::embedded_catalogue();
    return *catalogue.find_op("attention");
}

Problem parse(const std::string& shape, const Options& options = {}) {
    return attention_op().problem({"attention", shape, options});
}

// ---- problems ----

TEST(AttentionOp, AShapeGivesTheDocumentedKey) {
    EXPECT_EQ(parse("4x16x4096x128", {{"mask", "causal"}, {"kv-heads", "8"}, {"kv-len", "5000"}}).key(),
              "attention dtype=bf16 compute=bf16 mask=causal lse=no order=bhsd dv=128 align=16,16,16,16 4x16x8x4096x5000x128");
    EXPECT_EQ(parse("1x2x3x64", {{"mask", "window"}, {"left", "5"}, {"dtype", "f32"}, {"compute", "tf32"}}).class_key(),
              "attention dtype=f32 compute=tf32 mask=window left=5 right=0 lse=no order=bhsd dv=64 align=16,16,16,16");
}

TEST(AttentionOp, EveryExampleSurvivesTheRoundTripOfItsKey) {
    for (const ProblemRequest& request : attention_op().examples()) {
        const Problem problem = attention_op().problem(request);
        Options options;
        for (const Attribute& attribute : problem.attributes) options[attribute.name] = to_string(attribute.value);
        EXPECT_EQ(attention_op().problem({"attention", problem.shape(), options}).key(), problem.key());
        EXPECT_EQ(attention::make_problem(attention::spec_of(problem)).key(), problem.key());
    }
}

TEST(AttentionOp, PackedSequencesLieInTheRowsOfOneBatch) {
    const Problem problem = parse("3x4x100x64", {{"packed", "yes"}, {"kv-heads", "2"}, {"total-kv", "260"}, {"lse", "yes"}});
    EXPECT_EQ(problem.key(),
              "attention dtype=bf16 compute=bf16 mask=none packed=yes lse=yes order=bshd dv=64 align=16,16,16,16 "
              "3x4x2x100x100x64x150x260");
    EXPECT_EQ(problem.tensor("q").dims, (std::vector<Dim>{{1, 0}, {4, 64}, {150, 256}, {64, 1}}));
    EXPECT_EQ(problem.tensor("k").dims, (std::vector<Dim>{{1, 0}, {2, 64}, {260, 128}, {64, 1}}));
    EXPECT_EQ(problem.tensor("lse").dims, (std::vector<Dim>{{1, 600}, {4, 150}, {150, 1}}));
    EXPECT_EQ(problem.tensor("q_offsets").dims, (std::vector<Dim>{{4, 1}}));
    EXPECT_EQ(problem.tensor("kv_offsets").dtype, DType::i32);
    EXPECT_FALSE(parse("3x4x100x64").has_attribute("packed"));
}

// Packed sequences have the same pairs and right results as each sequence alone.
TEST(AttentionOp, PackedSequencesAreJudgedAsEachAlone) {
    for (const char* mask : {"causal", "causal_bottom_right"}) {
        const Problem problem =
            parse("4x2x9x32",
                  {{"packed", "yes"}, {"mask", mask}, {"lse", "yes"}, {"dtype", "f32"}, {"kv-len", "14"}, {"total-q", "13"}});
        const attention::View view(problem);
        const OpTest test = attention_op().tests(problem).back();
        std::vector<std::vector<double>> tensors;
        for (std::size_t i = 0; i < problem.tensors.size(); ++i)
            tensors.push_back(filled_tensor(test.fills[i], problem.tensors[i], static_cast<int>(i), 1));
        const std::vector<Expected> packed = attention_op().reference_on_host(problem, test, tensors);
        double flops = 0;
        for (std::int64_t b = 0; b < view.b; ++b) {
            const attention::Sequence at = attention::sequence_of(view, tensors, b);
            ASSERT_GE(at.q_len, 0);
            ASSERT_LE(at.q_len, 9);
            ASSERT_LE(at.kv_len, 14);
            if (at.q_len == 0 || at.kv_len == 0) continue;
            Options options = {
                {"mask", mask}, {"lse", "yes"}, {"dtype", "f32"}, {"order", "bshd"}, {"kv-len", std::to_string(at.kv_len)}};
            const Problem one = parse("1x2x" + std::to_string(at.q_len) + "x32", options);
            flops += attention_op().flops(one);
            std::vector<std::vector<double>> of_one;
            for (const auto& [tensor, first] : {std::pair{0, at.first_q}, {1, at.first_kv}, {2, at.first_kv}}) {
                const auto& all = tensors[static_cast<std::size_t>(tensor)];
                const auto& shape = one.tensors[static_cast<std::size_t>(tensor)];
                const auto begin = all.begin() + first * 2 * 32;
                of_one.emplace_back(begin, begin + shape.span());
            }
            of_one.resize(5);
            const std::vector<Expected> right = attention_op().reference_on_host(one, test, of_one);
            for (std::int64_t head = 0; head < 2; ++head)
                for (std::int64_t row = 0; row < at.q_len; ++row) {
                    const auto in_one = static_cast<std::size_t>(head * at.q_len + row);
                    const auto in_packed = static_cast<std::size_t>(head * view.total_q + at.first_q + row);
                    EXPECT_EQ(packed[1].values[in_packed], right[1].values[in_one]);
                    EXPECT_EQ(packed[0].values[in_packed * 32 + 5], right[0].values[in_one * 32 + 5]);
                }
        }
        EXPECT_EQ(attention_op().flops(problem), flops);
    }
}

TEST(AttentionOp, TensorCoresServeTf32) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Device device = *reference_device("sm_90a");
    const auto predicted = [&](const char* family, const Problem& problem) {
        const Family& of = *catalogue.find_family(family);
        return of.predict_us(problem, of.default_config(problem, device), device).value_or(0);
    };
    for (const char* shape : {"1x8x8192x128", "4x16x1024x64", "1x2x100x64"}) {
        const Problem problem = parse(shape, {{"dtype", "f32"}, {"compute", "tf32"}});
        ASSERT_EQ(catalogue.find_family("attention/mma")->refuses(problem, device), std::nullopt);
        EXPECT_LT(predicted("attention/mma", problem), predicted("attention/simt", problem)) << shape;
    }
    EXPECT_NE(catalogue.find_family("attention/mma")->refuses(parse("1x1x9x64", {{"dtype", "f32"}}), device), std::nullopt);
}

TEST(AttentionOp, EveryFamilyHasAHundredLegalConfigs) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Device device = *reference_device("sm_90a");
    for (const Family* family : catalogue.families_of("attention")) {
        const Problem problem = family->name() == "attention/split"
                                    ? parse("16x32x1x128", {{"kv-heads", "8"}, {"kv-len", "4096"}})
                                    : parse("4x16x4096x128", {{"mask", "causal"}});
        ASSERT_EQ(family->refuses(problem, device), std::nullopt) << family->name();
        EXPECT_EQ(family->space(problem, device).enumerate({}, 100).size(), 100) << family->name();
    }
}

TEST(AttentionOp, OrdersAreStrides) {
    const Problem bhsd = parse("2x3x5x64"), bshd = parse("2x3x5x64", {{"order", "bshd"}});
    EXPECT_EQ(bhsd.tensor("q").dims, (std::vector<Dim>{{2, 960}, {3, 320}, {5, 64}, {64, 1}}));
    EXPECT_EQ(bshd.tensor("q").dims, (std::vector<Dim>{{2, 960}, {3, 64}, {5, 192}, {64, 1}}));
    EXPECT_FLOAT_EQ(static_cast<float>(bhsd.scalars[0].number()), 0.125F);
}

TEST(AttentionOp, FlopsCountVisiblePairs) {
    EXPECT_EQ(attention_op().flops(parse("2x3x100x64")), 4.0 * 6 * 100 * 100 * 64);
    EXPECT_EQ(attention_op().flops(parse("2x3x100x64", {{"mask", "causal"}})), 4.0 * 6 * 5050 * 64);
    EXPECT_EQ(attention_op().flops(parse("1x1x10x64", {{"mask", "causal_bottom_right"}, {"kv-len", "4"}})), 4.0 * 10 * 64);
    EXPECT_EQ(attention_op().flops(parse("1x1x10x64", {{"mask", "window"}, {"left", "1"}, {"right", "1"}})), 4.0 * 28 * 64);
}

class AttentionBadInput : public test::BadInputTest {};

TEST_P(AttentionBadInput, IsAUsageErrorThatNamesCulpritAndRemedy) {
    expect_refusal([](const auto& shape, const auto& options) { return parse(shape, options); });
}

INSTANTIATE_TEST_SUITE_P(
    All, AttentionBadInput,
    ::testing::Values(
        BadInput{"NoQuery", "1x1x0x64", {}, "S is 0", "at least 1"},
        BadInput{"ThreeExtents", "1x1x64", {}, "has 3 extents", "BxHxSxD"},
        BadInput{"Batch", "2*1x1x1x64", {}, "batch as the first extent", "BxHxSxD"},
        BadInput{"OddHeadSize", "1x1x1x100", {}, "d is 100", "multiples of 8"},
        BadInput{"WideHead", "1x1x1x264", {}, "d is 264", "8 to 256"},
        BadInput{"WideValues", "1x1x1x64", {{"dv", "300"}}, "dv is 300", "8 to 256"},
        BadInput{"OddGroup", "1x6x1x64", {{"kv-heads", "4"}}, "6 query heads", "no multiple"},
        BadInput{"TooManyRows", "1x1x1073741824x64", {}, "1073741824", "takes 0 to 1073741823"},
        BadInput{"ExtentOf2To31", "1x1x2147483648x64", {}, "2147483648", "2147483647"},
        BadInput{"TooManyHeads", "65536x65536x1x64", {}, "more than 2^31 - 1 heads", "batch"},
        BadInput{"Mask", "1x1x1x64", {{"mask", "lower"}}, "unknown mask 'lower'", "causal"},
        BadInput{"WindowOfNothing", "1x1x1x64", {{"mask", "window"}}, "window needs left", "before"},
        BadInput{"NegativeWindow", "1x1x1x64", {{"mask", "window"}, {"left", "-1"}}, "left is -1", "from 0"},
        BadInput{"LeftWithoutWindow", "1x1x1x64", {{"left", "3"}}, "left and right belong", "mask is none"},
        BadInput{"Tf32OfHalves", "1x1x1x64", {{"compute", "tf32"}}, "tf32 is for f32", "bf16"},
        BadInput{"OtherCompute", "1x1x1x64", {{"compute", "f16"}}, "compute is f16", "bf16"},
        BadInput{"NegativeScale", "1x1x1x64", {{"scale", "-1"}}, "scale is -1", "above 0"},
        BadInput{"ScaleOfNothing", "1x1x1x64", {{"scale", "0"}}, "scale is 0", "above 0"},
        BadInput{"TotalWithoutPacking", "2x1x8x64", {{"total-q", "9"}}, "packed sequences", "packed=yes"},
        BadInput{"LongestAboveTotal", "2x1x8x64", {{"packed", "yes"}, {"total-q", "7"}}, "has 8 queries", "7 of all"},
        BadInput{"TotalAboveSequences", "2x1x8x64", {{"packed", "yes"}, {"total-kv", "17"}}, "of at most 8 keys", "17"},
        BadInput{"ShapeAgainstOption", "1x4x2x1x1x64", {{"kv-heads", "4"}}, "kv-heads is 4", "shape says 2"}),
    [](const auto& entry) { return entry.param.name; });

TensorDescription tensor(const char* name, std::vector<Dim> dims, DType type = DType::bf16) {
    return {name, type, std::move(dims), 16};
}

ProblemDescription description() {
    const std::vector<Dim> rows = {{2, 5 * 8 * 64}, {8, 64}, {5, 8 * 64}, {64, 1}};
    const std::vector<Dim> keys = {{2, 2 * 7 * 64}, {2, 7 * 64}, {7, 64}, {64, 1}};
    return {"attention", {tensor("q", rows), tensor("k", keys), tensor("v", keys), tensor("o", rows)}, {}};
}

TEST(AttentionDescription, IsTheProblemThatWordsSay) {
    ProblemDescription given = description();
    given.tensors.push_back(tensor("lse", {{2, 40}, {8, 5}, {5, 1}}, DType::f32));
    given.attributes = {{"mask", "window"}, {"left", std::int64_t{3}}};
    const DescribedProblem described = attention_op().described(given);
    EXPECT_EQ(described.problem.key(),
              parse("2x8x5x64",
                    {{"kv-heads", "2"}, {"kv-len", "7"}, {"mask", "window"}, {"left", "3"}, {"lse", "yes"}, {"order", "bshd"}})
                  .key());
    EXPECT_EQ(described.problem.tensor("k").dims[2].stride, 64);
}

TEST(AttentionDescription, RefusesWhatItCannotRead) {
    const auto ask = [](const std::function<void(ProblemDescription&)>& change) {
        ProblemDescription given = description();
        change(given);
        return refusal_of([&] { attention_op().described(given); });
    };
    EXPECT_EQ(ask([](ProblemDescription&) {}), "");
    EXPECT_THAT(ask([](auto& given) { given.tensors[1].dims[3].stride = 2; }), HasSubstr("not contiguous"));
    EXPECT_THAT(ask([](auto& given) { given.tensors[3].dims[1].stride = 32; }), HasSubstr("let elements overlap"));
    EXPECT_THAT(ask([](auto& given) { given.tensors[3].dims[2].stride = 0; }), HasSubstr("let elements overlap"));
    EXPECT_EQ(ask([](auto& given) { given.tensors[1].dims[1].stride = 0; }), "");  // All heads of queries share one head of keys.
    EXPECT_THAT(ask([](auto& given) { given.tensors[2].dims[2].extent = 6; }), HasSubstr("tensor v has an extent of 6"));
    EXPECT_THAT(ask([](auto& given) { given.tensors[2].dtype = DType::f16; }), HasSubstr("v is f16 but q is bf16"));
    EXPECT_THAT(ask([](auto& given) { given.tensors[0].dtype = DType::e4m3; }), HasSubstr("bf16, f16 and f32"));
    EXPECT_THAT(ask([](auto& given) {
                    given.attributes = {{"mask", "window"}, {"left", std::int64_t{-1}}};
                }),
                HasSubstr("left is -1"));
}

ProblemDescription packed_description() {
    const std::vector<Dim> rows = {{8, 64}, {30, 8 * 64}, {64, 1}}, keys = {{2, 64}, {50, 2 * 64}, {64, 1}};
    return {"attention",
            {tensor("q", rows), tensor("k", keys), tensor("v", keys), tensor("o", rows),
             tensor("q_offsets", {{4, 1}}, DType::i32), tensor("kv_offsets", {{4, 1}}, DType::i32)},
            {{"max_q", std::int64_t{20}}, {"max_kv", std::int64_t{40}}}};
}

TEST(AttentionDescription, OffsetsMakeItPacked) {
    const DescribedProblem described = attention_op().described(packed_description());
    EXPECT_EQ(described.problem.key(),
              parse("3x8x20x64", {{"kv-heads", "2"}, {"kv-len", "40"}, {"packed", "yes"}, {"total-q", "30"}, {"total-kv", "50"}})
                  .key());
    EXPECT_EQ(described.order, (std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6}));
    const auto ask = [](const std::function<void(ProblemDescription&)>& change) {
        ProblemDescription given = packed_description();
        change(given);
        return refusal_of([&] { attention_op().described(given); });
    };
    EXPECT_EQ(ask([](auto& given) { given.attributes.clear(); }), "");  // The tensors are as long as all sequences together.
    EXPECT_THAT(ask([](auto& given) { given.tensors.pop_back(); }), HasSubstr("kv_offsets is missing"));
    EXPECT_THAT(ask([](auto& given) { given.tensors[4].dtype = DType::f32; }), HasSubstr("reads i32"));
    EXPECT_THAT(ask([](auto& given) { given.tensors[4].dims = {{0, 1}}; }), HasSubstr("where each sequence begins"));
    EXPECT_THAT(ask([](auto& given) {
                    given.tensors[4].dims = given.tensors[5].dims = {{1, 1}};
                }),
                HasSubstr("0 sequences of at most"));  // which hold no rows
    EXPECT_THAT(ask([](auto& given) { given.tensors[5].dims = {{5, 1}}; }), HasSubstr("differ in length"));
    EXPECT_THAT(ask([](auto& given) { given.attributes[0].value = std::int64_t{31}; }), HasSubstr("max_q is 31"));
    EXPECT_THAT(ask([](auto& given) { given.attributes[0].value = std::int64_t{9}; }),
                HasSubstr("3 sequences of at most 9 queries"));
    EXPECT_THAT(ask([](auto& given) {
                    for (std::size_t i : {0U, 1U, 2U, 3U})
                        given.tensors[i].dims.insert(given.tensors[i].dims.begin(), Dim{2, 30000});
                }),
                HasSubstr("rows of one batch"));
}

TEST(AttentionDescription, AlignmentIsWhatAddressesAndStridesShare) {
    ProblemDescription given = description();
    given.tensors[0].dims = {{2, 5 * 8 * 64 + 4}, {8, 64}, {5, 8 * 64}, {64, 1}};
    given.tensors[1].alignment_bytes = 4;
    EXPECT_EQ(attention_op().described(given).problem.word("align"), "8,4,16,16");
}

// ---- masks: the formulas that kernels, plans and costs share, against the definition ----

struct MaskCase {
    const char* word;
    std::int64_t left, right;
};

// Whether a query sees a key, by the definition in the documentation.
class Definition {
  public:
    Definition(const MaskCase& mask, int q_len, int kv_len)
        : mask_(mask), word_(mask.word), offset_(word_.ends_with("bottom_right") ? kv_len - q_len : 0) {}
    bool sees(std::int64_t i, std::int64_t j) const {
        if (word_ == "none") return true;
        const std::int64_t own = i + offset_;
        if (word_.starts_with("causal")) return j <= own;
        return j >= own - mask_.left && j <= own + mask_.right;
    }

  private:
    const MaskCase& mask_;
    std::string_view word_;
    std::int64_t offset_;
};

struct TileCounts {
    int first, end, first_full, end_full;
};

template <bool has_low, bool has_high>
TileCounts tiles_of(const attention::Band& band, int kv_len, int first, int last, int block_k) {
    const ::attention::Mask<has_low, has_high> mask = {static_cast<int>(band.low), static_cast<int>(band.high), kv_len};
    return {mask.first_tile(first, block_k), mask.end_tile(last, block_k), mask.first_full_tile(last, block_k),
            mask.end_full_tile(first, block_k)};
}

TileCounts tiles_of(const attention::Band& band, int kv_len, int first, int last, int block_k) {
    if (band.has_low) return tiles_of<true, true>(band, kv_len, first, last, block_k);
    if (band.has_high) return tiles_of<false, true>(band, kv_len, first, last, block_k);
    return tiles_of<false, false>(band, kv_len, first, last, block_k);
}

attention::View view_of(const MaskCase& mask, std::int64_t q_len, std::int64_t kv_len) {
    attention::Spec spec;
    spec.q_len = q_len;
    spec.kv_len = kv_len;
    spec.d = 64;
    spec.mask = mask.word;
    if (spec.mask.starts_with("window")) spec.left = mask.left, spec.right = mask.right;
    return attention::View(attention::make_problem(spec));
}

// Counts of faulty tiles: seen by a row but not visited, not masked but should be, masked without need, and visited although no
// row sees them.
struct TileFaults {
    int skipped = 0, unmasked = 0, masked = 0, visited = 0;
};

// Counts over all blocks of rows, by the ranges of single rows.
void count_faults(TileFaults& faults, const attention::Band& band, const std::vector<std::pair<int, int>>& seen, int kv_len,
                  int block_q, int block_k) {
    const int q_len = static_cast<int>(seen.size());
    for (int first = 0; first < q_len; first += block_q) {
        const int last = std::min(first + block_q, q_len) - 1;
        const TileCounts tiles = tiles_of(band, kv_len, first, last, block_k);
        const bool is_blind = seen[static_cast<std::size_t>(first)].first >= seen[static_cast<std::size_t>(first)].second;
        for (int tile = 0; tile * block_k < kv_len; ++tile) {
            const int begin = tile * block_k, end = std::min(begin + block_k, kv_len);
            bool some = false, whole = begin + block_k <= kv_len;
            for (int row = first; row <= last; ++row) {
                const auto [from, to] = seen[static_cast<std::size_t>(row)];
                some = some || (from < end && to > begin && from < to);
                whole = whole && from <= begin && to >= end;
            }
            const bool is_visited = tile >= tiles.first && tile < tiles.end;
            const bool is_unmasked = tile >= tiles.first_full && tile < tiles.end_full;
            faults.skipped += some && !is_visited;
            faults.unmasked += is_unmasked && !whole;
            faults.masked += whole && !is_unmasked;
            faults.visited += is_visited && !some && first == last && !is_blind;
        }
    }
}

class AttentionMask : public ::testing::TestWithParam<MaskCase> {};

TEST_P(AttentionMask, AgreesWithItsDefinitionForLengthsTo300) {
    const MaskCase mask = GetParam();
    TileFaults faults;
    int wrong_rows = 0;
    const bool is_whole = std::getenv("AUTOTUNE_EVERY_LENGTH") != nullptr;  // 14 minutes
    const int q_step = is_whole ? 1 : test::kIsSanitized ? 145 : 29, kv_step = is_whole ? 1 : test::kIsSanitized ? 97 : 13;
    for (int q_len = 1; q_len <= 300; q_len += q_len < 8 ? 1 : q_step) {
        for (int kv_len = 1; kv_len <= 300; kv_len += kv_len < 8 ? 1 : kv_step) {
            const attention::View view = view_of(mask, q_len, kv_len);
            const Definition definition(mask, q_len, kv_len);
            std::vector<std::pair<int, int>> seen;
            double pairs = 0;
            for (int row = 0; row < q_len; ++row) {
                int from = kv_len, to = 0;
                for (int key = 0; key < kv_len; ++key) {
                    if (!definition.sees(row, key)) continue;
                    from = std::min(from, key);
                    to = key + 1;
                    ++pairs;
                }
                seen.emplace_back(from, to);
                const std::int64_t first = view.band.first_key(row, kv_len), end = view.band.end_key(row, kv_len);
                wrong_rows += from < to ? first != from || end != to : first < end;
            }
            ASSERT_EQ(view.visible_pairs(), pairs);
            for (const auto& [block_q, block_k] : {std::pair{1, 16}, {64, 64}, {128, 32}, {16, 176}, {192, 80}})
                count_faults(faults, view.band, seen, kv_len, block_q, block_k);
        }
    }
    EXPECT_EQ(wrong_rows, 0);
    EXPECT_EQ(faults.skipped, 0);
    EXPECT_EQ(faults.unmasked, 0);
    EXPECT_EQ(faults.masked, 0);
    EXPECT_EQ(faults.visited, 0);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionMask,
                         ::testing::Values(MaskCase{"none", 0, 0}, MaskCase{"causal", 0, 0},
                                           MaskCase{"causal_bottom_right", 0, 0}, MaskCase{"window", 0, 0},
                                           MaskCase{"window", 37, 11}, MaskCase{"window_bottom_right", 50, 0},
                                           MaskCase{"window_bottom_right", 1000000000, 3}),
                         [](const auto& entry) {
                             return test::as_name(std::string(entry.param.word) + "_" + std::to_string(entry.param.left) + "_" +
                                                  std::to_string(entry.param.right));
                         });

TEST(AttentionMask, SeenFromKeysIsTheSameMask) {
    const ::attention::Mask<true, true> mask = {-7, 12, 90};
    const ::attention::Mask<true, true> turned = ::attention::seen_from_keys(mask, 70);
    for (int row = 0; row < 70; ++row) {
        for (int key = 0; key < 90; ++key) ASSERT_EQ(mask.sees(row, key), turned.sees(key, row)) << row << " " << key;
    }
}

// ---- right results on the host ----

struct Solved {
    Problem problem;
    std::vector<std::vector<double>> tensors;
    std::vector<Expected> outputs;
};

Solved solved(const std::string& shape, Options options, const char* test_name, std::uint64_t seed = 3) {
    options["lse"] = "yes";
    Solved made{parse(shape, options), {}, {}};
    const OpTest test = test_named(attention_op().tests(made.problem), test_name);
    for (std::size_t i = 0; i < made.problem.tensors.size(); ++i)
        made.tensors.push_back(filled_tensor(test.fills[i], made.problem.tensors[i], static_cast<int>(i), seed));
    made.outputs = attention_op().reference_on_host(made.problem, test, made.tensors);
    return made;
}

TEST(AttentionReference, WithQueriesOfZeroIsTheMeanOfWhatARowSees) {
    const Solved made = solved("1x2x9x16", {{"mask", "causal_bottom_right"}, {"kv-len", "6"}, {"kv-heads", "1"}}, "uniform");
    const std::vector<double>& v = made.tensors[attention::kV];
    for (int head = 0; head < 2; ++head) {
        for (int row = 0; row < 9; ++row) {
            const int count = std::max(row - 2, 0);
            const auto line = static_cast<std::size_t>(head * 9 + row);
            EXPECT_EQ(made.outputs[1].values[line], count == 0 ? -kInfinity : std::log(count));
            for (std::size_t column = 0; column < 16; ++column) {
                double mean = 0;
                for (int key = 0; key < count; ++key) mean += v[static_cast<std::size_t>(key) * 16 + column] / count;
                EXPECT_NEAR(made.outputs[0].values[line * 16 + column], mean, 1e-14);
            }
        }
    }
}

// For fixed queries and keys the results are weighted means of values, so they are linear in the values.
TEST(AttentionReference, IsLinearInTheValues) {
    Solved made = solved("1x2x9x16", {{"mask", "causal"}, {"kv-len", "11"}, {"dtype", "f32"}}, "numeric");
    const OpTest test = test_named(attention_op().tests(made.problem), "numeric");
    const auto answer_of = [&](const std::vector<double>& values) {
        made.tensors[attention::kV] = values;
        return attention_op().reference_on_host(made.problem, test, made.tensors)[0].values;
    };
    const std::vector<double> one = made.tensors[attention::kV];
    std::vector<double> other = one, both = one;
    std::reverse(other.begin(), other.end());
    for (std::size_t i = 0; i < both.size(); ++i) both[i] = 2 * one[i] + other[i];
    const std::vector<double> of_one = answer_of(one), of_other = answer_of(other), of_both = answer_of(both);
    for (std::size_t i = 0; i < of_both.size(); ++i) EXPECT_NEAR(of_both[i], 2 * of_one[i] + of_other[i], 1e-12);
}

TEST(AttentionReference, SpecialScoresFollowTheRules) {
    const Solved masked = solved("1x1x3x8", {{"kv-len", "5"}}, "masked");
    for (const double value : masked.outputs[0].values) EXPECT_EQ(value, 0);
    EXPECT_EQ(masked.outputs[1].values, std::vector<double>(3, -kInfinity));
    const Solved poisoned = solved("1x1x3x8", {{"kv-len", "2"}, {"mask", "causal_bottom_right"}}, "not_a_number");
    EXPECT_EQ(poisoned.outputs[0].values[0], 0);  // sees no key
    EXPECT_TRUE(std::isnan(poisoned.outputs[0].values[8]));
    EXPECT_TRUE(std::isnan(poisoned.outputs[1].values[2]));
}

// ---- what the bounds accept ----

double round_f32(double value) {
    return static_cast<double>(static_cast<float>(value));
}

// Simulates a correct kernel: scores and sums in f32, and weights rounded to the type before they meet the values. `lost` omits
// one key, `shifted` moves the mask by one.
Expected simulated(const Solved& made, std::int64_t lost, std::int64_t shifted) {
    const attention::View view(made.problem);
    const auto scale = static_cast<float>(made.problem.scalars[0].number());
    Expected answer;
    for (std::int64_t line = 0; line < view.rows(); ++line) {
        const std::int64_t row = line % view.q_len, head = line / view.q_len % view.q_heads, b = line / view.q_len / view.q_heads;
        const double* const q =
            made.tensors[0].data() + b * view.strides[0].batch + head * view.strides[0].head + row * view.strides[0].row;
        const double* const k = made.tensors[1].data() + b * view.strides[1].batch + head / view.group() * view.strides[1].head;
        const double* const v = made.tensors[2].data() + b * view.strides[2].batch + head / view.group() * view.strides[2].head;
        const std::int64_t first = view.band.first_key(row, view.kv_len);
        const std::int64_t end = std::min(view.band.end_key(row, view.kv_len) + shifted, view.kv_len);
        std::vector<float> scores;
        float peak = -std::numeric_limits<float>::infinity();
        for (std::int64_t key = first; key < end; ++key) {
            float score = 0;
            for (std::int64_t i = 0; i < view.d; ++i)
                score += static_cast<float>(q[i]) * static_cast<float>(k[key * view.strides[1].row + i]);
            scores.push_back(score);
            peak = std::max(peak, score);
        }
        std::vector<float> sums(static_cast<std::size_t>(view.dv));
        float total = 0;
        for (std::int64_t key = first; key < end; ++key) {
            if (key == lost) continue;
            const float weight = std::exp2((scores[static_cast<std::size_t>(key - first)] - peak) * scale * 1.44269504F);
            total += weight;
            const auto rounded = static_cast<float>(round_to(view.type, static_cast<double>(weight)));
            for (std::int64_t column = 0; column < view.dv; ++column)
                sums[static_cast<std::size_t>(column)] += rounded * static_cast<float>(v[key * view.strides[2].row + column]);
        }
        for (const float sum : sums)
            answer.values.push_back(round_to(view.type, total == 0 ? 0.0 : round_f32(static_cast<double>(sum / total))));
    }
    return answer;
}

// Whether a verifier would accept the result: each element must be within its bound, and the norm of all errors within its own.
bool passes(const Solved& made, const char* test_name, const Expected& answer) {
    const OpTest test = test_named(attention_op().tests(made.problem), test_name);
    double error2 = 0, norm2 = 0;
    for (std::size_t i = 0; i < answer.values.size(); ++i) {
        const double error = answer.values[i] - made.outputs[0].values[i];
        if (!(std::fabs(error) <= made.outputs[0].bounds[i])) return false;
        error2 += error * error;
        norm2 += made.outputs[0].values[i] * made.outputs[0].values[i];
    }
    const double ratio = test.outputs[0].max_norm_ratio;
    return ratio == 0 || error2 <= ratio * ratio * norm2;
}

class AttentionVerifier : public ::testing::TestWithParam<const char*> {};

TEST_P(AttentionVerifier, PassesASoundKernelAndFindsFaults) {
    for (const char* mask : {"none", "causal"}) {
        for (const char* test : {"uniform", "needle", "wide", "numeric"}) {
            const Solved made = solved("1x2x200x64", {{"dtype", GetParam()}, {"mask", mask}, {"kv-heads", "1"}}, test);
            EXPECT_TRUE(passes(made, test, simulated(made, -1, 0))) << mask << " " << test;
            const bool sees_all = std::string(test) == "uniform" || std::string(test) == "numeric";
            if (sees_all) {
                EXPECT_FALSE(passes(made, test, simulated(made, 17, 0))) << mask << " " << test;
            }
            if (sees_all && std::string(mask) == "causal") {
                EXPECT_FALSE(passes(made, test, simulated(made, -1, 1))) << mask << " " << test;
            }
        }
    }
}

// If the scale is not a power of two, the scores are not exact. Even then all keys that do not match must have no weight
// together.
TEST(AttentionVerifier, PassesASoundKernelOnOneHotKeysOfAnyHeadSize) {
    for (const char* shape : {"1x1x20x128", "1x1x20x256", "1x1x20x40"}) {
        for (const char* dtype : {"bf16", "f16", "f32"}) {
            const Solved made = solved(shape, {{"dtype", dtype}, {"kv-len", "3000"}}, "needle");
            EXPECT_TRUE(passes(made, "needle", simulated(made, -1, 0))) << shape << " " << dtype;
            if (test::kIsSanitized) break;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionVerifier, ::testing::Values("bf16", "f16", "f32"), test::NamedByParameter());

TEST(AttentionVerifier, AKeyLostFromManyIsFoundByTheExactTest) {
    for (const char* dtype : {"bf16", "f16", "f32"}) {
        const Solved made = solved("1x1x4x16", {{"dtype", dtype}, {"kv-len", "8192"}}, "uniform");
        EXPECT_TRUE(passes(made, "uniform", simulated(made, -1, 0))) << dtype;
        EXPECT_FALSE(passes(made, "uniform", simulated(made, 5000, 0))) << dtype;
    }
}

TEST(AttentionExcerpts, AreWhatTheWholeSays) {
    for (const char* mask : {"none", "causal", "causal_bottom_right", "window_bottom_right"}) {
        Options options = {{"mask", mask}, {"kv-len", "70"}, {"kv-heads", "2"}};
        if (std::string(mask).starts_with("window")) options["left"] = "9";
        const Solved made = solved("2x4x100x16", options, "numeric");
        const OpTest test = test_named(attention_op().tests(made.problem), "numeric");
        for (const Subproblem& part : attention_op().subproblems(made.problem, 11)) {
            std::vector<std::vector<double>> tensors;
            for (std::size_t i = 0; i < made.tensors.size(); ++i)
                tensors.emplace_back(made.tensors[i].begin() + part.first[i], made.tensors[i].end());
            const std::vector<Expected> answers = attention_op().reference_on_host(part.problem, test, tensors);
            const Tensor& o = part.problem.tensors[attention::kO];
            for (std::int64_t i = 0; i < o.elements(); ++i)
                ASSERT_EQ(answers[0].values[static_cast<std::size_t>(i)],
                          made.outputs[0].values[static_cast<std::size_t>(part.first[attention::kO] + o.offset_of(i))])
                    << mask;
        }
    }
}

}  // namespace
}  // namespace autotune::attention_op_test
