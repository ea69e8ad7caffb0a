#pragma once

#include <autotune/autotune.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "db/store/store.h"
#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"

namespace autotune::runtime::test {

// A folder that is deleted after the test.
class TempFolder {
  public:
    TempFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "autotune-runtime-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

// A config of gemm/mma, or of the only family of another op, that is not its default, legal for the problem on the device.
inline Candidate other_than_default(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    const Family* family = problem.op == "gemm" ? catalogue.find_family("gemm/mma") : catalogue.families_of(problem.op).front();
    const SearchSpace space = family->space(problem, device);
    for (const Config& config : space.enumerate({}, 50))
        if (config != space.default_config) return {std::string(family->name()), config};
    return {};
}

// A row as the tuner would store it, for today's template.
inline db::Winner winner_of(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    db::Winner winner;
    winner.op = problem.op;
    winner.class_key = problem.class_key();
    winner.extents = problem.extents;
    winner.device = device.identity;
    winner.candidate = other_than_default(catalogue, problem, device);
    winner.template_identity = catalogue.template_identity(*catalogue.find_family(winner.candidate.family));
    winner.timing = {.median_us = 10, .low_us = 9, .high_us = 11, .min_us = 9, .samples = 30};
    winner.provenance = {.driver = "580.1",
                         .nvrtc = "13.0",
                         .device_name = "NVIDIA H200",
                         .power_limit_w = 700,
                         .method = "final-rounds-1",
                         .tool_version = "0.1.0",
                         .date = "2026-11-21T01:30:00Z"};
    winner.evidence.rounds = 30;
    winner.evidence.decided_by = "faster";
    winner.evidence.stopped_by = "budget";
    winner.evidence.finalists = {{.name = winner.candidate.to_string(), .candidate = winner.candidate, .timing = winner.timing}};
    return winner;
}

// The default that is predicted fastest for a problem. So no model predicts it to be slow for similar problems.
inline Candidate likely_candidate(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    Candidate likely;
    double least_us = 0;
    for (const Family* family : catalogue.families_of(problem.op)) {
        if (family->refuses(problem, device)) continue;
        const Config config = family->default_config(problem, device);
        const double us = family->predict_us(problem, config, device).value_or(1e9);
        if (likely.family.empty() || us < least_us) likely = {std::string(family->name()), config}, least_us = us;
    }
    return likely;
}

// Receives the library's messages.
struct Listener {
    std::vector<std::string> warnings;
    std::atomic<int> compiles{0};
    static void hear(void* user, autotune_log_level level, const char* message) {
        if (level == AUTOTUNE_LOG_WARNING) static_cast<Listener*>(user)->warnings.emplace_back(message);
        if (std::string_view(message).starts_with("compiling ")) ++static_cast<Listener*>(user)->compiles;
    }
};

}  // namespace autotune::runtime::test
