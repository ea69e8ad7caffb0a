#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "tools/cli/session.h"
#include "tuner/session/tune.h"

namespace autotune::cli {

// Shows a tune: on a terminal, one line on standard error that is overwritten, no wider than the terminal; warnings always;
// trials with AUTOTUNE_LOG=info.
class ProgressLine : public tuner::TuneObserver {
  public:
    explicit ProgressLine(Session& session);
    ~ProgressLine() override { clear(); }
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

    // The text before each line: "3/12 gemm 4096x4096x2048".
    void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }
    void on_progress(const tuner::Progress& progress) override;
    void on_trial(const Trial& trial) override;
    void on_warning(const std::string& text) override;
    // Removes the line, so that something else can be printed.
    void clear();

  private:
    void show(const std::string& line);

    Session& session_;
    bool shows_progress_;
    bool logs_trials_;
    std::string prefix_;
    bool shown_ = false;
    std::chrono::steady_clock::time_point last_shown_;
};

// "searching: compiled 12, tried 8 (1 failed), best 112.3 us, 5.0 s, 14.0 s left"; where the number of compiles is known,
// "compiled 12 of 24, 3.2 s".
std::string progress_text(const tuner::Progress& progress);

}  // namespace autotune::cli
