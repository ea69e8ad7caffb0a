#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "db/winner_store.h"
#include "src/catalogue/catalogue.h"
#include "src/dispatch/rules/legality.h"
#include "src/records/winner.h"

// What a stored row means to a catalogue: the one place that decides whether a winner may answer. Tuner, library and command ask
// here.
namespace autotune {

// The problem of a row, made again from its class and extents; nullopt if no op here knows it.
std::optional<Problem> problem_of(const Catalogue& catalogue, const Winner& winner);

// The same of a miss.
std::optional<Problem> problem_of(const Catalogue& catalogue, const db::MissRow& miss);

// The device of a row as far as it is stored: identity of the card; limits, clock and bandwidth of its architecture's well-known
// card. nullopt for an architecture that is not known.
std::optional<Device> device_of(const Winner& winner);

// Identities of a catalogue's templates, each made once: a hash of a family's whole text. Not thread-safe. REQUIRES: the
// catalogue outlives it.
class TemplateIdentities {
  public:
    explicit TemplateIdentities(const Catalogue& catalogue) : catalogue_(catalogue) {}
    const std::string& of(const Family& family);
    const Catalogue& catalogue() const { return catalogue_; }

  private:
    const Catalogue& catalogue_;
    std::map<std::string, std::string, std::less<>> identities_;  // by family
};

// Why kernels that were chosen when a family's template had this identity are not used: a clause. nullopt if it is today's.
std::optional<std::string> why_of_another_template(TemplateIdentities& identities, const std::string& family,
                                                   const std::string& identity);

// The rule for the rows that may answer one problem on one device. REQUIRES: what it is made of outlives it.
class StoredWinnerRule {
  public:
    StoredWinnerRule(TemplateIdentities& identities, const Problem& problem, const Device& device)
        : identities_(identities), legality_(identities.catalogue(), problem, device) {}

    // Why the row's candidate is none for the problem: its family is not here, its template has changed, or the config is not in
    // the family's space exactly as it is stored. A clause; nullopt if it is one.
    std::optional<std::string> why_illegal(const Winner& winner);
    // Why the row's candidate must not be offered to problems of other extents, whether or not it is legal for this one.
    std::optional<std::string> why_unbelievable(const Winner& winner);
    // Why the row must not answer: it is illegal, its evidence is impossible, or it is in doubt. The caller has found the row for
    // the device, or for one of its class. nullopt if it may answer.
    std::optional<std::string> why_unusable(const Winner& winner);

  private:
    std::optional<std::string> why_old(const Winner& winner);

    TemplateIdentities& identities_;
    Legality legality_;
};

// The same for one row.
std::optional<std::string> why_illegal(const Catalogue& catalogue, const Winner& winner, const Problem& problem,
                                       const Device& device);
std::optional<std::string> why_unusable(const Catalogue& catalogue, const Winner& winner, const Problem& problem,
                                        const Device& device);
// For the row's own problem and device.
std::optional<std::string> why_unusable(TemplateIdentities& identities, const Winner& winner);

// The same as far as the row itself tells, without its problem: its family, its template, its evidence. A hundred times as fast.
std::optional<std::string> why_unusable_anywhere(TemplateIdentities& identities, const Winner& winner);

// What to make of a row that comes from elsewhere. REQUIRES: it passed the checks of form that the store makes.
struct RowJudgement {
    enum class Verdict { take, unusable, impossible };
    Verdict verdict = Verdict::take;
    std::string why{};  // of what is not taken; of what is taken, its doubt: empty if it is believed
};
RowJudgement judge(TemplateIdentities& identities, const Winner& winner);

}  // namespace autotune
