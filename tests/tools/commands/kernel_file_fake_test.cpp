// A user's kernel from its file to a stored winner, on the scripted driver: the program, its compile workers and its GPU worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/fake/fake_run.h"

namespace autotune::kernel_file_fake_test {
namespace {

using fake::Outcome;
using fake::RunOptions;
using fake::Sandbox;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr double kPatience_s = 110;

std::string example(const std::string& name) {
    return std::string(AUTOTUNE_TEST_DATA) + "/../../examples/kernels/" + name + ".toml";
}

Outcome run(const Sandbox& machine, const std::vector<std::string>& words) {
    RunOptions options;
    options.timeout_s = kPatience_s;
    return machine.autotune(words, options);
}

std::vector<std::string> tune(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"tune", "--kernel", example(name), "--budget", "20s,6t", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

json json_of(const Outcome& outcome) {
    return json::parse(outcome.out, nullptr, false);
}

class KernelFileProduct : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        machine_ = new Sandbox;
        tuned_ = new Outcome(run(*machine_, tune("conv2d", {"--shape", "n=1000", "--filter", "5"})));
    }
    static void TearDownTestSuite() {
        delete tuned_;
        delete machine_;
    }
    void SetUp() override { ASSERT_EQ(tuned_->exit_code, 0) << tuned_->err << tuned_->out; }

    static Sandbox* machine_;
    static Outcome* tuned_;
};
Sandbox* KernelFileProduct::machine_ = nullptr;
Outcome* KernelFileProduct::tuned_ = nullptr;

TEST_F(KernelFileProduct, IsTunedVerifiedAndStored) {
    const json said = json_of(*tuned_);
    EXPECT_EQ(said["tuned"], true);
    EXPECT_EQ(said["winner"]["family"], "user_conv2d/main");
    EXPECT_EQ(said["problem"]["op"], "user_conv2d");
    EXPECT_TRUE(said["winner"]["config"].contains("use_smem"));
    EXPECT_EQ(machine_->count_calls("BUG"), 0);
}

TEST_F(KernelFileProduct, IsSearchedLongerThanAProblemWithACostModel) {
    const Outcome asked = run(*machine_, {"tune", "--kernel", example("conv2d"), "--dry-run", "--json"});
    EXPECT_EQ(json_of(asked)["budget"]["seconds"], 20) << asked.err;
    const Outcome built_in = run(*machine_, {"tune", "--op", "hgemm", "--shape", "64x64x64", "--dry-run", "--json"});
    EXPECT_EQ(json_of(built_in)["budget"]["seconds"], 7) << built_in.err;
}

TEST_F(KernelFileProduct, IsRecalledBySizeByNameAndByTheExampleWithoutAShape) {
    for (const std::string& shape : {std::string("1000"), std::string("n=1000")}) {
        const Outcome again = run(*machine_, tune("conv2d", {"--shape", shape, "--filter", "5"}));
        EXPECT_EQ(json_of(again)["tuned"], false) << again.err;
    }
    const Outcome first = run(*machine_, tune("conv2d", {"--dry-run"}));
    EXPECT_EQ(first.exit_code, 0) << first.err;
    EXPECT_THAT(first.out, HasSubstr("4096"));
}

TEST_F(KernelFileProduct, IsShownWithItsFileAndListedWithout) {
    const Outcome with = run(*machine_, {"show", "--kernel", example("conv2d")});
    EXPECT_THAT(with.out, AllOf(HasSubstr("user_conv2d"), HasSubstr("tuned"), Not(HasSubstr("not here"))));
    const Outcome without = run(*machine_, {"show"});
    EXPECT_EQ(without.exit_code, 0) << without.err;
    EXPECT_THAT(without.out, AllOf(HasSubstr("user_conv2d"), HasSubstr("kernel file not here")));
}

TEST_F(KernelFileProduct, RowsCarryNoSourceAndNoPath) {
    const Outcome rows = run(*machine_, {"export", "--kernel", example("conv2d")});
    EXPECT_EQ(rows.exit_code, 0) << rows.err;
    EXPECT_THAT(rows.out, AllOf(HasSubstr("user_conv2d"), Not(HasSubstr("__global__")), Not(HasSubstr("conv2d.toml")),
                                Not(HasSubstr("-default-device"))));
}

TEST_F(KernelFileProduct, IsExportedAsAHeaderForAnotherCompiler) {
    const std::string path = (machine_->folder() / "conv2d_tuned.h").string();
    const Outcome written =
        run(*machine_, {"export", "--kernel", example("conv2d"), "--header", path, "--shape", "1000", "--filter", "5"});
    ASSERT_EQ(written.exit_code, 0) << written.err;
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    const json config = json_of(*tuned_)["winner"]["config"];
    EXPECT_THAT(text.str(), AllOf(HasSubstr("// The winner of user_conv2d "), HasSubstr("#pragma once"),
                                  HasSubstr("constexpr int block_x = " + std::to_string(config["block_x"].get<int>()) + ";"),
                                  HasSubstr("#define use_smem " + std::to_string(config["use_smem"].get<int>()) + "\n"),
                                  HasSubstr("// conv2d<<<dim3(")));
    const Outcome none = run(*machine_, {"export", "--kernel", example("conv2d"), "--header", path, "--shape", "77"});
    EXPECT_EQ(none.exit_code, 2);
    EXPECT_THAT(none.err, HasSubstr("no winner of user_conv2d that this kernel file can use matches"));
    const Outcome other = run(*machine_, {"export", "--op", "gemm", "--header", path});
    EXPECT_EQ(other.exit_code, 2);
    EXPECT_THAT(other.err, HasSubstr("name the file with --kernel"));
}

// Commands that read or write rows, one after the other: what one writes the next reads.
TEST_F(KernelFileProduct, RowsGoFromOneDatabaseToAnother) {
    const std::string rows = (machine_->folder() / "rows.jsonl").string(), other = (machine_->folder() / "other.db").string();
    const auto with_file = [&](std::vector<std::string> words) {
        words.insert(words.begin() + 1, {"--kernel", example("conv2d")});
        return run(*machine_, words);
    };
    ASSERT_EQ(with_file({"export", "--out", rows}).exit_code, 0);
    const Outcome imported = with_file({"import", rows, "--db", other});
    EXPECT_EQ(imported.exit_code, 0) << imported.err;
    EXPECT_THAT(imported.out, HasSubstr("1"));
    EXPECT_THAT(with_file({"show", "--db", other}).out, AllOf(HasSubstr("user_conv2d"), Not(HasSubstr("not here"))));
    const std::string merged = (machine_->folder() / "merged.db").string();
    const Outcome whole = with_file({"merge", other, "--db", merged});
    EXPECT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_THAT(with_file({"show", "--db", merged}).out, HasSubstr("user_conv2d"));
    const Outcome page = with_file({"report", "--db", merged, "--html", (machine_->folder() / "page.html").string()});
    EXPECT_EQ(page.exit_code, 0) << page.err;
}

TEST_F(KernelFileProduct, RowsAreKeptButNotUsedWhereTheFileIsMissing) {
    const std::string rows = (machine_->folder() / "all.jsonl").string(), other = (machine_->folder() / "without.db").string();
    ASSERT_EQ(run(*machine_, {"export", "--kernel", example("conv2d"), "--out", rows}).exit_code, 0);
    EXPECT_EQ(run(*machine_, {"import", rows, "--db", other}).exit_code, 0);
    EXPECT_THAT(run(*machine_, {"show", "--db", other, "--json"}).out, HasSubstr("kernel file not here"));
}

TEST_F(KernelFileProduct, IsBenchedVerifiedAndExplained) {
    for (const std::string& command : {std::string("bench"), std::string("explain")}) {
        const Outcome outcome = run(*machine_, {command, "--kernel", example("conv2d"), "--shape", "1000", "--filter", "5"});
        EXPECT_EQ(outcome.exit_code, 0) << command << outcome.err << outcome.out;
    }
    const Outcome verified = run(*machine_, {"verify", "--kernel", example("conv2d")});
    EXPECT_EQ(verified.exit_code, 0) << verified.err << verified.out;
}

TEST(KernelFileOnFake, WrongConfigsAreNamedAndTheRunGoesOn) {
    Sandbox machine("rule symbol=^user_transpose_main threads_y=8 do=wrong how=element");
    const Outcome outcome = run(machine, tune("transpose", {"--shape", "64x64"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    const json said = json_of(outcome);
    EXPECT_NE(said["winner"]["config"]["threads_y"], 8);
    EXPECT_GT(said["evidence"]["failed"].get<int>(), 0);
}

TEST(KernelFileOnFake, AConfigThatKillsTheWorkerIsPassedOver) {
    Sandbox machine("rule symbol=^user_transpose_main threads_y=8 do=crash how=kill");
    const Outcome outcome = run(machine, tune("transpose", {"--shape", "1000x1003"}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err << outcome.out;
    EXPECT_NE(json_of(outcome)["winner"]["config"]["threads_y"], 8);
    EXPECT_GT(json_of(outcome)["evidence"]["failed"].get<int>(), 0);
}

TEST(KernelFileOnFake, IsSweptAndWhatWasSweptIsFresh) {
    Sandbox machine;
    const std::vector<std::string> words = {"sweep",  "--kernel", example("transpose"), "--shapes", "64:192:64x100", "--budget",
                                            "20s,3t", "--json"};
    const Outcome swept = run(machine, words);
    ASSERT_EQ(swept.exit_code, 0) << swept.err;
    EXPECT_EQ(json_of(swept)["summary"]["tuned"], 3) << swept.out;
    EXPECT_EQ(json_of(run(machine, words))["summary"]["fresh"], 3);
}

TEST(KernelFileOnFake, IsRecordedAndReplayedWithoutAGpu) {
    Sandbox machine;
    const std::string space = (machine.folder() / "space.jsonl").string();
    const Outcome recorded = run(machine, {"record", "--kernel", example("transpose"), "--shape", "64x64", "--out", space});
    ASSERT_EQ(recorded.exit_code, 0) << recorded.err;
    const Outcome replayed = run(machine, {"simulate", "--kernel", example("transpose"), space, "--runs", "2", "--json"});
    EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
    EXPECT_THAT(replayed.out, HasSubstr("user_transpose"));
}

TEST(KernelFileOnFake, AFileThatIsWrongStartsNothing) {
    Sandbox machine;
    const Outcome outcome = run(machine, {"tune", "--kernel", "/nonexistent/k.toml"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.err, HasSubstr("the kernel file cannot be read: No such file or directory"));
    EXPECT_EQ(machine.count_calls("cuInit"), 0);
}

TEST(KernelFileOnFake, CheckTellsFaultsAndExamplesHaveNone) {
    Sandbox machine;
    for (const char* name : {"conv2d", "transpose", "norm2", "spmv", "tiled_gemm"}) {
        const Outcome outcome = run(machine, {"check", example(name)});
        EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
        EXPECT_THAT(outcome.out, AllOf(HasSubstr("nothing is wrong"), HasSubstr("points are legal")));
    }
    const std::string path = (machine.folder() / "bad.toml").string();
    std::ofstream(path) << "format = 1\n[op]\nnam = \"x\"\n";
    const Outcome outcome = run(machine, {"check", path});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_THAT(outcome.out,
                AllOf(HasSubstr("bad.toml:3:1: [op] has no key 'nam' (did you mean name?)"), HasSubstr("things to put right")));
}

TEST(KernelFileOnFake, NewWritesAPairThatTunesAsItStands) {
    Sandbox machine;
    const auto inside = [&](const std::string& words) {
        RunOptions options;
        options.timeout_s = kPatience_s;
        return machine.run(
            {"/bin/sh", "-c", "cd '" + machine.folder().string() + "' && '" + fake::autotune_binary() + "' " + words}, options);
    };
    const Outcome made = inside("new my_kernel");
    ASSERT_EQ(made.exit_code, 0) << made.err;
    EXPECT_EQ(inside("check my_kernel.toml").exit_code, 0);
    const Outcome tuned = inside("tune --kernel my_kernel.toml --shape n=1000003 --budget 20s,4t --json");
    EXPECT_EQ(tuned.exit_code, 0) << tuned.err;
    EXPECT_EQ(json_of(tuned)["winner"]["family"], "user_my_kernel/main");
    const Outcome again = inside("new my_kernel");
    EXPECT_EQ(again.exit_code, 2);
    EXPECT_THAT(again.err, HasSubstr("is there already, and nothing was written"));
}

}  // namespace
}  // namespace autotune::kernel_file_fake_test
