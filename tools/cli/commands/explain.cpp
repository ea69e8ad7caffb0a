#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "src/core/problem/device_key.h"
#include "src/core/spelling.h"
#include "src/dispatch/offers.h"
#include "src/dispatch/rules/refusals.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/command.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/library_choice.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/text/command_line.h"
#include "tools/cli/output/text/evidence_text.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/passed_over.h"

namespace autotune::cli {
namespace {

// A device to explain for: the present GPU, a card that --device-key names, or one that represents its architecture.
struct Subject {
    Device device;
    std::optional<db::Provenance> today{};  // the provenance that a winner of the present GPU would have
    bool is_exact = true;                   // whether only winners of this card count
};

// A winner to explain, and the other cards that have one too.
struct FoundWinner {
    std::optional<db::Winner> winner{};
    std::vector<DeviceIdentity> other_cards{};
};

std::optional<db::Winner> newest_winner(const db::WinnerStore& store, const Problem& problem, const Subject& subject,
                                        std::map<std::string, DeviceIdentity>& cards) {
    std::optional<db::Winner> best;
    for (const db::Winner& row : store.list({.op = problem.op, .class_key = problem.class_key(), .extents = problem.extents})) {
        if (subject.is_exact ? row.device.key() != subject.device.identity.key()
                             : arch_or_empty(row.device) != subject.device.arch())
            continue;
        cards.emplace(row.device.key(), row.device);
        const bool is_wider = best && row.restricted_to.empty() && !best->restricted_to.empty();
        const bool is_as_wide = best && row.restricted_to.empty() == best->restricted_to.empty();
        if (!best || is_wider || (is_as_wide && row.provenance.date > best->provenance.date)) best = row;
    }
    return best;
}

// Finds the winner for the subject. If the subject represents an architecture, this is the newest winner of any such card, and
// the subject becomes that card.
FoundWinner find_winner(const db::WinnerStore& store, const Problem& problem, Subject& subject) {
    std::map<std::string, DeviceIdentity> cards;
    FoundWinner found{.winner = newest_winner(store, problem, subject, cards)};
    if (!found.winner) return found;
    const db::Winner& best = *found.winner;
    cards.erase(best.device.key());
    for (const auto& [key, card] : cards) found.other_cards.push_back(card);
    if (!subject.is_exact) subject.device = device_of(best).value_or(subject.device);
    for (db::Winner& full : store.find(problem, best.device)) {
        if (full.candidate != best.candidate || full.template_identity != best.template_identity ||
            full.restricted_to != best.restricted_to)
            continue;
        found.winner = std::move(full);
        break;
    }
    return found;
}

// Text for other cards: "Winners of this problem are on record for other cards too: NVIDIA H100 (sm_90a, 132 SMs). --device-key
// KEY explains one: ..."
std::string other_cards_text(const std::vector<DeviceIdentity>& cards) {
    std::vector<std::string> names, keys;
    for (const DeviceIdentity& card : cards) {
        names.push_back(device_text(card));
        keys.push_back("--device-key " + card.key());
    }
    return "Other cards have a winner of this problem too: " + join(names, ", ") + "; " + join(keys, " or ") + " explains it.";
}

void print_drops(Session& session, const std::vector<Drop>& drops) {
    if (drops.empty()) return;
    session.out() << "\nDropped on the way to it, of the legal configs:\n";
    for (const Drop& drop : drops)
        session.out() << fmt::format("  {:>12}  {}: {}\n", count_text(drop.count), drop.stage, drop.why);
}

void explain_winner(Session& session, const db::Winner& winner, const Freshness& freshness, bool compared,
                    const Problem& problem) {
    const Op& op = session.catalogue().op_of(problem);
    const db::Evidence& evidence = winner.evidence;
    std::ostream& out = session.out();
    const auto line = [&](const std::string& text) { out << wrapped("", text, session.text_columns()); };
    out << session.bold(wrapped("", winner.candidate.to_string(), session.text_columns()));
    line(wins_text(winner, op, problem));
    if (!winner.restricted_to.empty())
        line("It is the best of " + winner.restricted_to + " alone. The library takes it only if it is pinned; " +
             "a tune without these flags finds the winner of the problem.");
    line(decided_text(evidence));
    if (const std::string rivals = rivals_text(evidence); !rivals.empty()) line(rivals);
    if (const std::string contexts = contexts_text(evidence); !contexts.empty()) line(contexts);
    if (const std::string verified = verified_text(evidence); !verified.empty()) line("Verified: " + verified + ".");
    line(fmt::format("Looked for among {} legal configs: {} tried, {} failed. ", count_text(evidence.space_legal), evidence.tried,
                     evidence.failed) +
         phases_text(evidence));
    line(measured_text(winner));
    if (winner.compile.registers >= 0)
        line(fmt::format("It takes {} registers and spills {} bytes.", winner.compile.registers, winner.compile.spill_bytes));
    line(freshness_text(freshness, compared));
    for (const std::string& command : freshness.remedies) out << "  " << command << "\n";
    if (session.full()) print_drops(session, drops_of(evidence));
    if (!evidence.finalists.empty()) out << "\n" << finalists_table(evidence, op, problem, session.full());
}

Json drops_json(const std::vector<Drop>& drops) {
    Json list = Json::array();
    for (const Drop& drop : drops) list.push_back({{"stage", drop.stage}, {"count", drop.count}, {"why", drop.why}});
    return list;
}

// Adds members from the evidence, besides the winner itself.
void add_winner_json(Json& json, const db::Winner& winner, const Freshness& freshness, bool compared) {
    json["against_rivals"] = standing_word(standing_of(winner.evidence));
    json["evidence"] = evidence_json(winner.evidence);
    json["dropped"] = drops_json(drops_of(winner.evidence));
    json["usable"] = freshness.usable;
    json["stale"] = compared ? Json(freshness.stale) : Json(nullptr);
    json["stale_because"] = freshness.because;
    json["remedy"] = join(freshness.remedies, " or ");
}

Json trials_json(const std::vector<db::StoredTrial>& trials) {
    Json list = Json::array();
    for (const db::StoredTrial& stored : trials) {
        Json json{{"family", stored.trial.candidate.family},
                  {"config", config_json(stored.trial.candidate.config)},
                  {"status", to_string(stored.trial.status)}};
        json["median_us"] = stored.trial.timing ? Json(stored.trial.timing->median_us) : Json(nullptr);
        if (!stored.trial.detail.empty()) json["detail"] = stored.trial.detail;
        list.push_back(json);
    }
    return list;
}

// The effect of the pinned parameters on a family: whether any legal config has them and, for a full config, why not.
void explain_pins(Session& session, const Family& family, const SearchSpace& space, const Config& pins) {
    if (pins.empty()) return;
    Config whole = space.default_config;
    for (const auto& [name, value] : pins.values()) whole.set(name, value);
    const auto reason = space.why_not(whole);
    const std::size_t others = space.enumerate(pins, 1000).size();
    const std::string text =
        fmt::format("{} with {}: {}; {}{} legal configs have {}", family.name(), whole.to_string(),
                    reason ? "not legal: " + *reason : "legal", others, others == 1000 ? " or more" : "", pins.to_string());
    session.out() << wrapped("", text, session.text_columns());
}

// In text, families and their constraints are shown only with --full; pinned parameters are always explained.
void explain_spaces(Session& session, const Problem& problem, const Device& device, const tuner::Choice& choice, Json& json) {
    const bool in_text = session.full() && !session.json();
    Json families = Json::array();
    for (const Family* family : session.catalogue().families_of(problem.op)) {
        if (const auto reason = why_unable(*family, problem, device)) {
            families.push_back({{"name", family->name()}, {"refused", *reason}});
            if (in_text) session.out() << fmt::format("{}: not used, {}\n", family->name(), *reason);
            continue;
        }
        const SearchSpace space = family->space(problem, device);
        const SpaceCount count = space.count();
        Json reasons = Json::object();
        for (const auto& [reason, number] : count.dropped) reasons[reason] = number;
        families.push_back({{"name", family->name()},
                            {"points", count.points},
                            {"legal", count.legal},
                            {"instances", count.instances},
                            {"dropped", reasons}});
        if (!session.json()) explain_pins(session, *family, space, choice.pins);
        if (!in_text) continue;
        session.out() << fmt::format("{}: {} of {} configs are legal, {} instances\n", family->name(), count_text(count.legal),
                                     count_text(count.points), count_text(count.instances));
        for (const auto& [reason, number] : count.dropped)
            session.out() << fmt::format("  {:>12}  {}\n", count_text(number), reason);
    }
    json["families"] = families;
}

// The kernel that the library runs without a winner; for a tuned problem it is shown with --full and --json.
void explain_untuned(Session& session, const Subject& subject, const Problem& problem, Json& json) {
    const bool is_asked = session.json() || session.full() || json["winner"].is_null();
    const auto choice = is_asked ? LibraryChoice(session).untuned(problem, subject.device) : std::nullopt;
    json["untuned"] = choice ? untuned_json(*choice) : Json(nullptr);
    if (!choice || session.json()) return;
    session.out() << wrapped("untuned    ", choice->candidate.to_string(), session.text_columns())
                  << wrapped("           ", untuned_text(*choice), session.text_columns());
}

// The result in one line, printed before the problem and the device.
std::string first_line(const std::optional<db::Winner>& winner, const Freshness& freshness) {
    if (!winner) return "No winner is on record.";
    if (!freshness.usable) return "The stored winner is not used: " + freshness.because + ".";
    return result_text(*winner);
}

std::string no_winner_text(Session& session, const Subject& subject, const Problem& problem) {
    const FamilyDefaults defaults = family_defaults(session.catalogue(), problem, subject.device);
    if (defaults.candidates.empty()) return "There is none: " + defaults.refusals.sentence(problem, subject.device);
    const std::string tune = "`autotune " + problem_flags_text(session.catalogue(), problem, session.arguments()) +
                             shared_flags_text(session.arguments()) + "`";
    return tune + (subject.today ? " finds one." : " finds one, on a machine with such a GPU.");
}

void explain_one(Session& session, const db::WinnerStore& store, Subject subject, const Problem& problem) {
    const Op& op = session.catalogue().op_of(problem);
    const tuner::Choice choice = choice_of(session, problem, subject.device);
    const bool is_this_gpu = subject.today.has_value();
    const FoundWinner found = find_winner(store, problem, subject);
    const std::optional<db::Winner>& winner = found.winner;
    const Freshness freshness =
        winner ? freshness_of(session.catalogue(), *winner, problem, subject.today, session.arguments()) : Freshness{};
    Json json{{"problem", problem_json(problem)}, {"device", device_json(subject.device)}};
    json["result"] = first_line(winner, freshness);
    json["also_tuned_for"] = Json::array();
    for (const DeviceIdentity& card : found.other_cards) json["also_tuned_for"].push_back(identity_json(card));
    json["winner"] = winner ? winner_json(*winner, &op, &problem) : Json(nullptr);
    if (!session.json())
        session.out() << session.bold(wrapped("", first_line(winner, freshness), session.text_columns())) << "\n"
                      << problem_text(problem) << "\n"
                      << device_text(subject.device.identity) << "\n\n";
    if (winner) {
        add_winner_json(json, *winner, freshness, is_this_gpu);
        if (!session.json()) explain_winner(session, *winner, freshness, is_this_gpu, problem);
    } else if (!session.json()) {
        session.out() << no_winner_text(session, subject, problem) << "\n";
    }
    explain_untuned(session, subject, problem, json);
    const ProblemPassedOver passed_over = passed_over_for(session, store, problem, subject.device);
    add_passed_over_json(json, passed_over);
    if (!session.json()) {
        if (!found.other_cards.empty()) session.out() << wrapped("", other_cards_text(found.other_cards), session.text_columns());
        for (const std::string& line : passed_over_lines(passed_over)) session.out() << wrapped("", line, session.text_columns());
        session.out() << "\n";
    }
    explain_spaces(session, problem, subject.device, choice, json);
    if (!session.json() && !session.full())
        session.out() << "--full adds what was dropped on the way, and each family's space with what its constraints drop.\n\n";
    if (!session.json()) return;
    json["trials"] = trials_json(store.trials(problem, subject.device.identity));
    print_json(session, json);
}

// The card that --device-key names: one with stored winners, or the well-known one of an architecture.
Device device_with_key(const db::WinnerStore& store, const std::string& given) {
    const std::string key = todays_device_key(given);
    for (const db::Winner& row : store.list({.device_key = key, .limit = 1}))
        if (const auto device = device_of(row)) return *device;
    std::vector<std::string> keys;
    for (const std::string& arch : known_archs()) {
        const Device device = *reference_device(arch);
        if (device.identity.key() == key) return device;
        keys.push_back(device.identity.key());
    }
    store.scan({}, [&](const db::Winner& row) {
        if (std::find(keys.begin(), keys.end(), row.device.key()) == keys.end()) keys.push_back(row.device.key());
        return true;
    });
    throw Error(ErrorCode::usage, "no winner is of a device '" + given + "'" + did_you_mean(key, keys) + "; the known ones are " +
                                      join(keys, ", "));
}

// If an architecture was given, or there is no GPU, a card of the architecture represents it.
std::vector<Subject> subjects_of(Session& session, const db::WinnerStore& store) {
    const Arguments& arguments = session.arguments();
    if (arguments.has("arch") && arguments.has("device-key"))
        throw Error(ErrorCode::usage, "--arch and --device-key exclude each other; give one of them");
    std::optional<Gpu> gpu;
    if (!arguments.has("arch")) gpu = session.find_gpu();
    const bool is_of_another =
        gpu && arguments.has("device-key") && gpu->device.identity.key() != todays_device_key(arguments.text("device-key"));
    if (gpu && !is_of_another) {
        session.learn_versions(*gpu);
        return {{gpu->device, gpu->provenance}};
    }
    if (arguments.has("device-key")) return {{device_with_key(store, arguments.text("device-key"))}};
    std::vector<Subject> subjects;
    for (const Device& device : devices_of_archs(arguments, {"sm_90a"}))
        subjects.push_back({.device = device, .is_exact = false});
    return subjects;
}

ExitCode run_explain(Session& session, const Arguments&) {
    const std::vector<Problem> problems = problems_of(session);
    check_choice(session, problems);
    const db::WinnerStore& store = session.open_store_to_read();
    const std::vector<Subject> subjects = subjects_of(session, store);
    session.document().expect(subjects.size() * problems.size());
    for (const Subject& subject : subjects) {
        for (const Problem& problem : problems) explain_one(session, store, subject, problem);
    }
    return ExitCode::done;
}

}  // namespace

Command explain_command() {
    return {.name = "explain",
            .about = "why the winner won, how sure that is, what was dropped and why, and whether it is stale",
            .examples = {"autotune explain --op hgemm --shape 4096x4096x2048",
                         "autotune explain --op hgemm --shape 4096x4096x2048 --arch sm_80 --param stages=6"},
            .flags = problem_flags() + choice_flags() + device_flags() +
                     std::vector<Flag>{{"device-key", "KEY", "for this device, as show --json names it", false, {}},
                                       arch_flag(),
                                       templates_flag(),
                                       full_flag()} +
                     store_flags() + output_flags() + std::vector<Flag>{kernel_flag()},
            .takes_op_options = true,
            .words = "",
            .min_positional = 0,
            .run = run_explain};
}

}  // namespace autotune::cli
