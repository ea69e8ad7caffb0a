#include "kernel_templates/attention_bwd/shared/wgmma_launch.h"

#include <algorithm>

#include "kernel_templates/attention/shared/tma_tiles.h"
#include "kernel_templates/gemm/shared/family_parts.h"
#include "src/core/integer_math.h"

namespace autotune::attention_bwd {
namespace {

using attention::map_of;
using gemm::i32;
using std::int64_t;

constexpr int64_t kPreparedRows = 64;  // rows that a block prepares
constexpr int64_t kRowsPadding = 128;  // the rows of the workspace are a multiple of this, the largest tile of queries

}  // namespace

int64_t registers_of(int64_t consumer_warpgroups) {
    return consumer_warpgroups == 3 ? 160 : 240;
}

std::optional<std::string> refuses_wgmma(const View& view, const Device& device) {
    if (device.identity.cc() != 90) return "wgmma exists on compute capability 9.0 alone";
    if (view.type != DType::bf16 && view.type != DType::f16) return "it multiplies bf16 and f16";
    const int least = std::min(
        {*std::min_element(view.align.begin(), view.align.end()), view.align_do, view.align_dq, view.align_dk, view.align_dv});
    if (least < 16) return "TMA and 16-byte accesses take rows that begin at multiples of 16 bytes";
    return attention::refuses_grid(view, 16);
}

void add_strides(std::vector<Argument>& to, const attention::Strides& strides) {
    for (const int64_t stride : {strides.batch, strides.head, strides.row}) to.push_back(I64Arg{stride});
}

int64_t padded_rows(const View& view) {
    return round_up(view.q_len, kRowsPadding) + kRowsPadding;
}
int64_t vector_bytes(const View& view) {
    return view.b * view.q_heads * padded_rows(view) * 4;
}

int64_t heads_at_once(const View& view, int64_t mib, int64_t other_len, int64_t heads) {
    if (mib == 0) return 1;
    const int64_t bytes = std::max<int64_t>(other_len, 1) * (view.d + view.dv) * view.element_bytes;
    return std::clamp<int64_t>(mib * 1024 * 1024 / bytes, 1, view.b * heads);
}

Argument address_in(Scratch scratch, int64_t offset_bytes) {
    const auto offset = static_cast<std::size_t>(offset_bytes);
    if (scratch == Scratch::dq) return TensorArg{.index = kDq, .offset_bytes = offset};
    return WorkspaceArg{offset};
}

bool dq_holds(const View& view, int64_t bytes) {
    const auto& [batch, head, row] = view.dq_strides;
    const int64_t last = (view.b - 1) * batch + (view.q_heads - 1) * head + (view.q_len - 1) * row + view.d - 1;
    const int64_t elements = view.b * view.q_heads * view.q_len * view.d;
    return last + 1 == elements && bytes <= elements * view.element_bytes;
}

LaunchStep prepare_step(const View& view, Scratch scratch) {
    LaunchStep step;
    step.entry = "_prepare";
    step.grid = {narrow<std::uint32_t>(view.b * view.q_heads * (padded_rows(view) / kPreparedRows)), 1, 1};
    step.block = {256, 1, 1};
    step.arguments = {TensorArg{kDo},
                      TensorArg{kO},
                      TensorArg{kLse},
                      address_in(scratch, 0),
                      address_in(scratch, vector_bytes(view)),
                      i32(view.q_heads),
                      i32(view.q_len),
                      i32(padded_rows(view))};
    add_strides(step.arguments, view.do_strides);
    add_strides(step.arguments, view.strides[kO]);
    return step;
}

std::vector<Argument> pass_arguments(const Problem& problem, const View& view, Scratch scratch, int64_t query_rows,
                                     int64_t key_rows) {
    return {map_of(problem, kQ, query_rows), map_of(problem, kDo, query_rows), map_of(problem, kK, key_rows),
            map_of(problem, kV, key_rows),   address_in(scratch, 0),           address_in(scratch, vector_bytes(view))};
}

void add_key_arguments(std::vector<Argument>& to, const View& view) {
    const std::vector<Argument> all = {
        TensorArg{kDk},  TensorArg{kDv},   ScalarArg{attention::kScale}, i32(view.kv_heads), i32(view.group()),
        i32(view.q_len), i32(view.kv_len), i32(padded_rows(view)),       i32(view.band.low), i32(view.band.high)};
    to.insert(to.end(), all.begin(), all.end());
    add_strides(to, view.dk_strides);
    add_strides(to, view.dv_strides);
}

std::vector<Binding> wgmma_facts(const Problem& problem) {
    const View view(problem);
    return {{"element_type", view.type},
            {"d", view.d},
            {"dv", view.dv},
            {"has_low", int64_t{view.band.has_low}},
            {"has_high", int64_t{view.band.has_high}}};
}

}  // namespace autotune::attention_bwd
