#include <gmock/gmock.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

Json sample_json() {
    return Json::parse(records::to_json_line(sample_winner()));
}

// Why the sample's line is refused after `change`; "" if it is not.
template <class Change>
std::string refusal_after(const Change& change) {
    Json line = sample_json();
    change(line);
    return database_error_of([&] { records::from_json_line(line.dump()); });
}

TEST(JsonLine, RoundTripsEveryField) {
    const std::string line = records::to_json_line(sample_winner());
    EXPECT_EQ(records::to_json_line(records::from_json_line(line)), line);
}

TEST(JsonLine, IsOneLineThatBeginsWithWhatTheShippedLayerLooksFor) {
    const std::string line = records::to_json_line(sample_winner());
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_THAT(line, StartsWith(R"({"op":"gemm","arch":"sm_90a","problem":{"class":")"));
}

TEST(JsonLine, KeepsTheOrderOfExtentsAndParameters) {
    const Winner winner = records::from_json_line(records::to_json_line(sample_winner()));
    EXPECT_EQ(winner.extents, sample_winner().extents);
    EXPECT_EQ(winner.candidate, sample_winner().candidate);
}

TEST(JsonLine, KeepsWholeIntegersOf64Bits) {
    Winner put = sample_winner();
    put.candidate.config.set("low", std::numeric_limits<std::int64_t>::min());
    put.candidate.config.set("high", std::numeric_limits<std::int64_t>::max());
    const Winner got = records::from_json_line(records::to_json_line(put));
    EXPECT_EQ(got.candidate, put.candidate);
    EXPECT_EQ(got.evidence.seed, put.evidence.seed);
    EXPECT_EQ(got.evidence.conditions.throttle_reasons, put.evidence.conditions.throttle_reasons);
}

TEST(JsonLine, NeedsNoEvidence) {
    EXPECT_EQ(refusal_after([](Json& line) {
                  for (const char* name : {"compile", "provenance", "evidence"}) line.erase(name);
              }),
              "");
}

TEST(JsonLine, NeedsEveryMemberOfTheKey) {
    for (const char* name : {"op", "arch", "problem", "device", "template", "family", "config", "timing"}) {
        EXPECT_THAT(refusal_after([&](Json& line) { line.erase(name); }), AllOf(HasSubstr("lacks"), HasSubstr(name)));
    }
}

TEST(JsonLine, RefusesUnknownMembers) {
    EXPECT_THAT(refusal_after([](Json& line) { line["extra"] = 1; }), HasSubstr("not known"));
    EXPECT_THAT(refusal_after([](Json& line) { line["timing"]["extra"] = 1; }), HasSubstr("timing"));
}

TEST(JsonLine, RefusesANewerFormat) {
    EXPECT_THAT(refusal_after([](Json& line) { line["format"] = 2; }), HasSubstr("newer"));
    EXPECT_EQ(refusal_after([](Json& line) { line["format"] = 1; }), "");
}

TEST(JsonLine, TakesIntegersAloneInConfigs) {
    for (const Json& value :
         {Json("64"), Json(64.0), Json(1e300), Json(true), Json(nullptr), Json::array({64}), Json("1;}evil")}) {
        EXPECT_THAT(refusal_after([&](Json& line) { line["config"]["block_m"] = value; }), HasSubstr("config.block_m")) << value;
    }
    EXPECT_THAT(refusal_after([](Json& line) { line["config"]["block_m"] = std::numeric_limits<std::uint64_t>::max(); }),
                HasSubstr("64 bits"));
}

TEST(JsonLine, RefusesNamesThatCouldBeText) {
    for (const char* name : {"", "B-k", "1x", "a b", "a;b", "a=b", "../a", "a'b", "\xc3\xa4"}) {
        EXPECT_NE(refusal_after([&](Json& line) { line["config"][name] = 1; }), "") << name;
    }
    EXPECT_NE(refusal_after([](Json& line) { line["config"][std::string(65, 'a')] = 1; }), "");
    EXPECT_EQ(refusal_after([](Json& line) { line["config"][std::string(64, 'a')] = 1; }), "");
}

TEST(JsonLine, RefusesOpsAndFamiliesThatAreNotNames) {
    for (const char* name : {"../../etc/passwd", "a;b", "hgemm' OR 1=1 --", "", "gemm/", "/gemm", "gemm//mma", "add/simt"}) {
        EXPECT_NE(refusal_after([&](Json& line) { line["family"] = name; }), "") << name;
        EXPECT_NE(refusal_after([&](Json& line) { line["op"] = name; }), "") << name;
    }
}

TEST(JsonLine, RefusesExtentsOutOfRange) {
    for (const Json& value :
         {Json(-1), Json(std::int64_t{1} << 41), Json(std::numeric_limits<std::int64_t>::min()), Json(1.5), Json("4096")}) {
        EXPECT_NE(refusal_after([&](Json& line) { line["problem"]["extents"]["m"] = value; }), "") << value;
    }
    EXPECT_NE(refusal_after([](Json& line) { line["problem"]["extents"] = Json::object(); }), "");
    EXPECT_NE(refusal_after([](Json& line) {
                  for (int at = 0; at < 9; ++at) line["problem"]["extents"]["e" + std::to_string(at)] = 1;
              }),
              "");
}

TEST(JsonLine, RefusesTimesThatAreNone) {
    for (const Json& value : {Json(0), Json(-1.0), Json(nullptr), Json("100"), Json(1e13)}) {
        EXPECT_THAT(refusal_after([&](Json& line) { line["timing"]["median_us"] = value; }), HasSubstr("median_us")) << value;
    }
    EXPECT_NE(database_error_of([] { records::from_json_line(R"({"timing":{"median_us":NaN}})"); }), "");
    EXPECT_NE(database_error_of([] { records::from_json_line(R"({"timing":{"median_us":1e999}})"); }), "");
}

TEST(JsonLine, NeverWritesNanOrInfinity) {
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
        Winner winner = sample_winner();
        winner.timing.median_us = value;
        EXPECT_THAT(database_error_of([&] { records::to_json_line(winner); }), HasSubstr("median_us"));
    }
}

TEST(JsonLine, RefusesAnArchitectureThatIsNotTheDevices) {
    EXPECT_THAT(refusal_after([](Json& line) { line["arch"] = "sm_80"; }), HasSubstr("sm_90a"));
    EXPECT_THAT(refusal_after([](Json& line) { line["device"]["cc_major"] = 7; }), HasSubstr("cc_major"));
}

TEST(JsonLine, RefusesTerminalEscapesAndBadUtf8) {
    EXPECT_NE(refusal_after([](Json& line) { line["device"]["name"] = "\x1b[31mred"; }), "");
    EXPECT_NE(refusal_after([](Json& line) { line["provenance"]["date"] = "2026\n"; }), "");
    EXPECT_NE(refusal_after([](Json& line) { line["provenance"]["driver"] = std::string(257, 'x'); }), "");
    EXPECT_NE(refusal_after([](Json& line) { line["device"]["name"] = "\xc2\x9b"; }), "");  // CSI in one character
    std::string line = records::to_json_line(sample_winner());
    line.replace(line.find("NVIDIA"), 1, "\xff");
    EXPECT_NE(database_error_of([&] { records::from_json_line(line); }), "");
}

TEST(JsonLine, RefusesRepeatedNames) {
    std::string line = records::to_json_line(sample_winner());
    line.replace(line.find(R"("stages":3)"), 10, R"("block_m":3)");
    EXPECT_THAT(database_error_of([&] { records::from_json_line(line); }), HasSubstr("twice"));
}

TEST(JsonLine, RefusesWhatIsNotOneObject) {
    for (const char* line : {"", "null", "[]", "{", "{}", "\"x\"", "1", "{}{}", "not json", "\x1f\x8b\x08"}) {
        EXPECT_NE(database_error_of([&] { records::from_json_line(line); }), "") << line;
    }
}

TEST(JsonLine, RefusesDeepNestingAndLongLines) {
    EXPECT_THAT(database_error_of([] { records::from_json_line(std::string(100'000, '[')); }), HasSubstr("nested"));
    std::string objects;
    for (int at = 0; at < 100'000; ++at) objects += "{\"a\":";
    EXPECT_THAT(database_error_of([&] { records::from_json_line(objects); }), HasSubstr("nested"));
    EXPECT_THAT(database_error_of([] { records::from_json_line(std::string((1 << 20) + 1, ' ')); }), HasSubstr("longer"));
}

TEST(JsonLine, RefusesTooManyFinalists) {
    EXPECT_THAT(refusal_after([](Json& line) {
                    auto& finalists = line["evidence"]["finalists"];
                    while (finalists.size() <= 64) finalists.push_back(finalists[0]);
                }),
                HasSubstr("64 finalists"));
}

}  // namespace
}  // namespace autotune::db
