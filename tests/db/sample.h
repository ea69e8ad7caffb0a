#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "db/store/store.h"
#include "src/core/error.h"
#include "src/records/json_line.h"

namespace autotune::db::test {

inline DeviceIdentity sample_device() {
    return {
        .cc_major = 9, .cc_minor = 0, .sm_count = 132, .l2_mib = 60, .memory_gib = 140, .bus_bits = 6144, .name = "NVIDIA H200"};
}

inline DeviceIdentity other_device() {
    return {
        .cc_major = 8, .cc_minor = 0, .sm_count = 108, .l2_mib = 40, .memory_gib = 80, .bus_bits = 5120, .name = "NVIDIA A100"};
}

inline Problem sample_problem(std::int64_t m = 4096, std::int64_t n = 4096, std::int64_t k = 2048) {
    Problem problem;
    problem.op = "gemm";
    problem.extents = {{"m", m}, {"n", n}, {"k", k}, {"batch", 1}};
    problem.attributes = {{"a", "f16"}, {"b", "f16"}, {"c", "f16"}, {"acc", "f32"}, {"layout", "nn"}, {"align", "16,16,16"}};
    return problem;
}

inline Candidate sample_candidate(std::int64_t stages = 3) {
    return {.family = "gemm/mma", .config = {{"block_m", 128}, {"block_n", 256}, {"stages", stages}}};
}

inline Winner sample_winner(const Problem& problem = sample_problem(), double median_us = 100) {
    Winner winner;
    winner.op = problem.op;
    winner.class_key = problem.class_key();
    winner.extents = problem.extents;
    winner.device = sample_device();
    winner.template_identity = "3f2a00ff";
    winner.candidate = sample_candidate();
    winner.timing = {.median_us = median_us,
                     .low_us = median_us * 0.99,
                     .high_us = median_us * 1.01,
                     .min_us = median_us * 0.98,
                     .samples = 30};
    winner.compile = {.registers = 168, .spill_bytes = 0, .static_smem_bytes = 512, .compile_ms = 210.5, .cubin_bytes = 34567};
    winner.provenance = {.driver = "580.159.04",
                         .nvrtc = "13.0",
                         .device_name = "NVIDIA H200",
                         .power_limit_w = 700,
                         .method = "final-rounds-1 l2=cold data=normal",
                         .tool_version = "0.1.0",
                         .date = "2026-11-21T01:30:00Z"};
    Evidence& evidence = winner.evidence;
    evidence.rounds = 30;
    evidence.decided_by = "faster";
    evidence.max_error = 0.25;
    evidence.accumulation_error = 0.125;
    evidence.space_legal = 1234;
    evidence.tried = 80;
    evidence.failed = 3;
    evidence.seconds = 40.5;
    evidence.stopped_by = "budget";
    evidence.expected_gain = 0.0125;
    evidence.seed = 0xFFFFFFFFFFFFFFF1ULL;
    evidence.conditions = {.sm_clock_mhz = 1755, .power_w = 690, .temperature_c = 61, .throttle_reasons = std::uint64_t{1} << 63};
    evidence.finalists = {
        {.name = winner.candidate.to_string(), .candidate = winner.candidate, .timing = winner.timing},
        {.name = "cublas",
         .candidate = std::nullopt,
         .timing = winner.timing,
         .ratio = 1.02,
         .ratio_low = 1.01,
         .ratio_high = 1.03,
         .after_itself_us = median_us * 0.9,
         .after_trigger_us = median_us * 0.95,
         .conditions = {.sm_clock_mhz = 1740, .power_w = 688, .temperature_c = std::nullopt, .throttle_reasons = std::nullopt}}};
    evidence.failures = {{"crashed", 1}, {"timed_out", 2}};
    return winner;
}

inline StoredTrial sample_trial(std::int64_t stages, TrialStatus status = TrialStatus::ok) {
    StoredTrial stored;
    stored.trial.candidate = sample_candidate(stages);
    stored.trial.status = status;
    if (status == TrialStatus::ok)
        stored.trial.timing = Timing{.median_us = 50, .low_us = 49, .high_us = 51, .min_us = 48, .samples = 5};
    stored.trial.detail = "a sentence";
    stored.template_identity = "3f2a00ff";
    stored.nvrtc = "13.0";
    stored.method = "stream-2 l2=cold data=normal";
    return stored;
}

inline Store memory_store() {
    return Store::open({.path = ":memory:"});
}

inline std::vector<std::string> texts_of(const std::vector<Warning>& warnings) {
    std::vector<std::string> texts;
    for (const Warning& warning : warnings) texts.push_back(warning.text);
    return texts;
}

// A folder that is deleted after the test.
class TempFolder {
  public:
    TempFolder() {
        // The folder is in memory if possible, because SQLite waits for the disk at every commit, which takes 10 ms on a slow
        // disk.
        const bool has_memory = ::access("/dev/shm", W_OK) == 0;
        std::string pattern = (has_memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/autotune-db-XXXXXX";
        path_ = ::mkdtemp(pattern.data());
    }
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

inline std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

// The fault of the DatabaseError that `act` throws; nullopt if it throws none.
template <class Act>
std::optional<DatabaseFault> fault_of(const Act& act) {
    try {
        act();
    } catch (const DatabaseError& error) {
        return error.fault();
    }
    return std::nullopt;
}

// The message of the Error{database} that `act` throws; "" if it throws none.
template <class Act>
std::string database_error_of(const Act& act) {
    try {
        act();
    } catch (const Error& error) {
        return error.code() == ErrorCode::database ? error.what() : "not a database error: " + std::string(error.what());
    }
    return {};
}

}  // namespace autotune::db::test
