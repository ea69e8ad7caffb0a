#include "db/text/importer.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "db/store/former_rows.h"
#include "db/store/trials.h"
#include "src/records/evidence_check.h"
#include "src/records/validate.h"

namespace autotune::db {
namespace {

constexpr std::size_t kBatchRows = 512;
constexpr std::size_t kMaxRefusals = 20;

std::string key_of(const Winner& winner) {
    std::string key = winner.class_key + '\n' + winner.device.key() + '\n' + winner.candidate.family + '\n' +
                      winner.template_identity + '\n' + winner.restricted_to;
    for (const Extent& extent : winner.extents)
        key.append("\n").append(extent.name).append("=").append(std::to_string(extent.value));
    return key;
}

bool has_form(std::string_view text, std::string_view form) {
    return std::equal(text.begin(), text.end(), form.begin(), form.end(), [](char letter, char expected) {
        return expected == '0' ? letter >= '0' && letter <= '9' : letter == expected;
    });
}

// Why a row must not have this date: newer rows win, so a date in the future is refused. Clocks may differ by up to a day. An
// empty date means unknown.
std::optional<std::string> why_no_date(const std::string& date) {
    if (date.empty()) return std::nullopt;
    const bool is_date = has_form(date, "0000-00-00") || has_form(date, "0000-00-00T00:00:00Z");
    if (!is_date) return "its date, " + date + ", is not of the form 2026-11-21T01:30:00Z";
    constexpr int kDay_s = 86400;
    if (date > utc_in(kDay_s)) return "its date, " + date + ", is in the future";
    return std::nullopt;
}

}  // namespace

bool takes_over(const Winner& theirs, const Winner& ours) {
    if (theirs.doubt.empty() != ours.doubt.empty()) return theirs.doubt.empty();
    const Provenance& a = theirs.provenance;
    const Provenance& b = ours.provenance;
    const bool comparable = a.driver == b.driver && a.nvrtc == b.nvrtc && a.method == b.method;
    return comparable ? theirs.timing.median_us < ours.timing.median_us : a.date > b.date;
}

void Importer::refuse(const std::string& where, const RowVerdict& verdict) {
    ++report_.refused;
    ++report_.refused_for[*verdict.refusal];
    if (report_.refusals.size() < kMaxRefusals) report_.refusals.push_back(where + ": " + verdict.why);
}

bool Importer::is_stopped() {
    report_.stopped = report_.stopped || (options_.stopped && options_.stopped());
    return report_.stopped;
}

RowVerdict Importer::verdict_on(const Winner& winner) const {
    if (const auto why = why_impossible(winner)) return {Refusal::impossible, "its evidence is impossible: " + *why};
    if (const auto why = why_no_date(winner.provenance.date)) return {Refusal::impossible, *why};
    return options_.check ? options_.check(winner) : RowVerdict{};
}

void Importer::offer(Winner winner, const std::string& where) {
    bring_up_to_date(winner, options_.former);
    const RowVerdict verdict = verdict_on(winner);
    if (verdict.refusal) return refuse(where, verdict);
    if (!verdict.why.empty()) winner.doubt = records::cleaned(verdict.why);
    const std::string key = key_of(winner);
    if (keys_.contains(key)) write();  // writes the row with the same key, which must be in the store for the comparison
    const auto ours = store_.same_key(winner);
    if (ours && !takes_over(winner, *ours)) {
        ++report_.kept;
        return;
    }
    ++(ours ? report_.replaced : report_.added);
    if (!winner.doubt.empty()) ++report_.doubted;
    if (options_.dry_run) return;
    batch_.push_back(std::move(winner));
    keys_.insert(key);
    if (batch_.size() >= kBatchRows) write();
}

void Importer::write() {
    if (!batch_.empty()) store_.put_all(batch_);
    batch_.clear();
    keys_.clear();
}

TakeReport Importer::finish() {
    write();
    return report_;
}

}  // namespace autotune::db
