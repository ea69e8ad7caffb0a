#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/json_forms.h"
#include "tools/cli/requests.h"
#include "tools/cli/text_forms.h"

namespace autotune::cli {
namespace {

// The winner to explain: of the given GPU, or of any device of the architecture where there is none.
std::optional<db::Winner> find_winner(const db::Store& store, const Problem& problem, const Device& device, bool is_this_gpu) {
    std::optional<db::Winner> best;
    for (const db::Winner& row : store.list({.op = problem.op, .class_key = problem.class_key(), .extents = problem.extents})) {
        if (is_this_gpu ? row.device.key() != device.identity.key() : arch_or_empty(row.device) != device.arch()) continue;
        if (!best || row.provenance.date > best->provenance.date) best = row;
    }
    if (!best) return best;
    for (db::Winner& full : store.find(problem, best->device)) {
        if (full.candidate == best->candidate && full.template_identity == best->template_identity) return std::move(full);
    }
    return best;
}

std::string how_sure(const db::Evidence& evidence) {
    if (evidence.finalists.size() < 2) return "It was the only finalist.";
    const db::Finalist& second = evidence.finalists[1];
    if (second.tie) {
        return fmt::format("The runner-up, {}, is a tie: it takes {:.3f} of the winner's time (95 % interval {:.3f} .. {:.3f}).",
                           second.name, second.ratio, second.ratio_low, second.ratio_high);
    }
    return fmt::format("The runner-up, {}, takes {:.1f} % longer (95 % interval {:.1f} .. {:.1f} %).", second.name,
                       (second.ratio - 1) * 100, (second.ratio_low - 1) * 100, (second.ratio_high - 1) * 100);
}

std::string conditions_text(const Conditions& conditions) {
    std::string text;
    if (conditions.sm_clock_mhz) text += fmt::format(" at {} MHz", *conditions.sm_clock_mhz);
    if (conditions.power_w) text += fmt::format(", {} W", *conditions.power_w);
    if (conditions.temperature_c) text += fmt::format(", {} C", *conditions.temperature_c);
    return text;
}

std::string failures_text(const db::Evidence& evidence) {
    std::string text;
    for (const auto& [status, count] : evidence.failures) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, status);
    return text.empty() ? "none failed" : text;
}

std::string stale_text(Session& session, const db::Winner& winner) {
    const Family* family = session.catalogue().find_family(winner.candidate.family);
    if (family == nullptr) return "Its family is not part of this version: it is not used.";
    if (session.catalogue().template_identity(*family) != winner.template_identity)
        return "Its template has changed since: it is not used; tune again.";
    return fmt::format(
        "It stays exact while {} keeps its template; another driver, NVRTC or power limit makes it stale, and --retune fresh.",
        winner.candidate.family);
}

void explain_winner(Session& session, const db::Winner& winner, const Op& op, const Problem& problem) {
    const db::Evidence& evidence = winner.evidence;
    const db::Provenance& from = winner.provenance;
    std::ostream& out = session.out();
    out << fmt::format("{} wins with {} us (95 % interval {}), {} {}.\n", session.bold(winner.candidate.to_string()),
                       us_text(winner.timing.median_us), interval_text(winner.timing),
                       rate_text(op, problem, winner.timing.median_us), rate_title(op));
    out << fmt::format("Decided in {} interleaved rounds: {}. {}\n", evidence.rounds,
                       evidence.decided_by.empty() ? "not recorded" : evidence.decided_by, how_sure(evidence));
    if (evidence.max_error)
        out << fmt::format("Verified: its largest error is {:.2f} of what is allowed.\n", *evidence.max_error);
    out << fmt::format(
        "Looked for among {} legal configs: {} tried, {}; stopped by {} after {} (compiling {}, verifying {}, measuring {}), "
        "seed {}.\n",
        count_text(evidence.space_legal), evidence.tried, failures_text(evidence),
        evidence.stopped_by.empty() ? "nothing" : evidence.stopped_by, seconds_text(evidence.seconds),
        seconds_text(evidence.compile_seconds), seconds_text(evidence.verify_seconds), seconds_text(evidence.measure_seconds),
        evidence.seed);
    out << fmt::format("Measured on {}{}, driver {}, NVRTC {}, {}, {} ({}).\n", device_text(winner.device),
                       conditions_text(evidence.conditions), from.driver, from.nvrtc, from.method, from.date,
                       winner.shipped ? "shipped with autotune " + from.tool_version : "by autotune " + from.tool_version);
    if (winner.compile.registers >= 0)
        out << fmt::format("It takes {} registers and spills {} bytes.\n", winner.compile.registers, winner.compile.spill_bytes);
    out << stale_text(session, winner) << "\n";
    if (!evidence.finalists.empty()) out << "\n" << finalists_table(evidence, op, problem);
    out << "\n";
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

// What the pins leave of a family: whether any legal config has them and, for a full config, why not.
void explain_pins(Session& session, const Family& family, const SearchSpace& space, const Config& pins) {
    if (pins.empty()) return;
    Config whole = space.default_config;
    for (const auto& [name, value] : pins.values()) whole.set(name, value);
    const auto reason = space.why_not(whole);
    const std::size_t others = space.enumerate(pins, 1000).size();
    session.out() << fmt::format("{} with {}: {}; {}{} legal configs have {}\n", family.name(), whole.to_string(),
                                 reason ? "not legal: " + *reason : "legal", others, others == 1000 ? " or more" : "",
                                 pins.to_string());
}

void explain_spaces(Session& session, const Problem& problem, const Device& device, const tuner::Choice& choice, Json& json) {
    Json families = Json::array();
    for (const Family* family : session.catalogue().families_of(problem.op)) {
        if (const auto reason = family->refuses(problem, device)) {
            families.push_back({{"name", family->name()}, {"refused", *reason}});
            if (!session.json()) session.out() << fmt::format("{}: not used, {}\n", family->name(), *reason);
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
        if (session.json()) continue;
        session.out() << fmt::format("{}: {} of {} configs are legal, {} instances\n", family->name(), count_text(count.legal),
                                     count_text(count.points), count_text(count.instances));
        for (const auto& [reason, number] : count.dropped)
            session.out() << fmt::format("  {:>12}  {}\n", count_text(number), reason);
        explain_pins(session, *family, space, choice.pins);
    }
    json["families"] = families;
}

void explain_one(Session& session, const db::Store& store, const Device& device, bool is_this_gpu, const Problem& problem) {
    const Op& op = session.catalogue().op_of(problem);
    const tuner::Choice choice = choice_of(session, problem, device);
    const std::optional<db::Winner> winner = find_winner(store, problem, device, is_this_gpu);
    Json json{{"problem", problem_json(problem)}, {"device", device_json(device)}};
    json["winner"] = winner ? winner_json(*winner, &op, &problem) : Json(nullptr);
    if (winner) json["evidence"] = evidence_json(winner->evidence);
    if (!session.json()) {
        session.out() << problem_text(problem) << "\n" << device_text(device.identity) << "\n\n";
        if (winner) explain_winner(session, *winner, op, problem);
        if (!winner)
            session.out() << "No winner is on record; `autotune --op " << problem.op << " --shape " << problem.shape()
                          << " ...` finds one.\n\n";
    }
    explain_spaces(session, problem, device, choice, json);
    if (!session.json()) return;
    json["trials"] = trials_json(store.trials(problem, device.identity));
    print_json(session, json);
}

ExitCode run(Session& session, const Arguments& arguments) {
    const std::vector<Problem> problems = problems_of(session);
    const db::Store store = session.open_store_to_read();
    // Asked for an architecture, or without a GPU: a card of that architecture stands in.
    std::optional<Gpu> gpu;
    if (!arguments.has("arch")) gpu = session.find_gpu();
    const std::vector<Device> devices = gpu ? std::vector<Device>{gpu->device} : devices_of_archs(arguments, {"sm_90a"});
    for (const Device& device : devices) {
        for (const Problem& problem : problems) explain_one(session, store, device, gpu.has_value(), problem);
    }
    return ExitCode::done;
}

}  // namespace

Command explain_command() {
    return {.name = "explain",
            .about = "why the winner won, how sure that is, and what was dropped and why",
            .examples = {"autotune explain --op hgemm --shape 4096x4096x2048",
                         "autotune explain --op hgemm --shape 4096x4096x2048 --arch sm_80 --param stages=6"},
            .flags = problem_flags() + choice_flags() + device_flags() + std::vector<Flag>{arch_flag(), templates_flag()} +
                     store_flags() + output_flags(),
            .takes_op_options = true,
            .words = "",
            .fewest_words = 0,
            .run = run};
}

}  // namespace autotune::cli
