#include "tools/cli/output/terminal/progress.h"

#include <fmt/format.h>

#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

constexpr std::chrono::milliseconds kLeastGap{100};  // people need at most ten updates per second
constexpr std::size_t kUnknownColumns = 80;

std::string_view phase_text(tuner::Phase phase) {
    switch (phase) {
        case tuner::Phase::compile:
            return "compiling";
        case tuner::Phase::trial:
            return "searching";
        case tuner::Phase::final_rounds:
            return "final rounds";
        case tuner::Phase::done:
            return "done";
    }
    return "";
}

// One column stays free, because a line that fills the terminal would wrap, and a carriage return could not undo that.
std::string cut_to(std::string text, std::size_t columns) {
    if (text.size() >= columns) text.resize(columns > 0 ? columns - 1 : 0);
    return text;
}

}  // namespace

ProgressLine::ProgressLine(Session& session) : session_(session), shows_progress_(session.streams().err_is_terminal) {
    const std::string level = session.environment().get("AUTOTUNE_LOG").value_or("warn");
    logs_trials_ = level == "info" || level == "debug" || level == "trace";
}

std::string progress_text(const tuner::Progress& progress) {
    if (progress.total > 0) {
        const std::string failed = progress.failed > 0 ? fmt::format(" ({} failed)", progress.failed) : "";
        std::string text =
            fmt::format("compiled {} of {}{}, {}", progress.compiled, progress.total, failed, seconds_text(progress.elapsed_s));
        if (progress.eta_s && progress.compiled < progress.total) text += ", " + seconds_text(*progress.eta_s) + " left";
        return text;
    }
    std::string text = fmt::format("{}: compiled {}, tried {}", phase_text(progress.phase), progress.compiled, progress.tried);
    if (progress.failed > 0) text += fmt::format(" ({} failed)", progress.failed);
    if (progress.best_us) text += ", best " + us_text(*progress.best_us) + " us";
    if (progress.best_us && progress.default_us)
        text += fmt::format(" ({:.2f} x the default's speed)", *progress.default_us / *progress.best_us);
    text += ", " + seconds_text(progress.elapsed_s);
    if (progress.eta_s) text += ", " + seconds_text(*progress.eta_s) + " left";
    return text;
}

void ProgressLine::show(const std::string& line) {
    const Streams& streams = session_.streams();
    const std::size_t columns = streams.err_columns ? streams.err_columns() : 0;
    const std::string text = cut_to(prefix_.empty() ? line : prefix_ + "  " + line, columns == 0 ? kUnknownColumns : columns);
    session_.err() << "\r\x1b[K" << text << std::flush;
    shown_ = true;
}

void ProgressLine::on_progress(const tuner::Progress& progress) {
    if (!shows_progress_) return;
    const auto now = std::chrono::steady_clock::now();
    if (shown_ && now - last_shown_ < kLeastGap) return;
    last_shown_ = now;
    show(progress_text(progress));
}

void ProgressLine::on_trial(const Trial& trial) {
    if (!logs_trials_) return;
    clear();
    session_.err() << "trial: " << to_string(trial.status) << "  " << trial.candidate.to_string();
    if (trial.timing) session_.err() << "  " << us_text(trial.timing->median_us) << " us";
    if (!trial.detail.empty()) session_.err() << "  " << printable(trial.detail);
    session_.err() << "\n";
}

void ProgressLine::on_warning(const std::string& text) {
    clear();
    session_.warn(text);
}

void ProgressLine::clear() {
    if (shown_) session_.err() << "\r\x1b[K" << std::flush;
    shown_ = false;
}

}  // namespace autotune::cli
