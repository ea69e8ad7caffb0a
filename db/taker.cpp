#include "db/taker.h"

#include <optional>

namespace autotune::db {
namespace {

constexpr std::size_t kBatchRows = 512;
constexpr std::size_t kMaxRefusals = 20;

std::string key_of(const Winner& winner) {
    std::string key =
        winner.class_key + '\n' + winner.device.key() + '\n' + winner.candidate.family + '\n' + winner.template_identity;
    for (const Extent& extent : winner.extents)
        key.append("\n").append(extent.name).append("=").append(std::to_string(extent.value));
    return key;
}

}  // namespace

bool takes_over(const Winner& theirs, const Winner& ours) {
    const Provenance& a = theirs.provenance;
    const Provenance& b = ours.provenance;
    const bool comparable = a.driver == b.driver && a.nvrtc == b.nvrtc && a.method == b.method;
    return comparable ? theirs.timing.median_us < ours.timing.median_us : a.date > b.date;
}

void Taker::refuse(const std::string& where, const std::string& why) {
    ++report_.refused;
    if (report_.refusals.size() < kMaxRefusals) report_.refusals.push_back(where + ": " + why);
}

void Taker::offer(const Winner& winner, const std::string& where) {
    if (options_.check) {
        if (const auto why = options_.check(winner)) return refuse(where, *why);
    }
    const std::string key = key_of(winner);
    if (keys_.contains(key)) write();  // its rival must be in the store to be compared with
    const auto ours = store_.same_key(winner);
    if (ours && !takes_over(winner, *ours)) {
        ++report_.kept;
        return;
    }
    ++(ours ? report_.replaced : report_.added);
    if (options_.dry_run) return;
    batch_.push_back(winner);
    keys_.insert(key);
    if (batch_.size() >= kBatchRows) write();
}

void Taker::write() {
    if (!batch_.empty()) store_.put_all(batch_);
    batch_.clear();
    keys_.clear();
}

TakeReport Taker::finish() {
    write();
    return report_;
}

}  // namespace autotune::db
