#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "db/verdicts.h"
#include "src/core/error.h"
#include "src/core/system/private_folder.h"
#include "tools/cli/command.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/passed_over.h"
#include "tools/cli/shared/rows.h"

namespace autotune::cli {
namespace {

enum class Health { ok, note, failed };

struct Finding {
    std::string name;
    Health health = Health::ok;
    std::string detail;
    ExitCode exit_code = ExitCode::error;  // of a failed one
};

std::string_view word_of(Health health) {
    switch (health) {
        case Health::ok:
            return "ok";
        case Health::note:
            return "note";
        case Health::failed:
            return "failed";
    }
    return "";
}

Finding failed(const std::string& name, const Error& error) {
    return {name, Health::failed, error.what(), exit_code_of(error.code())};
}

std::string card_text(const CardFacts& card) {
    if (!card.nvml)
        return "NVML cannot be used" + (card.nvml_trouble.empty() ? "" : " (" + card.nvml_trouble + ")") +
               ": clocks, power and other users of the card are unknown";
    std::string text = "NVML works";
    if (card.conditions.sm_clock_mhz) text += fmt::format(", {} MHz", *card.conditions.sm_clock_mhz);
    if (card.conditions.power_w) text += fmt::format(", {} W", *card.conditions.power_w);
    if (card.power_limit_w) text += fmt::format(" of {} W", *card.power_limit_w);
    if (card.other_processes) text += fmt::format(", {} other processes on the card", *card.other_processes);
    return text;
}

// Sets `gpu` if there is a GPU.
std::vector<Finding> look_at_gpu(Session& session, std::optional<Gpu>& gpu) {
    if (!session.services().driver_installed()) {
        const std::string text = "no CUDA driver (libcuda.so.1) is installed: kernels can be compiled and ranked, not timed";
        return {{"driver", session.arguments().has("require-gpu") ? Health::failed : Health::note, text, ExitCode::no_gpu}};
    }
    try {
        gpu = session.find_gpu();
    } catch (const Error& error) {
        return {failed("driver", error)};
    }
    std::vector<Finding> findings = {
        {"driver", Health::ok,
         fmt::format("CUDA {}.{}{}", gpu->cuda_version / 1000, gpu->cuda_version % 1000 / 10,
                     gpu->provenance.driver.empty() ? "" : ", " + gpu->provenance.driver)},
        {"gpu", Health::ok,
         fmt::format("{} of {}: {}, {}", gpu->ordinal, gpu->count, device_text(gpu->device.identity), gpu->uuid)}};
    const CardFacts card = session.services().card(*gpu);
    const bool shared = card.other_processes.value_or(0) > 0;
    findings.push_back({"card", card.nvml && !shared ? Health::ok : Health::note, card_text(card)});
    return findings;
}

Finding look_at_nvrtc(Session& session, const std::optional<Gpu>& gpu) {
    const int driver_major = gpu ? gpu->cuda_version / 1000 : 0;
    const std::string arch = gpu ? gpu->device.arch() : "sm_80";
    try {
        const NvrtcFacts facts = session.services().nvrtc(session.nvrtc_path(), driver_major);
        const std::string compiler = facts.version + ", " + facts.path;
        const TinyCompile tiny = session.services().compile_tiny(session.nvrtc_path(), driver_major, arch);
        if (tiny.failure.empty())
            return {"nvrtc", Health::ok, fmt::format("{}, compiles for {} in {:.0f} ms", compiler, arch, tiny.milliseconds)};
        return {
            "nvrtc", Health::failed,
            fmt::format("{} does not compile for {}: {}; name another libnvrtc.so in AUTOTUNE_NVRTC, or install NVRTC anew with "
                        "its libnvrtc-builtins of the same version",
                        compiler, arch, tiny.failure.substr(0, tiny.failure.find('\n'))),
            ExitCode::error};
    } catch (const Error& error) {
        return failed("nvrtc", error);
    }
}

// Deletes the rows that every command skips.
void repair_database(Session& session) {
    if (!std::filesystem::exists(session.database_path())) return;
    db::WinnerStore& store = session.open_store();
    const db::RepairReport report = store.repair();
    if (report.backup.empty()) return;
    session.warn(
        fmt::format("database {}: {} rows that referred to nothing and {} that were not valid are deleted; what it was "
                    "before is in {}",
                    store.path(), report.orphans, report.invalid, report.backup));
}

std::string winners_text(std::uint64_t count) {
    return count_text(count) + (count == 1 ? " winner" : " winners");
}

Finding look_at_database(Session& session) {
    try {
        if (session.arguments().has("repair")) repair_database(session);
        const db::WinnerStore& store = session.open_store_if_any();
        const std::vector<db::Warning> warnings = store.warnings();
        const bool is_missing = std::any_of(warnings.begin(), warnings.end(),
                                            [](const db::Warning& warning) { return warning.kind == db::WarningKind::missing; });
        const auto all = static_cast<std::uint64_t>(store.count({}));
        if (is_missing) {
            return {"database", Health::ok,
                    session.database_path() + " (not made yet: the first tune makes it); " + winners_text(all) +
                        (all == 1 ? " is shipped" : " are shipped")};
        }
        const db::FileHealth health = store.check();
        if (!health.damage.empty())
            return {"database", Health::failed, session.database_path() + ": " + health.damage, ExitCode::database};
        if (!health.is_sound()) return {"database", Health::note, passed_over_text(session.database_path(), health)};
        const auto shipped = static_cast<std::uint64_t>(store.list_shipped({}).size());
        const bool is_writable = ::access(session.database_path().c_str(), W_OK) == 0;
        return {"database", Health::ok,
                fmt::format("{}: {} of its own, {} shipped; {}{}", session.database_path(), winners_text(all - shipped),
                            count_text(shipped), store.describe(),
                            is_writable ? "" : ". You may only read it: new winners are not stored in it")};
    } catch (const Error& error) {
        return failed("database", error);
    }
}

// Reports stored winners that are not used. There is no finding if all are used.
std::vector<Finding> look_at_winners(Session& session, const std::optional<Gpu>& gpu) {
    std::vector<Finding> findings;
    try {
        const db::WinnerStore& store = session.open_store_if_any();
        const auto note = [&](const std::string& text) {
            if (!text.empty()) findings.push_back({"winners", Health::note, text});
        };
        note(winners_passed_over_text(session, store, gpu ? gpu->device.identity.key() : ""));
        if (gpu) note(winners_of_other_cards_text(store, gpu->device.identity));
        note(portfolios_passed_over_text(session));
    } catch (const Error&) {
        // The check of the database reports this error.
    }
    return findings;
}

// Reports the cost models' errors, learned from trials on this card. There is no finding without a card or such trials.
std::vector<Finding> look_at_learning(Session& session, const std::optional<Gpu>& gpu) {
    if (!gpu) return {};
    try {
        const std::vector<CostCorrection> all = session.open_store_if_any().corrections(gpu->device.identity.key(), "");
        if (all.empty()) return {};
        std::map<std::string, std::pair<int, double>> families;  // the number of problems, and the weighted sum of deviations
        for (const CostCorrection& one : all) {
            families[one.family].first += one.problems;
            families[one.family].second += one.problems * one.deviation;
        }
        std::string text;
        for (const auto& [family, known] : families)
            text += fmt::format("{}{} from {} {} (errors of {:.0f} % are left)", text.empty() ? "" : ", ", family, known.first,
                                known.first == 1 ? "problem" : "problems", 100 * known.second / std::max(known.first, 1));
        return {
            {"learning", Health::ok,
             fmt::format("trials on this card correct the order in which cost models put candidates: {}. --no-learning ignores "
                         "it; to reset it: sqlite3 {} 'DELETE FROM learning'",
                         text, session.database_path())}};
    } catch (const Error&) {
        return {};  // the check of the database reports this error
    }
}

// Verdicts of autotune.torch, by which its patch takes calls over; no finding if there are none.
std::vector<Finding> look_at_verdicts(Session& session) {
    try {
        (void)session.open_store_if_any();
        db::OpenOptions options = session.store_options();
        options.on_warning = {};  // the store has already reported them
        // for each rival, the number of all verdicts and of those that our kernel has won
        std::map<std::string, std::pair<int, int>> rivals;
        for (const db::Verdict& one : db::read_verdicts(options, "")) {
            auto& [all, won] = rivals[one.rival];
            ++all;
            won += std::max(one.in_stream, one.in_graphs) >= 1 ? 1 : 0;
        }
        std::string text;
        for (const auto& [rival, counts] : rivals)
            text += fmt::format("{}against {}: ours wins {} of {}", text.empty() ? "" : "; ", rival, counts.second, counts.first);
        if (text.empty()) return {};
        return {{"verdicts", Health::ok, text + ". `autotune show --verdicts` lists them"}};
    } catch (const Error&) {
        return {};  // the check of the database reports it
    }
}

// Whether several machines share the folder's file system, where SQLite's locks cannot be trusted.
bool is_network_folder(const std::string& folder) {
    constexpr long nfs = 0x6969, smb = 0x517B, smb2 = 0xFE534D42, cifs = 0xFF534D42, fuse = 0x65735546, lustre = 0x0BD00BD0;
    struct statfs facts = {};
    if (statfs(folder.c_str(), &facts) != 0) return false;
    const auto type = static_cast<long>(static_cast<unsigned long>(facts.f_type) & 0xFFFFFFFFul);
    return type == nfs || type == smb || type == smb2 || type == cifs || type == fuse || type == lustre;
}

// Reports what is unusual about a folder that can be used. `because` says why it is not the usual one.
Finding look_at_folder(const std::string& name, const std::string& folder, const std::string& because) {
    struct stat facts = {};
    const bool is_made = stat(folder.c_str(), &facts) == 0;
    if (!because.empty()) return {name, Health::note, because};
    if (is_made && (facts.st_mode & 022) != 0)
        return {name, Health::note, folder + " can be written by others; chmod 700 closes it"};
    if (is_network_folder(folder))
        return {name, Health::note, folder + " is on a network file system; give each machine a folder of its own"};
    return {name, Health::ok, is_made ? folder : folder + " (not made yet)"};
}

// Commands continue without the place, so this is not a failure.
Finding look_at_place(const std::string& name, const Place& place) {
    return place.path.empty() ? Finding{name, Health::note, place.warning} : look_at_folder(name, place.path, place.warning);
}

// Creates no folder, because commands that only read create nothing.
Finding look_at_database_folder(Session& session) {
    const std::string path = session.database_path();
    const Place found = session.arguments().has("db") ? Place{path, ""} : session.places().database_to_read();
    if (path.empty()) return {"database folder", Health::note, found.warning};
    const std::string folder = std::filesystem::absolute(path).parent_path().string();
    if (const std::string why = why_folder_not_makeable(folder); !why.empty())
        return {"database folder", Health::failed, why + "; name another file with --db or AUTOTUNE_DB", ExitCode::error};
    return look_at_folder("database folder", folder, found.warning);
}

std::vector<Finding> look_at_everything(Session& session) {
    std::optional<Gpu> gpu;
    std::vector<Finding> findings = {{"autotune", Health::ok,
                                      fmt::format("{}, {} ops, {} families", session.program().version,
                                                  session.catalogue().ops().size(), session.catalogue().families().size())}};
    for (Finding& finding : look_at_gpu(session, gpu)) findings.push_back(std::move(finding));
    findings.push_back(look_at_nvrtc(session, gpu));
    findings.push_back(look_at_database(session));
    for (Finding& finding : look_at_winners(session, gpu)) findings.push_back(std::move(finding));
    for (Finding& finding : look_at_learning(session, gpu)) findings.push_back(std::move(finding));
    for (Finding& finding : look_at_verdicts(session)) findings.push_back(std::move(finding));
    findings.push_back(look_at_database_folder(session));
    findings.push_back(look_at_place("cubin cache", session.places().cache()));
    findings.push_back(look_at_place("state folder", session.places().state()));
    return findings;
}

ExitCode run_doctor(Session& session, const Arguments&) {
    const std::vector<Finding> findings = look_at_everything(session);
    ExitCode code = ExitCode::done;
    Json checks = Json::array();
    Table table({{"", Table::Align::left}, {"", Table::Align::left}, {"", Table::Align::left}});
    for (const Finding& finding : findings) {
        // The exit code is that of the first failure, which should be fixed first.
        if (finding.health == Health::failed && code == ExitCode::done) code = finding.exit_code;
        checks.push_back({{"name", finding.name}, {"status", word_of(finding.health)}, {"detail", finding.detail}});
        table.add({finding.name, std::string(word_of(finding.health)), finding.detail});
    }
    if (session.json()) {
        print_json(session, {{"ok", code == ExitCode::done}, {"checks", checks}});
    } else {
        session.out() << table.to_string().substr(1);  // the first character would be an empty title line
    }
    return code;
}

}  // namespace

Command doctor_command() {
    return {
        .name = "doctor",
        .about = "what there is to work with: driver, NVRTC, GPU, database, folders, versions",
        .examples = {"autotune doctor", "autotune doctor --json --require-gpu", "autotune doctor --repair"},
        .flags = device_flags() +
                 std::vector<Flag>{{"repair", "", "delete rows of the database that are not valid, after a backup", false, {}}} +
                 store_flags() + output_flags(),
        .takes_op_options = false,
        .words = "",
        .min_positional = 0,
        .run = run_doctor};
}

}  // namespace autotune::cli
