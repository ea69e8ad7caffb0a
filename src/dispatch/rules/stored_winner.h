#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "db/winner_store.h"
#include "src/catalogue/catalogue.h"
#include "src/dispatch/rules/legality.h"
#include "src/records/winner.h"

// The one place that decides whether a stored winner may be served. Tuner, library and command use it.
namespace autotune {

// The problem of a row, rebuilt from its class and extents; nullopt if no op here knows it.
std::optional<Problem> problem_of(const Catalogue& catalogue, const Winner& winner);

// The problem of a miss, rebuilt in the same way.
std::optional<Problem> problem_of(const Catalogue& catalogue, const db::MissRow& miss);

// The device of a row as far as it is stored: identity of the card; limits, clock and bandwidth of its architecture's well-known
// card. nullopt for an unknown architecture.
std::optional<Device> device_of(const Winner& winner);

// Identities of a catalogue's templates. Each is computed once, because it hashes a family's whole text. Not thread-safe.
// REQUIRES: the catalogue outlives it.
class TemplateIdentities {
  public:
    explicit TemplateIdentities(const Catalogue& catalogue) : catalogue_(catalogue) {}
    const std::string& of(const Family& family);
    const Catalogue& catalogue() const { return catalogue_; }

  private:
    const Catalogue& catalogue_;
    std::map<std::string, std::string, std::less<>> identities_;  // by family
};

// Why kernels that were chosen when a family's template had this identity are not used: a clause. nullopt if the identity is
// today's.
std::optional<std::string> why_of_another_template(TemplateIdentities& identities, const std::string& family,
                                                   const std::string& identity);

// The rule for rows that may serve one problem on one device. REQUIRES: the constructor's arguments outlive it.
class StoredWinnerRule {
  public:
    StoredWinnerRule(TemplateIdentities& identities, const Problem& problem, const Device& device)
        : identities_(identities), legality_(identities.catalogue(), problem, device) {}

    // Why the row's candidate is not legal for the problem: its family does not exist here, its template has changed, or the
    // config is not in the family's space exactly as stored. A clause; nullopt if it is legal.
    std::optional<std::string> why_illegal(const Winner& winner);
    // Why the row's candidate must not be offered to problems of other extents, whether or not it is legal for this one.
    std::optional<std::string> why_unbelievable(const Winner& winner);
    // Why the row must not be served: it is illegal, its evidence is impossible, or it is in doubt. The caller has found the row
    // for the device, or for one of its class. nullopt if it may be served.
    std::optional<std::string> why_unusable(const Winner& winner);

  private:
    std::optional<std::string> why_old(const Winner& winner);

    TemplateIdentities& identities_;
    Legality legality_;
};

// Applies the rule to one row.
std::optional<std::string> why_illegal(const Catalogue& catalogue, const Winner& winner, const Problem& problem,
                                       const Device& device);
std::optional<std::string> why_unusable(const Catalogue& catalogue, const Winner& winner, const Problem& problem,
                                        const Device& device);
// Applies the rule to a row and its own problem and device.
std::optional<std::string> why_unusable(TemplateIdentities& identities, const Winner& winner);

// Applies the part of the rule that needs only the row, without its problem: its family, its template, its evidence. This is a
// hundred times as fast.
std::optional<std::string> why_unusable_anywhere(TemplateIdentities& identities, const Winner& winner);

// The verdict on a row from another database or file. REQUIRES: the row has passed the store's checks of its form.
struct RowJudgement {
    enum class Verdict { take, unusable, impossible };
    Verdict verdict = Verdict::take;
    std::string why{};  // for a refused row the reason; for an accepted one its doubt, empty if it is trusted
};
RowJudgement judge(TemplateIdentities& identities, const Winner& winner);

}  // namespace autotune
