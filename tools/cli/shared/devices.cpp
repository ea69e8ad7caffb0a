#include "tools/cli/shared/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "src/core/error.h"

namespace autotune::cli {
namespace {

// "0 (GPU-5a3c..., NVIDIA H200), 1 (...)".
std::string list_of(const std::vector<Gpu>& gpus) {
    std::string text;
    for (const Gpu& gpu : gpus) {
        text +=
            (text.empty() ? "" : ", ") + std::to_string(gpu.ordinal) + " (" + gpu.uuid + ", " + gpu.device.identity.name + ")";
    }
    return text;
}

const Gpu& named(const std::vector<Gpu>& gpus, const std::string& word) {
    const auto found = std::find_if(gpus.begin(), gpus.end(),
                                    [&](const Gpu& gpu) { return word == gpu.uuid || word == std::to_string(gpu.ordinal); });
    if (found == gpus.end())
        throw Error(ErrorCode::usage, "--devices: there is no GPU " + word + " here; there are " + list_of(gpus));
    return *found;
}

void require_one_kind(const std::vector<Gpu>& gpus) {
    std::set<std::string> kinds;
    for (const Gpu& gpu : gpus) kinds.insert(gpu.device.identity.key());
    if (kinds.size() > 1)
        throw Error(ErrorCode::usage, "these GPUs are of " + std::to_string(kinds.size()) + " kinds: " + list_of(gpus) +
                                          "; name those of one kind with --devices, or add --each-class to tune every problem "
                                          "for each kind");
}

}  // namespace

std::vector<Flag> devices_flags() {
    return {{"devices", "LIST", "work on several GPUs: all, or ordinals and UUIDs", false, {}},
            {"allow-mps", "", "with --devices: also GPUs with an MPS server", false, {}},
            {"finals",
             "HOW",
             "final rounds of several GPUs: together or in-turns; default: together from 2 x GPUs + 1 processors on",
             false,
             {"together", "in-turns"}},
            {"each-class", "", "with --devices: tune every problem for each kind of card", false, {}}};
}

std::string gpu_text(const Gpu& gpu) {
    return "GPU " + std::to_string(gpu.ordinal) + " (" + gpu.uuid + ")";
}

CardTrouble why_not_usable(Session& session, const Gpu& gpu) {
    const gpu::CardUse use = session.services().card(gpu).use;
    const std::string name = gpu_text(gpu);
    if (use.is_prohibited)
        return {name +
                    " is in compute mode Prohibited, in which no program can use it; an administrator changes that with "
                    "`nvidia-smi -i " +
                    std::to_string(gpu.ordinal) + " -c DEFAULT`",
                ErrorCode::no_gpu};
    if (use.serves_mps && !session.arguments().has("allow-mps"))
        return {name +
                " is shared through MPS, where a kernel that fails ends every program on it; end the MPS server, or add "
                "--allow-mps"};
    return {};
}

CardTrouble why_not_free(Session& session, const Gpu& gpu) {
    if (CardTrouble trouble = why_not_usable(session, gpu); !trouble.text.empty()) return trouble;
    constexpr double kMostUsed_gib = 1;
    constexpr int kMostBusy_percent = 10;
    const gpu::CardUse use = session.services().card(gpu).use;
    const std::string name = gpu_text(gpu);
    std::string load;
    if (use.load.used_gib.value_or(0) > kMostUsed_gib)
        load = fmt::format("{:.1f} GiB of its memory are used", *use.load.used_gib);
    else if (use.load.percent.value_or(0) >= kMostBusy_percent)
        load = fmt::format("it is busy for {} % of the time", *use.load.percent);
    if (load.empty()) return {};
    const std::vector<gpu::CardLoad::Process> running = use.load.processes.value_or(std::vector<gpu::CardLoad::Process>{});
    std::string processes;
    for (std::size_t i = 0; i < running.size() && i < 4; ++i)
        processes += (i == 0 ? " by process " : ", ") + std::to_string(running[i].pid);
    return {name + " is in use" + processes + ": " + load + "; end what runs there, or leave this GPU out of --devices"};
}

namespace {

// If all GPUs were requested, a GPU with a problem is skipped. Otherwise this throws.
std::vector<Gpu> without_trouble(Session& session, std::vector<Gpu> gpus, bool is_all,
                                 CardTrouble (*trouble_of)(Session&, const Gpu&), const char* none) {
    std::vector<Gpu> free;
    std::optional<CardTrouble> last;
    for (Gpu& gpu : gpus) {
        CardTrouble trouble = trouble_of(session, gpu);
        if (trouble.text.empty()) {
            free.push_back(std::move(gpu));
            continue;
        }
        if (!is_all) throw Error(trouble.code, trouble.text);
        session.warn("passed over: " + trouble.text);
        last = std::move(trouble);
    }
    if (free.empty() && last) throw Error(last->code, none + std::string("; the last one: ") + last->text);
    return free;
}

}  // namespace

std::vector<Gpu> free_ones(Session& session, std::vector<Gpu> gpus) {
    const bool is_all = session.arguments().text("devices") == "all";
    return without_trouble(session, std::move(gpus), is_all, why_not_free, "no GPU is free");
}

std::vector<Gpu> usable_ones(Session& session, std::vector<Gpu> gpus, bool is_all) {
    return without_trouble(session, std::move(gpus), is_all, why_not_usable, "no GPU can be used");
}

tuner::LaneGpu lane_gpu(Session& session, const Gpu& gpu) {
    const bool is_shared = session.services().card(gpu).use.serves_mps;
    tuner::LaneGpu lane{.device = gpu.device,
                        .uuid = gpu.uuid,
                        .ordinal = gpu.ordinal,
                        .provenance = gpu.provenance,
                        .note = is_shared ? "on a GPU shared through MPS" : ""};
    lane.provenance.tool_version = session.program().version;
    return lane;
}

std::vector<Gpu> gpus_named(Session& session, const std::vector<std::string>& words, const std::string& purpose) {
    std::vector<Gpu> here{session.need_gpu(purpose)};
    for (int i = 1; i < here.front().count; ++i) here.push_back(session.services().open_gpu(i));
    std::vector<Gpu> chosen;
    if (words == std::vector<std::string>{"all"}) {
        chosen = here;
        std::sort(chosen.begin(), chosen.end(), [](const Gpu& one, const Gpu& other) { return one.pci < other.pci; });
    }
    for (const std::string& word : words) {
        if (!chosen.empty() && words.size() == 1) break;
        const Gpu& gpu = named(here, word);
        const bool is_there = std::any_of(chosen.begin(), chosen.end(), [&](const Gpu& other) { return other.uuid == gpu.uuid; });
        if (is_there) throw Error(ErrorCode::usage, "--devices names " + gpu_text(gpu) + " twice; name it once");
        chosen.push_back(gpu);
    }
    return chosen;
}

std::vector<Gpu> gpus_of_devices(Session& session, const std::string& purpose) {
    const Arguments& arguments = session.arguments();
    if (arguments.has("device")) throw Error(ErrorCode::usage, "--device and --devices exclude each other; give one of them");
    std::vector<Gpu> chosen = gpus_named(session, arguments.list("devices"), purpose);
    if (!arguments.has("each-class")) require_one_kind(chosen);
    return chosen;
}

}  // namespace autotune::cli
