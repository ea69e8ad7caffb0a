#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "db/text/merge.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;

// Random numbers that are the same on every machine. The standard defines std::mt19937_64, but not its distributions.
class Dice {
  public:
    explicit Dice(std::uint64_t seed) : source_(seed) {}
    std::size_t below(std::size_t limit) { return static_cast<std::size_t>(source_() % limit); }
    char letter() { return static_cast<char>(source_() & 0xFF); }

  private:
    std::mt19937_64 source_;
};

// Makes one to eight random changes: a byte, a run of bytes, a cut, a moved piece.
std::string mutated(std::string text, Dice& dice) {
    for (std::size_t left = 1 + dice.below(8); left > 0 && !text.empty(); --left) {
        const std::size_t at = dice.below(text.size());
        switch (dice.below(6)) {
            case 0:
                text[at] = dice.letter();
                break;
            case 1:
                text[at] = static_cast<char>(text[at] ^ (1 << dice.below(8)));
                break;
            case 2:
                text.insert(at, text.substr(dice.below(text.size()), 1 + dice.below(40)));
                break;
            case 3:
                text.erase(at, 1 + dice.below(40));
                break;
            case 4:
                std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at),
                            std::min<std::size_t>(text.size() - at, 1 + dice.below(64)), dice.letter());
                break;
            default:
                text.resize(dice.below(20) == 0 ? at : text.size());
                break;
        }
    }
    return text;
}

// Makes changes that keep the length, like those of a bad disk. Most of them are after the first page, where errors are noticed
// soon.
std::string scribbled(std::string content, Dice& dice) {
    for (std::size_t left = 1 + dice.below(16); left > 0; --left) {
        const std::size_t at = dice.below(8) == 0 ? dice.below(100) : dice.below(content.size());
        const std::size_t length = std::min<std::size_t>(content.size() - at, 1 + dice.below(dice.below(4) == 0 ? 512 : 4));
        for (std::size_t next = at; next < at + length; ++next) content[next] = dice.letter();
    }
    return content;
}

TEST(Fuzz, ALineIsTakenOrRefusedWithADatabaseError) {
    const std::string line = records::to_json_line(sample_winner());
    Dice dice(20261121);
    int taken = 0;
    for (int round = 0; round < 3000; ++round) {
        const std::string changed = mutated(line, dice);
        try {
            const Winner winner = records::from_json_line(changed);
            EXPECT_EQ(records::to_json_line(records::from_json_line(records::to_json_line(winner))),
                      records::to_json_line(winner))
                << changed;
            ++taken;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::database) << error.what();
        }
    }
    EXPECT_GT(taken, 0);     // some mutations change only digits and free texts
    EXPECT_LT(taken, 2000);  // most changes break a line
}

// Gives every member every kind of value that it should not have.
TEST(Fuzz, AMemberOfTheWrongKindIsRefusedWithADatabaseError) {
    using Json = nlohmann::ordered_json;
    const Json line = Json::parse(records::to_json_line(sample_winner()));
    const std::vector<Json> values = {
        nullptr, true, -1, 1e300, "x", Json::array(), Json::object(), Json::array({1}), {{"a", 1}}, std::uint64_t{1} << 63};
    const Json flat = line.flatten();
    for (const auto& [path, ignored] : flat.items()) {
        for (const Json& value : values) {
            Json changed = line;
            changed[Json::json_pointer(path)] = value;
            try {
                records::from_json_line(changed.dump());
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::database) << error.what();
            }
        }
    }
}

TEST(Fuzz, AScribbledFileIsUsedOrRefusedWithADatabaseError) {
    const TempFolder folder;
    {
        Store store = Store::open({.path = folder / "sound.db"});
        for (std::int64_t m = 1; m <= 20; ++m) {
            store.put(sample_winner(sample_problem(m)));
            store.record(sample_problem(m), sample_device(), sample_trial(m));
            store.record_misses(std::vector<Miss>{{sample_problem(m), sample_device()}});
        }
    }
    const std::string sound = read_file(folder / "sound.db");
    Dice dice(42);
    int refused = 0;
    for (int round = 0; round < 400; ++round) {
        write_file(folder / "bad.db", scribbled(sound, dice));
        const std::string message = database_error_of([&] {
            Store store = Store::open({.path = folder / "bad.db", .busy_timeout_ms = 0});
            (void)store.find(sample_problem(3), sample_device());
            (void)store.near(sample_problem(3), sample_device(), 5);
            (void)store.list({});
            (void)store.trials(sample_problem(4), sample_device());
            (void)store.misses();
            (void)store.verify_integrity();
            store.put(sample_winner(sample_problem(5)));
            store.remove({.extents = sample_problem(6).extents});
        });
        EXPECT_FALSE(message.starts_with("not a database error")) << message;
        refused += message.empty() ? 0 : 1;
        std::filesystem::remove(folder / "bad.db-journal");
    }
    EXPECT_GT(refused, 40);
}

TEST(Fuzz, MergingAScribbledFileNeverHarmsTheStore) {
    const TempFolder folder;
    Store::open({.path = folder / "sound.db"})
        .put_all(std::vector{sample_winner(sample_problem(1)), sample_winner(sample_problem(2))});
    const std::string sound = read_file(folder / "sound.db");
    Store store = memory_store();
    Dice dice(7);
    for (int round = 0; round < 200; ++round) {
        write_file(folder / "bad.db", scribbled(sound, dice));
        const std::string message = database_error_of([&] { merge(store, folder / "bad.db", {}); });
        EXPECT_FALSE(message.starts_with("not a database error")) << message;
    }
    EXPECT_EQ(store.verify_integrity(), "");
}

}  // namespace
}  // namespace autotune::db
