#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "db/store/store.h"
#include "src/records/json_line.h"
#include "tests/db/sample.h"
#include "tools/cli/output/data/json_format.h"
#include "tuner/worker/protocol/wire.h"

namespace autotune {
namespace {

using Json = nlohmann::ordered_json;

// All JSON made from one winner: its line, messages between our processes, and output of commands. Users' files and scripts
// depend on each byte.

// Everything optional is unknown.
Winner bare_winner() {
    Winner winner = db::test::sample_winner(db::test::sample_problem(16, 32, 64), 3.5);
    winner.compile = {};
    winner.provenance = {};
    winner.evidence = {};
    winner.evidence.finalists = {{.name = "cublas", .timing = winner.timing}};
    winner.doubt = "its time is under the launch's";
    return winner;
}

std::string texts_of(const Winner& winner) {
    Trial trial{.candidate = winner.candidate,
                .status = TrialStatus::ok,
                .timing = winner.timing,
                .max_error = winner.evidence.max_error,
                .compile = winner.compile,
                .detail = "a sentence"};
    trial.compile.from_cache = true;
    std::string texts;
    const auto add = [&texts](const char* name, const std::string& text) { texts.append(name).append(" ").append(text) += '\n'; };
    add("line", records::to_json_line(winner));
    add("message_trial", tuner::wire::write(trial).dump());
    add("message_report", tuner::wire::write(winner.compile).dump());
    add("report_device", cli::identity_json(winner.device).dump());
    add("report_compile", cli::compile_json(trial.compile).dump());
    add("report_conditions", cli::conditions_json(winner.evidence.conditions).dump());
    add("report_provenance", cli::provenance_json(winner.provenance).dump());
    add("report_timing", cli::timing_json(winner.timing).dump());
    add("report_evidence", cli::evidence_json(winner.evidence).dump());
    add("report_winner", cli::winner_json(winner, nullptr, nullptr).dump());
    return texts;
}

std::string golden(const std::string& name) {
    std::ifstream file(std::string(AUTOTUNE_TEST_DATA) + "/json/" + name);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(RecordFormats, OfAWholeWinnerAreAsTheyWere) {
    EXPECT_EQ(texts_of(db::test::sample_winner()), golden("whole_winner.txt"));
}

TEST(RecordFormats, OfABareWinnerAreAsTheyWere) {
    EXPECT_EQ(texts_of(bare_winner()), golden("bare_winner.txt"));
}

TEST(RecordFormats, AreReadAsTheyAreWritten) {
    for (const Winner& winner : {db::test::sample_winner(), bare_winner()}) {
        const std::string line = records::to_json_line(winner);
        EXPECT_EQ(records::to_json_line(records::from_json_line(line)), line);
        const Json report = tuner::wire::write(winner.compile);
        EXPECT_EQ(tuner::wire::write(tuner::wire::read_report(report)), report);
    }
}

}  // namespace
}  // namespace autotune
