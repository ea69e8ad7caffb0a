#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::HasSubstr;

TEST(Streams, OutputThatCannotBeWrittenIsAnError) {
    FakeServices services;
    std::ostringstream err;
    std::ofstream full("/dev/full");
    std::atomic<bool> stop{false};
    Cli cli({.out = full, .err = err}, Environment(Environment::Variables{{"HOME", "/nonexistent"}}), services,
            {.binary = "", .version = "1", .shipped_folders = {}, .stop = &stop});
    EXPECT_EQ(cli.run({"families", "--op", "add", "--json"}), ExitCode::error);
    EXPECT_THAT(err.str(), HasSubstr("standard output"));
}

}  // namespace
}  // namespace autotune::cli
