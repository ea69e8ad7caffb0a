#include "tools/cli/library_choice.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

dispatch::Dispatcher::Options options_of(Session& session) {
    dispatch::Dispatcher::Options options;
    options.files.database = session.database_path();
    if (const auto folders = session.shipped(); !folders.empty()) options.files.shipped = folders.front();
    return options;
}

std::string source_text(dispatch::Source source) {
    switch (source) {
        case dispatch::Source::portfolio:
            return "from a portfolio";
        case dispatch::Source::near:
            return "the winner of other extents";
        case dispatch::Source::other_card:
            return "the winner of a card with this chip and another memory";
        default:
            return "a family's default";
    }
}

std::string regret_text(const dispatch::ExpectedRegret& regret) {
    if (regret.median < 0) return "how much slower than the best known it will be is not known";
    return fmt::format(
        "expected to be {:.1f} % slower than the best known in the median ({:.1f} % at the 90th percentile, {} problems)",
        100 * regret.median, 100 * regret.p90, regret.problems);
}

}  // namespace

LibraryChoice::LibraryChoice(Session& session)
    : catalogue_(session.catalogue()),
      // The log function reports files that the library cannot read, as it would in a program.
      dispatcher_(options_of(session), session.catalogue(),
                  [&session](const std::string&, const std::string& message) { session.warn(message); }) {}

std::optional<UntunedChoice> LibraryChoice::untuned(const Problem& problem, const Device& device) {
    using dispatch::Dispatcher;
    std::vector<dispatch::ResolvedCandidate> found = dispatcher_.untuned(problem, device, Dispatcher::ExactWinner::ignore);
    try {
        if (found.empty()) found = dispatcher_.defaults(problem, device);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::no_valid_config) throw;
        return std::nullopt;
    }
    const Family* family = catalogue_.find_family(found.front().candidate.family);
    UntunedChoice choice{std::move(found.front().candidate), found.front().source, std::nullopt, {}};
    if (family != nullptr) choice.predicted_us = family->predict_us(problem, choice.candidate.config, device);
    if (found.front().regret >= 0) choice.regret = dispatcher_.expected_regret(problem, device);
    return choice;
}

Json untuned_json(const UntunedChoice& choice) {
    const auto known = [](double share) { return share < 0 ? Json(nullptr) : Json(share); };
    Json json{{"family", choice.candidate.family}, {"config", config_json(choice.candidate.config)}};
    json["source"] = to_string(choice.source);
    json["predicted_us"] = choice.predicted_us ? Json(*choice.predicted_us) : Json(nullptr);
    json["expected_regret"] = known(choice.regret.median);
    json["expected_regret_p90"] = known(choice.regret.p90);
    json["regret_problems"] = choice.regret.problems;
    return json;
}

std::string untuned_text(const UntunedChoice& choice) {
    const std::string predicted = choice.predicted_us ? ", predicted " + us_text(*choice.predicted_us) + " us" : "";
    return source_text(choice.source) + predicted + "; " + regret_text(choice.regret);
}

}  // namespace autotune::cli
