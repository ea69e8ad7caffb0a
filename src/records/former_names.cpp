#include "src/records/former_names.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/core/text.h"
#include "src/records/validate.h"

namespace autotune {
namespace {

std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    for (std::string& word : split(text, ' '))
        if (!word.empty()) words.push_back(std::move(word));
    return words;
}

void rename(Finalist& finalist, const FormerTemplates& former) {
    if (!finalist.candidate) return;
    finalist.candidate->config = renamed(finalist.candidate->config, finalist.candidate->family, former);
    finalist.name = renamed_name(finalist.name, finalist.candidate->family, former);
}

std::optional<std::string> present_identity(const FormerTemplates& former, const std::string& family,
                                            const std::string& identity) {
    return former.present_identity ? former.present_identity(family, identity) : std::nullopt;
}

std::string present_parameter(const FormerTemplates& former, const std::string& family, const std::string& parameter) {
    return former.present_parameter ? former.present_parameter(family, parameter) : parameter;
}

}  // namespace

Config renamed(const Config& config, const std::string& family, const FormerTemplates& former) {
    Config present;
    for (const auto& [name, value] : config.values()) present.set(present_parameter(former, family, name), value);
    return present;
}

std::string renamed_name(const std::string& words, const std::string& family, const FormerTemplates& former) {
    std::vector<std::string> present;
    for (const std::string& word : words_of(words)) {
        const std::size_t equals = word.find('=');
        const bool is_parameter = equals != std::string::npos && equals > 0;
        present.push_back(is_parameter ? present_parameter(former, family, word.substr(0, equals)) + word.substr(equals) : word);
    }
    return records::cleaned(join(present, " "), records::kMaxDetail);
}

std::string renamed_restriction(const std::string& words, const std::string& family, const FormerTemplates& former) {
    std::vector<std::string> present;
    std::map<std::string, std::string> pins;
    for (const std::string& word : words_of(words)) {
        const std::size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        if (equals == std::string::npos || name == "family" || name == "config")
            present.push_back(word);
        else
            pins[present_parameter(former, family, name)] = word.substr(equals);
    }
    for (const auto& [name, value] : pins) present.push_back(name + value);
    return records::cleaned(join(present, " "));
}

void bring_up_to_date(Winner& winner, const FormerTemplates& former) {
    if (!former.present_parameter) return;
    const std::string& family = winner.candidate.family;
    if (auto present = present_identity(former, family, winner.template_identity)) {
        winner.template_identity = std::move(*present);
        winner.restricted_to = renamed_restriction(winner.restricted_to, family, former);
    }
    winner.candidate.config = renamed(winner.candidate.config, family, former);
    for (Finalist& finalist : winner.evidence.finalists) rename(finalist, former);
}

void bring_up_to_date(StoredTrial& trial, const FormerTemplates& former) {
    if (!former.present_parameter) return;
    Candidate& candidate = trial.trial.candidate;
    if (auto present = present_identity(former, candidate.family, trial.template_identity))
        trial.template_identity = std::move(*present);
    candidate.config = renamed(candidate.config, candidate.family, former);
}

}  // namespace autotune
