#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::SizeIs;

TEST(Families, JsonHasTheDocumentedMembers) {
    const auto json = all_families({"--json"}).json();
    ASSERT_GE(json["families"].size(), 2u);
    for (const auto& family : json["families"]) {
        for (const char* member : {"name", "op", "parameters", "named_configs", "legal"})
            EXPECT_TRUE(family.contains(member)) << member;
        EXPECT_EQ(family["legal"].size(), known_archs().size());
    }
}

TEST(Families, MmaHasAtLeast500LegalConfigsAt4096Cubed) {
    CliBench autotune;
    const auto json = autotune({"families", "--json", "--op", "hgemm", "--family", "mma"}).json();
    ASSERT_THAT(json["families"], SizeIs(1));
    for (const auto& [arch, count] : json["families"][0]["legal"].items()) EXPECT_GE(count.get<int>(), 500) << arch;
}

}  // namespace
}  // namespace autotune::cli
