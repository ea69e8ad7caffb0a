#include "tests/support/fake/driver/pending.h"

#include <algorithm>

#include "src/core/problem/dtype.h"

namespace autotune::fake {
namespace {

// With beta, each launch changes the result. More repeats than this are skipped, because no test compares the result after more
// launches.
constexpr int kMostRepeats = 4;

bool is_same(const GemmView& x, const GemmView& y) {
    const auto key = [](const GemmView& g) {
        return std::tuple(g.a, g.b, g.c, g.m, g.n, g.k, g.lda, g.ldb, g.ldc, g.batch, g.stride_a, g.stride_b, g.stride_c,
                          g.trans_a, g.trans_b, g.alpha, g.beta);
    };
    return x.c == y.c && key(x) == key(y) && x.in_type == y.in_type && x.out_type == y.out_type;
}

}  // namespace

Pending& Pending::get() {
    static Pending* pending = new Pending;
    return *pending;
}

Pending::Entry Pending::make_entry(const GemmView& g) {
    const std::size_t in = size_bytes(parse_dtype(g.in_type).value_or(DType::f16));
    const std::size_t out = size_bytes(parse_dtype(g.out_type).value_or(DType::f16));
    const auto spans = stored_spans(g);
    return {g,
            {g.a, static_cast<std::size_t>(spans.a) * in},
            {g.b, static_cast<std::size_t>(spans.b) * in},
            {g.c, static_cast<std::size_t>(spans.c) * out}};
}

void Pending::run(const Entry& entry) {
    const int launches = entry.gemm.beta == 0 ? 1 : std::min(entry.launches, kMostRepeats);
    for (int i = 0; i < launches; ++i) multiply(entry.gemm);
}

void Pending::add(const GemmView& gemm) {
    for (Entry& known : entries_) {
        if (!is_same(known.gemm, gemm)) continue;
        ++known.launches;
        return;
    }
    Entry entry = make_entry(gemm);
    for (const Range& input : {entry.a, entry.b}) touch(input.base, input.bytes);
    touch(entry.c.base, entry.c.bytes, gemm.beta == 0 && gemm.ldc == gemm.n && gemm.batch == 1);
    entries_.push_back(std::move(entry));
}

void Pending::touch(Address base, std::size_t bytes, bool overwrites) {
    const Range range{base, bytes};
    std::vector<Entry> due;
    const auto is_met = [&](const Entry& entry) { return range.meets(entry.a) || range.meets(entry.b) || range.meets(entry.c); };
    for (const Entry& entry : entries_) {
        const bool is_unseen = overwrites && range.holds(entry.c);
        if (is_met(entry) && !is_unseen) due.push_back(entry);
    }
    const auto left = std::remove_if(entries_.begin(), entries_.end(), is_met);
    if (left != entries_.end()) ++generation_;
    entries_.erase(left, entries_.end());
    for (const Entry& entry : due) run(entry);
}

}  // namespace autotune::fake
