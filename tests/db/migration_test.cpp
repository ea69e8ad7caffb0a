#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "db/sqlite/schema.h"
#include "db/verdicts.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A file of schema 1: tables from the frozen first step, rows as they were written then.
void make_schema1_file(const std::string& path) {
    Connection connection({.path = path});
    migrate(connection, 1);
    connection.run(read_file(AUTOTUNE_TEST_DATA "/db/schema1_rows.sql").c_str());
}

// A file of schema 2, with rows that refer to missing rows: other programs delete with foreign keys off.
void make_schema2_file(const std::string& path) {
    Connection connection({.path = path});
    migrate(connection, 2);
    connection.run("PRAGMA foreign_keys = OFF");
    connection.run(read_file(AUTOTUNE_TEST_DATA "/db/schema2_rows.sql").c_str());
}

std::string backup_of(const std::string& path) {
    return path + ".schema1.backup";
}

TEST(Migration, KnowsTheFingerprintOfItsOwnSchema) {
    EXPECT_EQ(kFingerprint, expected_fingerprint());
}

TEST(Migration, KeepsTheWinnersOfAnOlderFile) {
    const TempFolder folder;
    make_schema1_file(folder / "old.db");
    const Store store = Store::open({.path = folder / "old.db"});
    const auto found = store.find(sample_problem(), sample_device());
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].timing.median_us, 101.5);
    EXPECT_EQ(found[0].provenance.power_limit_w, 0);  // Schema 1 did not have this column.
    EXPECT_EQ(found[0].evidence.finalists.at(0).name, "cublas");
    EXPECT_EQ(found[0].evidence.finalists.at(0).after_itself_us, std::nullopt);  // nor these
    EXPECT_EQ(found[0].evidence.accumulation_error, std::nullopt);
    EXPECT_EQ(found[0].evidence.expected_gain, std::nullopt);
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST(Migration, KeepsTheRowsOfSchema2AndDropsItsOrphans) {
    const TempFolder folder;
    make_schema2_file(folder / "old.db");
    Store store = Store::open({.path = folder / "old.db"});
    const auto found = store.find(sample_problem(), sample_device());
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].timing.median_us, 101.5);
    EXPECT_EQ(found[0].template_identity, "3f2a00ff");
    EXPECT_EQ(found[0].doubt, "");
    EXPECT_EQ(found[0].restricted_to, "");  // As before, rows that were stored before schema 5 count as winners of the problem.
    EXPECT_THAT(found[0].evidence.finalists, SizeIs(1));
    EXPECT_THAT(store.trials(sample_problem(), sample_device()), SizeIs(1));
    ASSERT_THAT(store.misses(), SizeIs(1));
    EXPECT_EQ(store.misses()[0].origin, "");
    Winner narrowed = found[0];  // the key of schema 5 allows both rows
    narrowed.restricted_to = "family=gemm/mma";
    store.put(narrowed);
    EXPECT_THAT(store.find(sample_problem(), sample_device()), SizeIs(2));
    EXPECT_TRUE(store.check().is_sound());
    Connection backup({.path = folder / "old.db.schema2.backup", .read_only = true});
    Query rows = backup.query("SELECT count(*) FROM evidence");
    ASSERT_TRUE(rows.next());
    EXPECT_EQ(rows.integer(), 3);  // the dropped rows are in the backup
}

TEST(Migration, GivesAnOlderFileATableOfVerdicts) {
    const TempFolder folder;
    make_schema1_file(folder / "old.db");
    const Verdict one{.problem = "x", .device = "a card", .rival = "torch", .in_stream = 1, .in_graphs = 2};
    put_verdicts({.path = folder / "old.db"}, std::vector{one});
    EXPECT_THAT(read_verdicts({.path = folder / "old.db", .read_only = true}, ""), SizeIs(1));
    EXPECT_THAT(Store::open({.path = folder / "old.db"}).list({}), SizeIs(1));
}

TEST(Migration, OfManyOpenersLeavesOneBackup) {
    const TempFolder folder;
    make_schema1_file(folder / "old.db");
    std::vector<std::thread> openers;
    for (int i = 0; i < 8; ++i)
        openers.emplace_back([&] { EXPECT_THAT(Store::open({.path = folder / "old.db"}).list({}), SizeIs(1)); });
    for (std::thread& opener : openers) opener.join();
    const std::filesystem::directory_iterator files(folder.path());
    EXPECT_EQ(std::distance(begin(files), end(files)), 2);
}

TEST(Migration, LeavesABackupThatIsTheOldFile) {
    const TempFolder folder;
    make_schema1_file(folder / "old.db");
    const Store store = Store::open({.path = folder / "old.db"});
    EXPECT_THAT(texts_of(store.warnings()), ElementsAre(HasSubstr(backup_of(folder / "old.db"))));
    Connection backup({.path = backup_of(folder / "old.db"), .read_only = true});
    Query version = backup.query("SELECT (SELECT user_version FROM pragma_user_version), count(*) FROM winner");
    ASSERT_TRUE(version.next());
    EXPECT_EQ(version.integer(), 1);
    EXPECT_EQ(version.integer(), 1);
}

TEST(Migration, MakesTheBackupForItsOwnerAlone) {
    const TempFolder folder;
    make_schema1_file(folder / "old.db");
    Store::open({.path = folder / "old.db"});
    struct stat found {};
    ASSERT_EQ(::stat(backup_of(folder / "old.db").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0600U);
}

TEST(Migration, NeverOverwritesABackup) {
    const TempFolder folder;
    make_schema1_file(folder / "old.db");
    write_file(backup_of(folder / "old.db"), "an earlier backup");
    Store::open({.path = folder / "old.db"});
    EXPECT_EQ(read_file(backup_of(folder / "old.db")), "an earlier backup");
    EXPECT_TRUE(std::filesystem::exists(backup_of(folder / "old.db") + "2"));
}

TEST(Migration, AReaderLeavesAnOlderFileAlone) {
    const TempFolder folder;
    make_schema1_file(folder / "old.db");
    const std::string before = read_file(folder / "old.db");
    EXPECT_THAT(database_error_of([&] { Store::open({.path = folder / "old.db", .read_only = true}); }),
                HasSubstr("older schema 1"));
    EXPECT_TRUE(read_file(folder / "old.db") == before);
}

TEST(Migration, HappensOnce) {
    const TempFolder folder;
    make_schema1_file(folder / "old.db");
    Store::open({.path = folder / "old.db"});
    EXPECT_THAT(Store::open({.path = folder / "old.db"}).warnings(), IsEmpty());
}

TEST(Migration, RollsBackWhenAStepFails) {
    const TempFolder folder;
    make_schema1_file(folder / "old.db");
    { Connection(ConnectionOptions{.path = folder / "old.db"}).run("CREATE TABLE miss(a INTEGER) STRICT"); }
    for (int attempt = 0; attempt < 5; ++attempt)
        EXPECT_NE(database_error_of([&] { Store::open({.path = folder / "old.db"}); }), "");
    const auto files = std::filesystem::directory_iterator(folder.path());
    EXPECT_EQ(std::distance(begin(files), end(files)), 2);  // there is one backup, not one for each try
    Connection connection({.path = folder / "old.db"});
    Query version = connection.query("SELECT user_version FROM pragma_user_version");
    ASSERT_TRUE(version.next());
    EXPECT_EQ(version.integer(), 1);
}

}  // namespace
}  // namespace autotune::db
