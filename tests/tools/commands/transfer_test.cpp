#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"
#include "tests/tools/commands/words_of_commands.h"

namespace autotune::cli {
namespace {

using testing::HasSubstr;

TEST(Transfer, WhatIsExportedIsImported) {
    CliBench here, there;
    here({"--op", "hgemm", "--shape", "8,16x8x8"});
    const std::string path = there.file("rows.jsonl", here({"export"}).out);
    EXPECT_EQ(there({"import", path}).code, ExitCode::done);
    EXPECT_EQ(there({"show", "--json"}).json()["total"], 2);
}

TEST(Transfer, ARowThatIsNotValidIsRefusedAndTheOthersAreTaken) {
    CliBench here, there;
    here(on(""));
    const std::string good = here({"export"}).out;
    std::string foreign = good;
    foreign.replace(foreign.find("gemm/"), 5, "gemm/x");
    const std::string path = there.file("rows.jsonl", "{\"op\": \n" + foreign + good);
    const Said said = there({"import", path});
    EXPECT_EQ(said.code, ExitCode::some_failed);
    EXPECT_EQ(there({"show", "--json"}).json()["total"], 1);
    EXPECT_THAT(said.out, HasSubstr("2 refused"));
}

TEST(Transfer, MergeTakesRowsOfAnotherDatabase) {
    CliBench here, there;
    here(on("", {"--db", here.folder + "/here.db"}));
    EXPECT_EQ(there({"merge", here.folder + "/here.db"}).code, ExitCode::done);
    EXPECT_EQ(there({"show", "--json"}).json()["total"], 1);
}

}  // namespace
}  // namespace autotune::cli
