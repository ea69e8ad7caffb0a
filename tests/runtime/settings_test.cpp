#include "src/runtime/api/settings.h"

#include <autotune/verdicts.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "src/catalogue/sha256.h"
#include "src/core/system/private_folder.h"
#include "src/dispatch/stored/label_file.h"
#include "src/runtime/api/status.h"
#include "src/runtime/api/versions.h"
#include "tests/runtime/sample.h"

namespace autotune::runtime {
namespace {

Environment with(std::map<std::string, std::string> variables) {
    return [variables = std::move(variables)](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    };
}

autotune_options options() {
    autotune_options given = {};
    given.struct_size = sizeof(given);
    return given;
}

TEST(Settings, OfNullReadTheEnvironment) {
    EXPECT_EQ(settings_of(nullptr, with({{"AUTOTUNE_DB", "/a.db"}})).database, "/a.db");
}

TEST(Settings, DoNotReadTheEnvironmentUnasked) {
    const autotune_options given = options();
    const auto environment = [](const char* name) -> const char* {
        ADD_FAILURE() << "asked for " << name;
        return nullptr;
    };
    const Settings settings = settings_of(&given, environment);
    EXPECT_EQ(settings.database, "");
    EXPECT_EQ(settings.cache_folder, "");
}

TEST(Settings, ALabelIsAFileInTheFolderOfLabels) {
    EXPECT_EQ(settings_of(nullptr, with({{"HOME", "/nobodys/home"}, {"XDG_DATA_HOME", "/data"}})).label, "");
    EXPECT_EQ(settings_of(nullptr, with({{"AUTOTUNE_LABEL", "prod"}, {"AUTOTUNE_FLEET", "/labels"}})).label,
              "/labels/prod.jsonl");
    EXPECT_EQ(settings_of(nullptr, with({{"AUTOTUNE_LABEL", "/a/b.jsonl"}})).label, "/a/b.jsonl");
    autotune_options given = options();
    given.label = "/mine.jsonl";
    EXPECT_EQ(settings_of(&given, with({})).label, "/mine.jsonl");
    // A text that is not a label's name names no file.
    EXPECT_EQ(settings_of(nullptr, with({{"AUTOTUNE_LABEL", ".."}, {"AUTOTUNE_FLEET", "/labels"}})).label, "/labels/");
}

TEST(Settings, WithALabelNoPolicyGoesByWhatIsLoaded) {
    autotune_options given = options();
    given.label = "/mine.jsonl";
    given.on_miss = AUTOTUNE_ON_MISS_BACKGROUND;
    EXPECT_EQ(settings_of(&given, with({})).on_miss, AUTOTUNE_ON_MISS_COMPILE);
    given.on_miss = AUTOTUNE_ON_MISS_LOADED_ONLY;
    EXPECT_EQ(settings_of(&given, with({})).on_miss, AUTOTUNE_ON_MISS_NOT_PLANNED);
    given.label = "";
    EXPECT_EQ(settings_of(&given, with({})).on_miss, AUTOTUNE_ON_MISS_LOADED_ONLY);
}

TEST(Settings, PutAnOptionBeforeItsVariable) {
    autotune_options given = options();
    given.read_environment = 1;
    given.database = "/option.db";
    EXPECT_EQ(settings_of(&given, with({{"AUTOTUNE_DB", "/variable.db"}})).database, "/option.db");
}

TEST(Settings, TakeAnEmptyOptionAsNone) {
    autotune_options given = options();
    given.read_environment = 1;
    given.database = "";
    EXPECT_EQ(settings_of(&given, with({{"AUTOTUNE_DB", "/variable.db"}, {"HOME", "/nobodys/home"}})).database, "");
}

TEST(Settings, UseTheFoldersOfTheCommandByDefault) {
    const test::TempFolder folder;
    const std::string home = folder / "home";
    std::filesystem::create_directory(home);
    const Settings settings = settings_of(nullptr, with({{"HOME", home}}));
    EXPECT_EQ(settings.database, home + "/.local/share/autotune/autotune.db");
    EXPECT_EQ(settings.cache_folder, home + "/.cache/autotune");
    EXPECT_EQ(settings.warning, "");
}

TEST(Settings, PutXdgFoldersBeforeHome) {
    const Settings settings =
        settings_of(nullptr, with({{"HOME", "/nobodys/home"}, {"XDG_DATA_HOME", "/d"}, {"XDG_CACHE_HOME", "/c"}}));
    EXPECT_EQ(settings.database, "/d/autotune/autotune.db");
    EXPECT_EQ(settings.cache_folder, "/c/autotune");
}

// The command stores its winners in the same place.
TEST(Settings, StandInForAHomeThatCannotBeUsed) {
    const std::string instead = fallback_home();
    const auto expect_instead = [&](const Environment& environment, const std::string& why) {
        const Settings settings = settings_of(nullptr, environment);
        EXPECT_EQ(settings.database, instead + "/.local/share/autotune/autotune.db");
        EXPECT_EQ(settings.cache_folder, instead + "/.cache/autotune");
        EXPECT_EQ(settings.warning, why + ": " + instead +
                                        " is used instead, which a restart may empty; set HOME, or AUTOTUNE_DB and "
                                        "AUTOTUNE_CACHE_DIR");
    };
    expect_instead(with({}), "HOME is not set");
    expect_instead(with({{"XDG_DATA_HOME", "relative"}}), "HOME is not set");
    expect_instead(with({{"HOME", "/nonexistent"}}), "HOME (/nonexistent) cannot be used (No such file or directory)");
    expect_instead(with({{"HOME", "here"}}), "HOME (here) is not an absolute path");
}

TEST(Settings, WithoutTheEnvironmentHaveNoPlaces) {
    autotune_options given = options();
    given.read_environment = 0;
    const Settings settings = settings_of(&given, with({}));
    EXPECT_EQ(settings.database, "");
    EXPECT_EQ(settings.cache_folder, "");
    EXPECT_EQ(settings.warning, "");
}

TEST(Settings, ReadPinAndLogLevel) {
    const Settings settings = settings_of(nullptr, with({{"AUTOTUNE_PIN", "gemm/mma block_m=64"}, {"AUTOTUNE_LOG", "debug"}}));
    EXPECT_EQ(settings.pin, "gemm/mma block_m=64");
    EXPECT_EQ(settings.log_level, AUTOTUNE_LOG_DEBUG);
}

TEST(Settings, RefuseAPolicyThatIsNone) {
    autotune_options given = options();
    given.on_miss = static_cast<autotune_on_miss>(9);
    EXPECT_THROW(settings_of(&given, with({})), Failure);
}

TEST(Settings, RefuseOptionsWithoutASize) {
    const autotune_options given = {};
    EXPECT_THROW(settings_of(&given, with({})), Failure);
}

struct Newer {
    autotune_options known;
    long unknown;
};

TEST(Settings, TakeALargerStructWhoseNewPartIsZero) {
    Newer newer = {options(), 0};
    newer.known.struct_size = sizeof(newer);
    newer.known.database = "/a.db";
    EXPECT_EQ(settings_of(&newer.known, with({})).database, "/a.db");
}

TEST(Settings, RefuseALargerStructThatAsksForWhatWeDoNotKnow) {
    Newer newer = {options(), 1};
    newer.known.struct_size = sizeof(newer);
    EXPECT_THROW(settings_of(&newer.known, with({})), Failure);
}

TEST(Settings, RefuseASizeThatNoVersionHad) {
    autotune_options given = options();
    const std::size_t before_labels = offsetof(autotune_options, label);
    for (std::size_t size = 0; size < sizeof(given); ++size) {
        if (size == before_labels) continue;
        given.struct_size = size;
        EXPECT_THROW(settings_of(&given, with({})), Failure) << size;
    }
    for (const std::size_t size : {before_labels, sizeof(given)}) {
        given.struct_size = size;
        EXPECT_NO_THROW(settings_of(&given, with({}))) << size;
    }
}

// A struct that has grown, in the form that an older caller knows.
struct Grown {
    std::size_t struct_size;
    int first, second;
    std::uint64_t added, added_later;
};

}  // namespace

template <>
inline constexpr std::array<std::size_t, 3> kVersionSizes<Grown> = {offsetof(Grown, added), offsetof(Grown, added_later),
                                                                    sizeof(Grown)};

namespace {

TEST(Versions, OfAStructAreTheSizesThatItHas) {
    const auto taken = [](std::size_t size) {
        std::vector<std::byte> bytes(8192);
        std::memcpy(bytes.data(), &size, sizeof(size));
        Grown known{};
        return copy_versioned(known, reinterpret_cast<const Grown*>(bytes.data()));
    };
    std::vector<std::size_t> sizes;
    for (std::size_t size = 0; size <= 48; ++size)
        if (taken(size)) sizes.push_back(size);
    // the sizes of three versions, and of two that may come later
    EXPECT_EQ(sizes, (std::vector<std::size_t>{16, 24, 32, 40, 48}));
    EXPECT_FALSE(taken(8192));
}

TEST(Versions, AnOlderStructLeavesTheRestZeroAndIsNotWrittenBeyond) {
    Grown given{offsetof(Grown, added), 1, 2, 3, 4}, known{0, 9, 9, 9, 9};
    ASSERT_TRUE(copy_versioned(known, &given));
    EXPECT_EQ(known.second, 2);
    EXPECT_EQ(known.added, 0);
    fill_versioned(&given, Grown{0, 5, 6, 7, 8});
    EXPECT_EQ(given.struct_size, offsetof(Grown, added));
    EXPECT_EQ(given.second, 6);
    EXPECT_EQ(given.added, 3);
}

TEST(Settings, MakeNothingInTheHomeOfAnotherUser) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
    const test::TempFolder folder;
    const std::string home = folder / "home";
    std::filesystem::create_directory(home);
    EXPECT_EQ(settings_of(nullptr, with({{"HOME", home}})).cache_folder, home + "/.cache/autotune");
    ASSERT_EQ(::chown(home.c_str(), 65534, 65534), 0);
    const Settings settings = settings_of(nullptr, with({{"HOME", home}}));
    EXPECT_EQ(settings.cache_folder, fallback_home() + "/.cache/autotune");
    EXPECT_NE(settings.warning.find("belongs to another user"), std::string::npos) << settings.warning;
    const Settings named =
        settings_of(nullptr, with({{"HOME", home}, {"AUTOTUNE_CACHE_DIR", "/elsewhere"}, {"AUTOTUNE_DB", "/x.db"}}));
    EXPECT_EQ(named.cache_folder, "/elsewhere");
    EXPECT_EQ(named.warning, "");
}

TEST(Settings, MakeRelativePathsAbsolute) {
    const std::string here = std::filesystem::current_path().string();
    const Settings settings = settings_of(nullptr, with({{"AUTOTUNE_DB", "x.db"},
                                                         {"AUTOTUNE_CACHE_DIR", "./cache"},
                                                         {"AUTOTUNE_SHIPPED", "a/../winners"},
                                                         {"AUTOTUNE_NVRTC", "lib/libnvrtc.so.13"}}));
    EXPECT_EQ(settings.database, here + "/x.db");
    EXPECT_EQ(settings.cache_folder, here + "/cache");
    EXPECT_EQ(settings.shipped, here + "/winners");
    EXPECT_EQ(settings.nvrtc, here + "/lib/libnvrtc.so.13");
    autotune_options given = options();
    given.database = "sub/y.db";
    EXPECT_EQ(settings_of(&given, with({})).database, here + "/sub/y.db");
}

TEST(Settings, LeaveWhatIsNoRelativePath) {
    autotune_options given = options();
    given.database = ":memory:";
    given.nvrtc = "libnvrtc.so.13";
    given.cache_folder = "";
    const Settings settings = settings_of(&given, with({}));
    EXPECT_EQ(settings.database, ":memory:");
    EXPECT_EQ(settings.nvrtc, "libnvrtc.so.13");
    EXPECT_EQ(settings.cache_folder, "");
}

// ---- verdicts, which need no handle ----

class VerdictsOfC : public ::testing::Test {
  protected:
    static autotune_verdict verdict(const char* problem) {
        return {.struct_size = sizeof(autotune_verdict),
                .problem = problem,
                .device = "a card",
                .rival = "torch",
                .in_stream = 2,
                .in_graphs = 3};
    }
    std::vector<std::string> read(const char* rival) {
        std::vector<std::string> found;
        const auto use = [](void* user, const autotune_verdict* one) {
            static_cast<std::vector<std::string>*>(user)->push_back(std::string(one->problem) + " " + one->device + " " +
                                                                    std::to_string(one->in_graphs));
        };
        EXPECT_EQ(autotune_read_verdicts(path_.c_str(), rival, use, &found), AUTOTUNE_OK) << autotune_last_error(nullptr);
        return found;
    }

    // Of the file that a handle with standard options uses.
    std::vector<std::string> read_standard(const char* rival) {
        std::vector<std::string> found;
        const auto use = [](void* user, const autotune_verdict* one) {
            static_cast<std::vector<std::string>*>(user)->push_back(one->problem);
        };
        EXPECT_EQ(autotune_read_verdicts(nullptr, rival, use, &found), AUTOTUNE_OK) << autotune_last_error(nullptr);
        return found;
    }

    std::string path_ = std::filesystem::temp_directory_path() / ("autotune-verdicts-" + std::to_string(::getpid()) + ".db");
    void TearDown() override { std::filesystem::remove(path_); }
};

TEST_F(VerdictsOfC, ComeBack) {
    EXPECT_TRUE(read(nullptr).empty());
    const std::array given = {verdict("x"), verdict("y")};
    ASSERT_EQ(autotune_put_verdicts(path_.c_str(), given.data(), given.size()), AUTOTUNE_OK) << autotune_last_error(nullptr);
    EXPECT_EQ(read("torch"), (std::vector<std::string>{"x a card 3.000000", "y a card 3.000000"}));
    EXPECT_EQ(read(nullptr).size(), 2U);
    EXPECT_TRUE(read("another").empty());
}

// With a label its verdicts count alone, and a label that cannot be used has none.
TEST_F(VerdictsOfC, ComeFromTheLabelIfThereIsOne) {
    const std::string lines =
        R"({"autotune_label":"verdict","problem":"z","device":"a card","rival":"torch","in_stream":2,"in_graphs":3,"date":"2026-11-23T18:51:56Z"})"
        "\n";
    const std::string label = path_ + ".jsonl";
    std::ofstream(label) << dispatch::label_text({"one", sha256_hex(lines), 1, lines});
    const std::array given = {verdict("x")};
    ASSERT_EQ(autotune_put_verdicts(path_.c_str(), given.data(), given.size()), AUTOTUNE_OK) << autotune_last_error(nullptr);
    ::setenv("AUTOTUNE_DB", path_.c_str(), 1);
    EXPECT_EQ(read_standard("torch"), std::vector<std::string>{"x"});
    ::setenv("AUTOTUNE_LABEL", label.c_str(), 1);
    EXPECT_EQ(read_standard("torch"), std::vector<std::string>{"z"});
    EXPECT_EQ(read_standard(nullptr), std::vector<std::string>{"z"});
    EXPECT_TRUE(read_standard("another").empty());
    EXPECT_EQ(read("torch"), std::vector<std::string>{"x a card 3.000000"});  // a database that is named is that database
    std::ofstream(label) << "{}";
    const auto use = [](void*, const autotune_verdict*) { ADD_FAILURE(); };
    EXPECT_EQ(autotune_read_verdicts(nullptr, nullptr, use, nullptr), AUTOTUNE_INTERNAL_ERROR);
    EXPECT_NE(std::string(autotune_last_error(nullptr)).find("its first line is not the head"), std::string::npos);
    ::unsetenv("AUTOTUNE_LABEL");
    ::unsetenv("AUTOTUNE_DB");
    std::filesystem::remove(label);
}

TEST_F(VerdictsOfC, RefuseWhatIsNone) {
    EXPECT_EQ(autotune_put_verdicts(path_.c_str(), nullptr, 1), AUTOTUNE_INVALID_ARGUMENT);
    autotune_verdict bad = verdict("x");
    bad.in_stream = 0;
    EXPECT_EQ(autotune_put_verdicts(path_.c_str(), &bad, 1), AUTOTUNE_INVALID_ARGUMENT);
    bad = verdict(nullptr);
    EXPECT_EQ(autotune_put_verdicts(path_.c_str(), &bad, 1), AUTOTUNE_INVALID_ARGUMENT);
    bad = verdict("x");
    bad.struct_size = 3;
    EXPECT_EQ(autotune_put_verdicts(path_.c_str(), &bad, 1), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(autotune_read_verdicts(path_.c_str(), nullptr, nullptr, nullptr), AUTOTUNE_INVALID_ARGUMENT);
    EXPECT_EQ(autotune_put_verdicts("/dev/null/a.db", nullptr, 0), AUTOTUNE_INTERNAL_ERROR);
    EXPECT_NE(std::string(autotune_last_error(nullptr)).find("/dev/null"), std::string::npos);
}

}  // namespace
}  // namespace autotune::runtime
