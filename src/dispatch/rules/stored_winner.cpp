#include "src/dispatch/rules/stored_winner.h"

#include <sstream>

#include "src/core/error.h"
#include "src/records/evidence_check.h"

namespace autotune {
namespace {

std::string unknown_problem(const Winner& winner) {
    return "'" + winner.class_key + "' is not a problem of an op here";
}

std::string unknown_device(const Winner& winner) {
    return "its device, " + winner.device.key() + ", is not supported here";
}

std::string of_another_version(const std::string& family) {
    return "it was tuned with another version of " + family;
}

std::string of_impossible_evidence(const std::string& reason) {
    return "its evidence is impossible: " + reason;
}

std::string of_doubt(const std::string& doubt) {
    return "its evidence is in doubt: " + doubt;
}

// A class key consists of the op's name and words name=value. Each word is an option of the op.
std::optional<Problem> problem_of_texts(const Catalogue& catalogue, const std::string& op, const std::string& class_key,
                                        const std::string& shape) {
    ProblemRequest request{.op = op, .shape = shape, .options = {}};
    std::istringstream words(class_key);
    std::string word;
    words >> word;
    while (words >> word) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos) return std::nullopt;
        request.options[word.substr(0, equals)] = word.substr(equals + 1);
    }
    try {
        Problem problem = catalogue.problem(request);
        if (problem.class_key() != class_key) return std::nullopt;
        return problem;
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace

std::optional<Problem> problem_of(const Catalogue& catalogue, const Winner& winner) {
    Problem bare;
    bare.extents = winner.extents;
    auto problem = problem_of_texts(catalogue, winner.op, winner.class_key, bare.shape());
    if (problem && problem->extents != winner.extents) return std::nullopt;
    return problem;
}

std::optional<Problem> problem_of(const Catalogue& catalogue, const db::MissRow& miss) {
    return problem_of_texts(catalogue, miss.op, miss.class_key, miss.shape);
}

std::optional<Device> device_of(const Winner& winner) {
    try {
        auto device = reference_device(arch_of(winner.device.cc_major, winner.device.cc_minor));
        if (device) device->identity = winner.device;
        return device;
    } catch (const Error&) {
        return std::nullopt;
    }
}

const std::string& TemplateIdentities::of(const Family& family) {
    std::string& identity = identities_[std::string(family.name())];
    if (identity.empty()) identity = catalogue_.template_identity(family);
    return identity;
}

std::optional<std::string> why_of_another_template(TemplateIdentities& identities, const std::string& family,
                                                   const std::string& identity) {
    const Family* known = identities.catalogue().find_family(family);
    if (known == nullptr) return "there is no family '" + family + "' here";
    if (identity.empty()) return "the version of " + family + " that they were chosen with is not recorded";
    if (identities.of(*known) == identity) return std::nullopt;
    return "they were chosen with another version of " + family;
}

std::optional<std::string> StoredWinnerRule::why_old(const Winner& winner) {
    const Family* family = identities_.catalogue().find_family(winner.candidate.family);
    if (family == nullptr || identities_.of(*family) == winner.template_identity) return std::nullopt;
    return of_another_version(winner.candidate.family);
}

std::optional<std::string> StoredWinnerRule::why_illegal(const Winner& winner) {
    if (auto reason = why_old(winner)) return reason;
    return legality_.why_not(winner.candidate);
}

std::optional<std::string> StoredWinnerRule::why_unusable(const Winner& winner) {
    if (auto reason = why_illegal(winner)) return reason;
    return why_unbelievable(winner);
}

std::optional<std::string> StoredWinnerRule::why_unbelievable(const Winner& winner) {
    if (auto reason = why_old(winner)) return reason;
    if (auto reason = why_impossible(winner)) return of_impossible_evidence(*reason);
    if (!winner.doubt.empty()) return of_doubt(winner.doubt);
    return std::nullopt;
}

std::optional<std::string> why_illegal(const Catalogue& catalogue, const Winner& winner, const Problem& problem,
                                       const Device& device) {
    TemplateIdentities identities(catalogue);
    return StoredWinnerRule(identities, problem, device).why_illegal(winner);
}

std::optional<std::string> why_unusable(const Catalogue& catalogue, const Winner& winner, const Problem& problem,
                                        const Device& device) {
    TemplateIdentities identities(catalogue);
    return StoredWinnerRule(identities, problem, device).why_unusable(winner);
}

std::optional<std::string> why_unusable(TemplateIdentities& identities, const Winner& winner) {
    const auto problem = problem_of(identities.catalogue(), winner);
    if (!problem) return unknown_problem(winner);
    const auto device = device_of(winner);
    if (!device) return unknown_device(winner);
    return StoredWinnerRule(identities, *problem, *device).why_unusable(winner);
}

std::optional<std::string> why_unusable_anywhere(TemplateIdentities& identities, const Winner& winner) {
    const Family* family = identities.catalogue().find_family(winner.candidate.family);
    if (family == nullptr) return "there is no family '" + winner.candidate.family + "' here";
    if (identities.of(*family) != winner.template_identity) return of_another_version(winner.candidate.family);
    if (auto reason = why_impossible(winner)) return of_impossible_evidence(*reason);
    if (!winner.doubt.empty()) return of_doubt(winner.doubt);
    return std::nullopt;
}

RowJudgement judge(TemplateIdentities& identities, const Winner& winner) {
    using Verdict = RowJudgement::Verdict;
    const auto problem = problem_of(identities.catalogue(), winner);
    if (!problem) return {Verdict::unusable, unknown_problem(winner)};
    const auto device = device_of(winner);
    if (!device) return {Verdict::unusable, unknown_device(winner)};
    if (const auto reason = StoredWinnerRule(identities, *problem, *device).why_illegal(winner))
        return {Verdict::unusable, *reason};
    const Op& op = identities.catalogue().op_of(*problem);
    if (const auto reason = why_impossible(winner, op, *problem, *device)) return {Verdict::impossible, *reason};
    return {Verdict::take, why_doubtful(winner, op, *problem, *device)};
}

}  // namespace autotune
