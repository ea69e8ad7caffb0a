#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "db/text/verdict_line.h"
#include "src/catalogue/sha256.h"
#include "src/core/error.h"
#include "src/dispatch/dispatcher.h"
#include "src/dispatch/stored/label_file.h"
#include "src/records/json_line.h"
#include "tests/runtime/sample.h"
#include "tests/support/embedded_catalogue.h"

namespace autotune::dispatch::label_test {
namespace {

using runtime::test::TempFolder;
using runtime::test::winner_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class LabelTest : public ::testing::Test {
  protected:
    Problem problem(const std::string& shape = "512x512x512") const {
        return catalogue_.problem({"hgemm", shape, {{"beta", "zero"}}});
    }
    static Label of_lines(std::string lines) {
        Label label{"2026-12-01", sha256_hex(lines), std::count(lines.begin(), lines.end(), '\n'), std::move(lines)};
        return label;
    }
    std::string write(const std::string& text) const {
        const std::string path = folder_ / "2026-12-01.jsonl";
        std::ofstream(path) << text;
        return path;
    }
    std::string label_with(const std::vector<db::Winner>& winners) const {
        std::string lines;
        for (const db::Winner& each : winners) lines += records::to_json_line(each) + "\n";
        return write(label_text(of_lines(lines)));
    }
    std::vector<Origin> origins(const Problem& wanted) {
        Dispatcher dispatcher(options_, catalogue_, [this](const std::string& subject, const std::string& message) {
            if (subjects_.insert(subject).second) warnings_.push_back(message);
        });
        std::vector<Origin> found;
        for (const ResolvedCandidate& each : dispatcher.stored().winners(wanted, device_)) found.push_back(each.origin);
        return found;
    }

    TempFolder folder_;
    Dispatcher::Options options_;
    std::vector<std::string> warnings_;
    std::set<std::string> subjects_;
    const Catalogue& catalogue_ = test::embedded_catalogue();
    Device device_ = *reference_device("sm_90a");
};

TEST_F(LabelTest, AnswersBeforeShippedWinners) {
    const db::Winner winner = winner_of(catalogue_, problem(), device_);
    options_.files.label = label_with({winner});
    std::filesystem::create_directory(folder_ / "shipped");
    std::ofstream(folder_ / "shipped/a.jsonl") << records::to_json_line(winner) << "\n";
    options_.files.shipped = folder_ / "shipped";
    EXPECT_THAT(origins(problem()), ElementsAre(Origin::label, Origin::shipped));
    EXPECT_THAT(origins(problem("64x64x64")), SizeIs(0));
    EXPECT_THAT(warnings_, SizeIs(0));
}

TEST_F(LabelTest, ServesOtherExtentsAsNear) {
    options_.files.label = label_with({winner_of(catalogue_, problem(), device_)});
    Dispatcher dispatcher(options_, catalogue_);
    const std::vector<ResolvedCandidate> near = dispatcher.stored().near(problem("528x512x512"), device_);
    ASSERT_THAT(near, SizeIs(1));
    EXPECT_EQ(near.front().origin, Origin::near);
}

TEST_F(LabelTest, DoesNotChangeUnderAProcess) {
    options_.files.label = label_with({winner_of(catalogue_, problem(), device_)});
    Dispatcher dispatcher(options_, catalogue_);
    EXPECT_THAT(dispatcher.stored().winners(problem(), device_), SizeIs(1));
    write("{}\n");
    EXPECT_FALSE(dispatcher.refresh());
    EXPECT_FALSE(dispatcher.stored().winners_changed());
    EXPECT_THAT(dispatcher.stored().winners(problem(), device_), SizeIs(1));
}

TEST_F(LabelTest, AFileThatIsDamagedIsOneWarningAndNoWinners) {
    const std::string good = label_text(of_lines(records::to_json_line(winner_of(catalogue_, problem(), device_)) + "\n"));
    const std::vector<std::pair<std::string, std::string>> damaged = {
        {"", "its first line is not the head"},
        {good.substr(0, good.size() - 20), "it has 0 of 1 winners"},
        {good.substr(0, good.find('\n') + 1), "it has 0 of 1 winners"},
        {std::string(good).replace(good.find("hgemm") == std::string::npos ? good.find("\"op\"") : good.find("\"op\""), 4,
                                   "\"OP\""),
         "its lines do not have its digest"},
        {" " + good, "its first line is not the head"},
        {std::string(good).replace(good.find("label\":1"), 8, "label\":2"), "its first line is not the head"},
        {std::string(good).replace(good.find("2026"), 4, "../x"), "its first line is not the head"}};
    for (const auto& [text, why] : damaged) {
        warnings_.clear();
        subjects_.clear();
        options_.files.label = write(text);
        EXPECT_THAT(origins(problem()), SizeIs(0));
        EXPECT_THAT(warnings_, ElementsAre(HasSubstr(why))) << text.substr(0, 100);
    }
    warnings_.clear();
    subjects_.clear();
    options_.files.label = folder_ / "missing.jsonl";
    EXPECT_THAT(origins(problem()), SizeIs(0));
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("No such file")));
}

TEST_F(LabelTest, ReadsWhatItWrites) {
    const Label label = of_lines("{}\n{\"a\":1}\n");
    const Label read = read_label(write(label_text(label)));
    EXPECT_EQ(read.name, label.name);
    EXPECT_EQ(read.rows, 2);
    EXPECT_EQ(read.lines, label.lines);
    EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(LabelTest, VerdictsStandBesideWinners) {
    const db::Verdict one{"gemm a:f16:1x1:1x1:16", "a card", "torch 2 \"x\" é", 1.25, 0.3, "2026-11-23T18:51:56Z"};
    const std::string line = db::verdict_line(one);
    const std::string winner = records::to_json_line(winner_of(catalogue_, problem(), device_));
    options_.files.label = write(label_text(of_lines(winner + "\n" + line + "\n")));
    EXPECT_THAT(origins(problem()), ElementsAre(Origin::label));
    EXPECT_THAT(warnings_, SizeIs(0));
    const std::vector<db::Verdict> read = verdicts_of(read_label(options_.files.label));
    ASSERT_THAT(read, SizeIs(1));
    EXPECT_EQ(read[0].problem, one.problem);
    EXPECT_EQ(read[0].device, one.device);
    EXPECT_EQ(read[0].rival, one.rival);
    EXPECT_EQ(read[0].in_stream, one.in_stream);
    EXPECT_EQ(read[0].in_graphs, one.in_graphs);
    EXPECT_EQ(read[0].date, one.date);
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string changed = line;
        return changed.replace(changed.find(from), from.size(), to);
    };
    for (const std::string& bad :
         {line.substr(0, 50), with("1.25", "0"), with("1.25", "\"x\""), with("1.25", "1e999"), with("\"device\"", "\"devise\""),
          with("a card", std::string(300, 'x')), with("a card", "a\\ncard")})
        EXPECT_THROW(verdicts_of(of_lines(bad + "\n")), Error) << bad;
}

TEST_F(LabelTest, NamesAreFilesOfTheFolder) {
    for (const char* name : {"prod", "2026-12-01", "a.b_c-d", "0"}) EXPECT_TRUE(is_label_name(name)) << name;
    for (const char* name : {"", "../a", "a/b", ".a", "-a", "A", "a b", "a\n", "é"}) EXPECT_FALSE(is_label_name(name)) << name;
    EXPECT_FALSE(is_label_name(std::string(65, 'a')));
}

}  // namespace
}  // namespace autotune::dispatch::label_test
