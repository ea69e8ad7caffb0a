// The source of a user's kernel that the compiler gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/catalogue/catalogue.h"
#include "src/jit/render.h"
#include "tests/kernel_files/sample.h"
#include "tests/support/refusal.h"

namespace autotune::kernel_files {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

// A catalogue with the op `user_scale`, and what its rendering needs.
struct Scale {
    explicit Scale(const Loaded& loaded) : catalogue(Catalogue::embedded()) {
        catalogue.add(loaded.file.family);
        op = catalogue.find_op("user_scale");
        family = catalogue.find_family("user_scale/main");
        problem = catalogue.problem({.op = "user_scale", .shape = "1000", .options = {}});
        space = family->space(problem, device);
    }
    jit::Rendered render(const Config& config) const {
        return jit::render(catalogue, *family, problem, space, config, {"sm_90a", "13.0"});
    }

    Catalogue catalogue;
    Device device = *reference_device("sm_90a");
    const Op* op = nullptr;
    const Family* family = nullptr;
    Problem problem;
    SearchSpace space;
};

TEST(RenderedKernelFile, HasMacrosBehindTheIncludesAndTheUsersLines) {
    const Folder folder;
    const Scale scale(folder.with("format = 1", "format = 1"));
    const jit::Rendered rendered = scale.render(scale.space.default_config);
    EXPECT_THAT(rendered.symbol, MatchesRegex("user_scale_main_[0-9a-f]{16}"));
    const std::string& text = rendered.source;
    EXPECT_THAT(text, StartsWith("#include \"autotune_prelude.h\"\n#define AUTOTUNE 1\n#line 1 \"scale.cu\"\n#include <cstdint>\n"
                                 "#define threads 128\n#define width 1\n#define scale " +
                                 rendered.symbol + "\n"));
    EXPECT_THAT(text, HasSubstr("#line 2 \"scale.cu\"\n#include \"helper.h\"\n"));
    EXPECT_THAT(rendered.options, AllOf(Contains("-default-device"), Contains("--std=c++17")));
    EXPECT_THAT(rendered.headers, Contains(testing::Pair("helper.h", HasSubstr("helper(float x)"))));
}

TEST(RenderedKernelFile, ReferenceHasHelpersThatSeeNoMacro) {
    const Folder folder;
    const Scale scale(folder.with("format = 1", "format = 1"));
    const jit::Rendered rendered = jit::render_reference(scale.catalogue, *scale.op, scale.problem, {"sm_90a", "13.0"});
    EXPECT_THAT(rendered.symbol, StartsWith("user_scale_reference_"));
    EXPECT_THAT(rendered.source, AllOf(HasSubstr("#define scale_reference " + rendered.symbol + "_scale_reference\n"),
                                       HasSubstr("#undef threads\n"), HasSubstr(rendered.symbol + "_autotune_expect(")));
}

TEST(RenderedKernelFile, IdentityFollowsSourceHeadersParametersAndOptions) {
    const Folder folder;
    const auto identity = [&](const std::string& from, const std::string& to) {
        const Scale scale(folder.with(from, to));
        return std::pair(scale.catalogue.template_identity(*scale.family), scale.render(scale.space.default_config).identity);
    };
    const auto before = identity("format = 1", "format = 1");
    EXPECT_EQ(identity("format = 1", "format = 1"), before) << "the same again";
    EXPECT_NE(identity("[let]", "[source]\noptions = [\"--use_fast_math\"]\n[let]"), before);
    EXPECT_NE(identity("values = [1, 2, 4]", "values = [1, 2]").first, before.first);
    folder.put("helper.h", "__device__ float helper(float x) { return 2 * x; }\n");
    const auto header = identity("format = 1", "format = 1");
    EXPECT_NE(header.first, before.first);
    EXPECT_NE(header.second, before.second);
}

TEST(RenderedKernelFile, AnOpIsThereOnce) {
    const Folder folder;
    const Loaded loaded = folder.with("format = 1", "format = 1");
    Catalogue catalogue = Catalogue::embedded();
    catalogue.add(loaded.file.family);
    EXPECT_THAT(test::refusal_of([&] { catalogue.add(loaded.file.family); }), HasSubstr("there is an op 'user_scale' already"));
    ASSERT_EQ(catalogue.definitions().size(), 1U);
    EXPECT_EQ(catalogue.definitions().front().op->name, "user_scale") << "other processes are told of the op too";
}

}  // namespace
}  // namespace autotune::kernel_files
