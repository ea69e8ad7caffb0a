#include "tuner/session/tune/recall.h"

#include "src/dispatch/rules/stored_winner.h"
#include "src/records/measuring_method.h"
#include "tuner/session/tune/candidates.h"

namespace autotune::tuner {
namespace {

void note(std::string& differences, const char* what, const std::string& stored, const std::string& today) {
    if (stored.empty() || today.empty() || stored == today) return;
    differences += (differences.empty() ? "" : ", ") + std::string(what) + " was " + stored + " and is " + today;
}

std::string watts(int value) {
    return value > 0 ? std::to_string(value) + " W" : "";
}

}  // namespace

std::string why_stale(const db::Provenance& stored, const db::Provenance& today) {
    std::string differences;
    note(differences, "driver", stored.driver, today.driver);
    note(differences, "NVRTC", stored.nvrtc, today.nvrtc);
    note(differences, "device", stored.device_name, today.device_name);
    note(differences, "power limit", watts(stored.power_limit_w), watts(today.power_limit_w));
    note(differences, "measuring method", measuring_scheme(stored.method), measuring_scheme(MeasuringMethod{}.text()));
    return differences;
}

std::optional<db::Winner> valid_winner(const Problem& problem, const TuneServices& services, const Choice& choice) {
    if (services.store == nullptr) return std::nullopt;
    const std::string restriction = restriction_of(choice, services.catalogue, problem, services.device);
    const auto answers = [&](const db::Winner& winner) {
        if (!winner.restricted_to.empty()) return winner.restricted_to == restriction;
        return is_open(choice) || allows(choice, winner.candidate);
    };
    std::optional<db::Winner> stale;
    for (db::Winner& winner : services.store->find(problem, services.device.identity)) {
        if (!answers(winner)) continue;
        if (why_unusable(services.catalogue, winner, problem, services.device)) continue;
        if (why_stale(winner.provenance, services.provenance).empty()) return std::move(winner);
        if (!stale) stale = std::move(winner);
    }
    return stale;
}

std::optional<TuneResult> recall(const Problem& problem, const TuneServices& services, const Choice& choice) {
    auto winner = valid_winner(problem, services, choice);
    if (!winner) return std::nullopt;
    TuneResult result;
    result.origin = winner->shipped ? Origin::shipped : Origin::exact;
    result.stale_because = why_stale(winner->provenance, services.provenance);
    result.stale = !result.stale_because.empty();
    result.winner = std::move(*winner);
    return result;
}

}  // namespace autotune::tuner
