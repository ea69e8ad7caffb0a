#include "tools/cli/shared/passed_over.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "db/portfolio.h"
#include "src/catalogue/former_templates.h"
#include "src/core/error.h"
#include "src/core/problem/device_key.h"
#include "src/dispatch/rules/legality.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/library_choice.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/rows.h"

namespace autotune::cli {
namespace {

constexpr std::size_t kReasons = 3;  // that are told
constexpr std::size_t kOtherCards = 4;
constexpr std::size_t kLookedAt = 2'000;  // rows whose config is checked for its problem, at 0.2 ms each

// The reasons with their counts, the most frequent first: "REASON (12); REASON (3); other reasons (2)".
std::string reasons_text(const std::map<std::string, std::uint64_t>& counts) {
    std::vector<std::pair<std::uint64_t, std::string>> ordered;
    for (const auto& [why, count] : counts) ordered.emplace_back(count, why);
    std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text;
    std::uint64_t others = 0;
    for (std::size_t i = 0; i < ordered.size(); ++i) {
        if (i >= kReasons)
            others += ordered[i].first;
        else
            text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", ordered[i].second, count_text(ordered[i].first));
    }
    return others == 0 ? text : text + fmt::format("; other reasons ({})", count_text(others));
}

std::uint64_t sum_of(const std::map<std::string, std::uint64_t>& counts) {
    std::uint64_t sum = 0;
    for (const auto& [why, count] : counts) sum += count;
    return sum;
}

// How two cards differ: "memory 96 GiB, here 140 GiB; memory bus 6144 bits, here 6016 bits".
std::string difference_text(const DeviceIdentity& theirs, const DeviceIdentity& ours) {
    std::string text;
    const auto add = [&](const char* what, int there, int here, const char* unit) {
        if (there != here) text += fmt::format("{}{} {}{}, here {}{}", text.empty() ? "" : "; ", what, there, unit, here, unit);
    };
    add("memory", theirs.memory_gib, ours.memory_gib, " GiB");
    add("memory bus", theirs.bus_bits, ours.bus_bits, " bits");
    add("L2", theirs.l2_mib, ours.l2_mib, " MiB");
    add("SMs", theirs.sm_count, ours.sm_count, "");
    return text;
}

Json rows_json(const std::vector<ProblemPassedOver::Row>& rows) {
    Json list = Json::array();
    for (const ProblemPassedOver::Row& row : rows) {
        list.push_back({{"device", identity_json(row.winner.device)},
                        {"shape", shape_of(row.winner)},
                        {"family", row.winner.candidate.family},
                        {"config", config_json(row.winner.candidate.config)},
                        {"median_us", row.winner.timing.median_us},
                        {"shipped", row.winner.shipped},
                        {"why_not", row.why.empty() ? Json(nullptr) : Json(row.why)}});
        if (!row.differs.empty()) list.back()["differs"] = row.differs;
    }
    return list;
}

}  // namespace

std::string winners_passed_over_text(Session& session, const db::WinnerStore& store, const std::string& device_key) {
    TemplateIdentities identities(session.catalogue());
    std::map<std::string, std::uint64_t> counts;
    std::size_t seen = 0;
    store.scan({.device_key = device_key}, [&](const db::Winner& winner) {
        const bool is_looked_at = ++seen <= kLookedAt;
        if (const auto why = is_looked_at ? why_unusable(identities, winner) : why_unusable_anywhere(identities, winner))
            ++counts[*why];
        return !session.stopped();
    });
    if (counts.empty()) return {};
    return fmt::format(
        "{} winners{} are not used: {}; `autotune verify --database-only` lists them, a tune of their problems "
        "replaces them",
        count_text(sum_of(counts)), device_key.empty() ? "" : " of this card", reasons_text(counts));
}

std::string winners_of_other_cards_text(const db::WinnerStore& store, const DeviceIdentity& device) {
    std::map<std::string, std::uint64_t> counts;  // by card
    store.scan({}, [&](const db::Winner& winner) {
        if (have_same_chip(winner.device, device)) ++counts[device_text(winner.device)];
        return true;
    });
    if (counts.empty()) return {};
    return fmt::format(
        "{} winners are of cards with this chip and another memory: {}; they are offers for problems without a winner",
        count_text(sum_of(counts)), reasons_text(counts));
}

std::string portfolios_passed_over_text(Session& session) {
    TemplateIdentities identities(session.catalogue());
    const FormerTemplates former = former_templates(session.catalogue());
    std::map<std::string, std::uint64_t> counts;
    for (const std::string& folder : session.shipped()) {
        const auto warn = [&](const std::string& text) { session.warn(text); };
        for (const db::Portfolio& each : db::read_portfolios(db::portfolio_path(folder), warn, former)) {
            for (const Candidate& candidate : each.candidates) {
                const auto made_with = each.templates.find(candidate.family);
                const std::string identity = made_with == each.templates.end() ? "" : made_with->second;
                if (const auto why = why_of_another_template(identities, candidate.family, identity)) ++counts[*why];
            }
        }
    }
    if (counts.empty()) return {};
    return fmt::format("{} kernels of portfolios are not used: {}", count_text(sum_of(counts)), reasons_text(counts));
}

ProblemPassedOver passed_over_for(Session& session, const db::WinnerStore& store, const Problem& problem, const Device& device) {
    ProblemPassedOver found;
    TemplateIdentities identities(session.catalogue());
    StoredWinnerRule rule(identities, problem, device);
    for (db::Winner& winner : store.find(problem, device.identity)) {
        auto why = rule.why_unusable(winner);
        if (!why && !winner.restricted_to.empty()) why = "it is the best of " + winner.restricted_to + " alone";
        if (why) found.winners.push_back({.winner = std::move(winner), .why = *why});
    }
    Legality legality(session.catalogue(), problem, device);
    for (db::Winner& winner : store.near_of_other_cards(problem, device.identity, kOtherCards)) {
        auto why = rule.why_unbelievable(winner);
        if (!why) why = legality.why_not_relaunched(winner.candidate);
        const std::string differs = difference_text(winner.device, device.identity);
        found.other_cards.push_back({.winner = std::move(winner), .why = why.value_or(""), .differs = differs});
    }
    for (const auto& [why, count] : LibraryChoice(session).portfolio_kernels_passed_over(problem, device))
        found.portfolio.push_back({why, count});
    return found;
}

void add_passed_over_json(Json& json, const ProblemPassedOver& passed_over) {
    json["passed_over"] = rows_json(passed_over.winners);
    json["other_cards"] = rows_json(passed_over.other_cards);
    Json portfolio = Json::array();
    for (const auto& [why, count] : passed_over.portfolio) portfolio.push_back({{"count", count}, {"why", why}});
    json["portfolio_passed_over"] = portfolio;
}

std::vector<std::string> passed_over_lines(const ProblemPassedOver& passed_over) {
    std::vector<std::string> lines;
    std::map<std::string, std::uint64_t> reasons, of_portfolio;
    for (const ProblemPassedOver::Row& row : passed_over.winners) ++reasons[row.why];
    if (!reasons.empty())
        lines.push_back(fmt::format("{} winner{} of this problem on this card {} not used: {}", count_text(sum_of(reasons)),
                                    sum_of(reasons) == 1 ? "" : "s", sum_of(reasons) == 1 ? "is" : "are", reasons_text(reasons)));
    for (const ProblemPassedOver::Row& row : passed_over.other_cards) {
        lines.push_back(fmt::format("near (other card): {} ({}), {} us for {}: {}{}", device_text(row.winner.device), row.differs,
                                    us_text(row.winner.timing.median_us), shape_of(row.winner), row.winner.candidate.to_string(),
                                    row.why.empty() ? "" : "; not used: " + row.why));
    }
    for (const auto& [why, count] : passed_over.portfolio) of_portfolio[why] += static_cast<std::uint64_t>(count);
    if (!of_portfolio.empty())
        lines.push_back(fmt::format("{} kernels of portfolios are not used: {}", count_text(sum_of(of_portfolio)),
                                    reasons_text(of_portfolio)));
    return lines;
}

}  // namespace autotune::cli
