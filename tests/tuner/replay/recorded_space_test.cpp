#include "tuner/replay/recorded_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/core/error.h"
#include "src/core/statistics/random.h"
#include "tests/support/refusal.h"
#include "tuner/search/search_domain.h"

namespace autotune::tuner::recorded_space_test {
namespace {

using testing::HasSubstr;

const std::filesystem::path kExcerpts = std::filesystem::path(AUTOTUNE_TEST_DATA) / "search_spaces";

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// The reader's message for a refused text; empty if it is accepted.
std::string refusal(const std::string& text, const RecordedLimits& limits = {}) {
    const std::string said = autotune::test::refusal_of([&] { parse_recorded_space(text, "some.json", limits); });
    EXPECT_TRUE(said.empty() || said.find("some.json") != std::string::npos) << said;
    return said;
}

class ScratchFile {
  public:
    ScratchFile(const std::string& name, const std::string& bytes)
        : path_(std::filesystem::temp_directory_path() / (std::to_string(getpid()) + name)) {
        std::ofstream(path_, std::ios::binary) << bytes;
    }
    ~ScratchFile() { std::filesystem::remove(path_); }
    std::string path() const { return path_.string(); }

  private:
    std::filesystem::path path_;
};

const std::string kTiny =
    R"({"format": "autotune-space-1", "name": "tiny",
        "parameters": [{"name": "tile", "values": [32, 64], "kind": "compile"}, {"name": "group", "values": [1, 8], "kind": "launch"}],
        "rows": [[32, 1, 10.5], [32, 8, 9.0, 4.5], [64, 1, "crashed"]]})";

// ---- formats ----

TEST(RecordedSpace, ReadsAKernelTunerCache) {
    const RecordedSpace space = read_recorded_space(kExcerpts / "convolution_excerpt.json");
    EXPECT_EQ(space.name, "convolution_kernel on NVIDIA A100-PCIE-40GB");
    EXPECT_EQ(space.parameters.size(), 10u);
    EXPECT_EQ(space.rows.size(), 240u);
    EXPECT_NEAR(*space.best_us(), 697.471996769309, 1e-6);
    const auto failed = std::count_if(space.rows.begin(), space.rows.end(), [](const auto& row) { return !row.time_us; });
    EXPECT_EQ(failed, 19);
}

TEST(RecordedSpace, ReadsGzip) {
    EXPECT_EQ(to_json(read_recorded_space(kExcerpts / "convolution_excerpt.json.gz")),
              to_json(read_recorded_space(kExcerpts / "convolution_excerpt.json")));
}

TEST(RecordedSpace, FindsTheSamePointsInT4Results) {
    const RecordedSpace cache = read_recorded_space(kExcerpts / "convolution_excerpt.json");
    const RecordedSpace t4 = read_recorded_space(kExcerpts / "convolution_excerpt_T4.json");
    ASSERT_EQ(t4.rows.size(), cache.rows.size());
    for (const RecordedSpace::Row& row : cache.rows) {
        const auto same = std::find_if(t4.rows.begin(), t4.rows.end(), [&](const RecordedSpace::Row& other) {
            return std::all_of(cache.parameters.begin(), cache.parameters.end(), [&](const Parameter& parameter) {
                return other.config[parameter.name] == row.config[parameter.name];
            });
        });
        ASSERT_NE(same, t4.rows.end()) << row.config.to_string();
        EXPECT_EQ(same->time_us, row.time_us);
    }
}

TEST(RecordedSpace, KeepsTheReasonOfAFailure) {
    const RecordedSpace space = read_recorded_space(kExcerpts / "convolution_excerpt.json");
    const auto failed = std::find_if(space.rows.begin(), space.rows.end(), [](const auto& row) { return !row.time_us; });
    EXPECT_EQ(failed->failure, "RuntimeFailedConfig");
}

TEST(RecordedSpace, ReadsItsOwnExport) {
    const RecordedSpace space = parse_recorded_space(kTiny, "tiny.json");
    EXPECT_EQ(space.parameters[1].kind, ParameterKind::launch);
    EXPECT_EQ(space.rows[1].config, (Config{{"tile", 32}, {"group", 8}}));
    EXPECT_EQ(space.rows[1].time_us, 9.0);
    EXPECT_EQ(space.rows[1].prior, 4.5);
    EXPECT_EQ(space.rows[2].failure, "crashed");
}

TEST(RecordedSpace, ExportsWhatItReads) {
    const RecordedSpace space = parse_recorded_space(kTiny, "tiny.json");
    EXPECT_EQ(to_json(parse_recorded_space(to_json(space), "again.json")), to_json(space));
}

TEST(RecordedSpace, TakesAKernelTunerCacheThatIsNotFinished) {
    std::string text = text_of(kExcerpts / "convolution_excerpt.json");
    text.resize(text.rfind("},\n") + 2);
    EXPECT_EQ(parse_recorded_space(text, "running.json").rows.size(), 239u);
}

TEST(RecordedSpace, TurnsWordsIntoPositions) {
    const RecordedSpace space = parse_recorded_space(
        R"({"format": "autotune-space-1", "parameters": [{"name": "order", "values": ["row", "col"]}, {"name": "flag", "values": [true, false]}],
            "rows": [["row", true, 1.0], ["col", false, 2.0]]})",
        "words.json");
    EXPECT_EQ(space.words[0], (std::vector<std::string>{"col", "row"}));
    EXPECT_EQ(space.rows[0].config, (Config{{"order", 1}, {"flag", 1}}));
    EXPECT_TRUE(space.words[1].empty());
}

TEST(RecordedSpace, CountsARepeatedConfigOnce) {
    const RecordedSpace space = parse_recorded_space(
        R"({"format": "autotune-space-1", "parameters": [{"name": "a", "values": [1]}], "rows": [[1, 5.0], [1, 6.0]]})",
        "twice.json");
    ASSERT_EQ(space.rows.size(), 1u);
    EXPECT_EQ(space.rows[0].time_us, 5.0);
}

TEST(RecordedSpace, SharesInstancesBetweenLaunchParameters) {
    const Domain domain = make_domain(parse_recorded_space(kTiny, "tiny.json"));
    EXPECT_EQ(domain.instance(0), domain.instance(1));
    EXPECT_EQ(domain.prior(1), 4.5);
    EXPECT_EQ(domain.prior(0), std::nullopt);
}

// ---- what it refuses ----

TEST(RecordedSpace, RefusesWhatIsNotARecordedSpace) {
    EXPECT_THAT(refusal(""), HasSubstr("empty"));
    EXPECT_THAT(refusal("{}"), HasSubstr("neither"));
    EXPECT_THAT(refusal("[1, 2]"), HasSubstr("neither"));
    EXPECT_THAT(refusal("not json"), HasSubstr("parse error"));
    EXPECT_THAT(refusal(R"({"format": "autotune-space-9", "parameters": [], "rows": []})"), HasSubstr("autotune-space-1"));
}

TEST(RecordedSpace, RefusesRowsThatDoNotFit) {
    const std::string head = R"({"format": "autotune-space-1", "parameters": [{"name": "a", "values": [1]}], "rows": )";
    EXPECT_THAT(refusal(head + "[]}"), HasSubstr("no rows"));
    EXPECT_THAT(refusal(head + "[[1, 2.0], [1]]}"), HasSubstr("row 2"));
    EXPECT_THAT(refusal(head + "[[[1], 2.0]]}"), HasSubstr("neither a number nor a word"));
    EXPECT_THAT(refusal(head + "[[18446744073709551615, 2.0]]}"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal(R"({"tune_params_keys": ["a", "b"], "cache": {"1": {"a": 1, "time": 2.0}}})"),
                HasSubstr("lacks parameter 'b'"));
    EXPECT_THAT(refusal(R"({"tune_params_keys": ["a"], "cache": [1]})"), HasSubstr("cache"));
    EXPECT_THAT(refusal(R"({"tune_params_keys": ["a", "a"], "cache": {"1": {"a": 1}}})"), HasSubstr("twice"));
    EXPECT_THAT(refusal(R"({"results": []})"), HasSubstr("results"));
}

TEST(RecordedSpace, RefusesWhatIsTooLargeOrTooDeep) {
    EXPECT_THAT(refusal(kTiny, {.rows = 2}), HasSubstr("more than 2 rows"));
    EXPECT_THAT(refusal(kTiny, {.parameters = 1}), HasSubstr("more than 1 parameters"));
    EXPECT_THAT(refusal(kTiny, {.text_bytes = 100}), HasSubstr("larger than 100 bytes"));
    EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("nested too deeply"));
}

TEST(RecordedSpace, ATimeThatIsNoTimeIsAFailure) {
    const RecordedSpace space = parse_recorded_space(
        R"({"tune_params_keys": ["a"], "cache": {"1": {"a": 1, "time": 1e20}, "2": {"a": 2, "time": -1}, "3": {"a": 3, "time": null}, "4": {"a": 4}, "5": {"a": 5, "time": 2}}})",
        "times.json");
    EXPECT_EQ(std::count_if(space.rows.begin(), space.rows.end(), [](const auto& row) { return row.time_us.has_value(); }), 1);
    EXPECT_DOUBLE_EQ(*space.best_us(), 2000);
}

TEST(RecordedSpace, RefusesMissingFilesFoldersAndDamagedGzip) {
    EXPECT_THROW(read_recorded_space("/nowhere/space.json"), Error);
    EXPECT_THROW(read_recorded_space(kExcerpts), Error);
    std::string bytes = text_of(kExcerpts / "convolution_excerpt.json.gz");
    bytes.resize(bytes.size() / 2);
    const ScratchFile truncated("truncated.json.gz", bytes);
    try {
        read_recorded_space(truncated.path());
        FAIL();
    } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("damaged"));
    }
}

TEST(RecordedSpace, BoundsWhatASmallFileMayInflateTo) {
    const ScratchFile bomb("bomb.json.gz", "");
    gzFile file = gzopen(bomb.path().c_str(), "wb");
    const std::string spaces(1 << 20, ' ');
    for (int i = 0; i < 8; ++i) gzwrite(file, spaces.data(), 1 << 20);
    gzclose(file);
    EXPECT_THROW(read_recorded_space(bomb.path(), {.text_bytes = 4u << 20}), Error);
}

TEST(RecordedSpace, BoundsTheMemoryThatItsValuesTake) {
    EXPECT_THAT(refusal(kTiny, {.parsed_bytes = 100}), HasSubstr("it would take more than 100 bytes of memory"));
    EXPECT_THAT(refusal(kTiny, {.values = 2}), HasSubstr("more than 2 values"));
    // A megabyte of text that makes 60 MiB of arrays.
    std::string arrays = R"({"format": "autotune-space-1", "parameters": [{"name": "a", "values": [1]}], "rows": [)";
    for (int i = 0; i < 400'000; ++i) arrays += "[],";
    EXPECT_THAT(refusal(arrays + "[]]}", {.parsed_bytes = 16u << 20}), HasSubstr("it would take more than 16 MiB of memory"));
    // Values that are skipped use no memory.
    std::string times = R"({"tune_params_keys": ["a"], "cache": {"1": {"a": 1, "time": 2.0, "times": [1)";
    for (int i = 0; i < 100'000; ++i) times += ",1";
    EXPECT_EQ(refusal(times + "]}}}", {.parsed_bytes = 1u << 20}), "");
}

TEST(RecordedSpace, IsReadFromGzipOfSeveralMembersAndWithAMark) {
    const std::string text = kTiny;
    const ScratchFile parts("parts.json.gz", "");
    for (const std::string& part : {text.substr(0, 20), text.substr(20)}) {
        gzFile file = gzopen(parts.path().c_str(), "ab");
        gzwrite(file, part.data(), static_cast<unsigned>(part.size()));
        gzclose(file);
    }
    EXPECT_EQ(read_recorded_space(parts.path()).rows.size(), parse_recorded_space(text, "t").rows.size());
    const ScratchFile marked("marked.json", "\xEF\xBB\xBF" + text);
    EXPECT_EQ(read_recorded_space(marked.path()).rows.size(), parse_recorded_space(text, "t").rows.size());
}

TEST(RecordedSpace, ThatIsNoFileIsNotWaitedFor) {
    const auto why = [](const std::string& path) -> std::string {
        try {
            read_recorded_space(path);
        } catch (const Error& error) {
            return error.what();
        }
        return "";
    };
    const ScratchFile place("pipe.json", "");
    std::filesystem::remove(place.path());
    ASSERT_EQ(::mkfifo(place.path().c_str(), 0600), 0);
    EXPECT_THAT(why(place.path()), HasSubstr("it is a pipe, not a regular file"));
    EXPECT_THAT(why("/dev/zero"), HasSubstr("it is a device, not a regular file"));
}

TEST(RecordedSpace, SurvivesDamageAnywhereInAFile) {
    const std::string texts[] = {
        text_of(kExcerpts / "convolution_excerpt_T4.json").substr(0, 4'000), kTiny,
        R"({"tune_params_keys": ["a"], "tune_params": {"a": [1, 2]}, "cache": {"1": {"a": 1, "time": 3.5}}})"};
    Random random(1);
    int refused = 0;
    for (int i = 0; i < 3'000; ++i) {
        std::string text = texts[i % 3];
        for (std::size_t change = 0; change <= random.below(3); ++change) {
            text[random.below(text.size())] = R"({}[]",:0-9e.tn)"[random.below(14)];
        }
        refused += refusal(text).empty() ? 0 : 1;
    }
    EXPECT_GT(refused, 1'000);
}

}  // namespace
}  // namespace autotune::tuner::recorded_space_test
