#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <functional>
#include <iostream>

#include "db/sqlite/schema.h"
#include "db/sqlite/sqlite_handle.h"
#include "tests/db/sample.h"

namespace autotune::db {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// The error of opening the file, looking something up and writing a row, which any command does.
std::string error_of_using(const std::string& path, bool read_only = false) {
    return database_error_of([&] {
        Store store = Store::open({.path = path, .read_only = read_only, .busy_timeout_ms = 50});
        (void)store.find(sample_problem(), sample_device());
        (void)store.list({});
        if (!read_only) store.put(sample_winner());
    });
}

// A message must name the file, say what is wrong, and after a semicolon what to do.
auto says(const std::string& path, const std::string& wrong) {
    return AllOf(HasSubstr("database " + path), HasSubstr(wrong), HasSubstr("; "));
}

std::string sound_file(const TempFolder& folder) {
    const std::string path = folder / "a.db";
    Store store = Store::open({.path = path});
    for (std::int64_t m = 1; m <= 50; ++m) store.put(sample_winner(sample_problem(m)));
    return path;
}

void change(const std::string& path, const char* sql) {
    Connection(ConnectionOptions{.path = path}).run(sql);
}

// Runs `act` in a child as a user without any rights, because root may write everything. Returns 0 if it returned true.
int as_nobody(const std::function<bool()>& act) {
    const pid_t child = ::fork();
    if (child == 0) {
        constexpr uid_t kNobody = 65534;
        if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(2);
        ::_exit(act() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(BrokenFile, ZeroBytesAreANewDatabase) {
    const TempFolder folder;
    write_file(folder / "a.db", "");
    EXPECT_EQ(error_of_using(folder / "a.db"), "");
    EXPECT_THAT(Store::open({.path = folder / "a.db"}).list({}), SizeIs(1));
}

TEST(BrokenFile, ZeroBytesAreAnErrorForAReader) {
    const TempFolder folder;
    write_file(folder / "a.db", "");
    EXPECT_THAT(error_of_using(folder / "a.db", true), says(folder / "a.db", "is empty"));
    EXPECT_EQ(read_file(folder / "a.db"), "");
}

TEST(BrokenFile, TextIsNoDatabase) {
    const TempFolder folder;
    for (const std::size_t size : {1U, 99U, 512U, 100'000U}) {  // SQLite itself would overwrite the file of one byte
        const std::string content(size, 'x');
        write_file(folder / "a.db", content);
        EXPECT_THAT(error_of_using(folder / "a.db"), says(folder / "a.db", "is not a")) << size;
        EXPECT_TRUE(read_file(folder / "a.db") == content);
    }
}

TEST(BrokenFile, TruncatedAnywhereIsDamagedOrReadAsFarAsItGoes) {
    const TempFolder folder;
    const std::string whole = read_file(sound_file(folder));
    for (std::size_t size = 4096; size < whole.size(); size += 4096 + 1000) {
        const std::string part = whole.substr(0, size);
        write_file(folder / "cut.db", part);
        EXPECT_THAT(error_of_using(folder / "cut.db"),
                    AnyOf(says(folder / "cut.db", "is damaged"), says(folder / "cut.db", "tables and columns")))
            << size;
        EXPECT_TRUE(read_file(folder / "cut.db") == part) << size;
    }
}

TEST(BrokenFile, RandomBytesInEveryPageButTheFirstAreDamage) {
    const TempFolder folder;
    std::string content = read_file(sound_file(folder));
    for (std::size_t at = 4096; at < content.size(); ++at) content[at] = static_cast<char>(at * 2654435761U >> 13U);
    write_file(folder / "a.db", content);
    EXPECT_THAT(error_of_using(folder / "a.db"), says(folder / "a.db", "is damaged"));
    EXPECT_TRUE(read_file(folder / "a.db") == content);
}

TEST(BrokenFile, AnotherProgramsDatabaseIsLeftAlone) {
    const TempFolder folder;
    change(folder / "a.db", "CREATE TABLE bookmarks(url TEXT); PRAGMA application_id = 77; PRAGMA user_version = 2");
    const std::string before = read_file(folder / "a.db");
    EXPECT_THAT(error_of_using(folder / "a.db"), says(folder / "a.db", "belongs to another program (application_id 77)"));
    EXPECT_TRUE(read_file(folder / "a.db") == before);
}

TEST(BrokenFile, ADatabaseWithoutApplicationIdIsLeftAlone) {
    const TempFolder folder;
    change(folder / "a.db", "CREATE TABLE bookmarks(url TEXT)");
    EXPECT_THAT(error_of_using(folder / "a.db"), says(folder / "a.db", "is not a database of autotune"));
}

TEST(BrokenFile, ANewerSchemaIsRefusedWithBothVersions) {
    const TempFolder folder;
    change(sound_file(folder), "PRAGMA user_version = 99");
    const std::string before = read_file(folder / "a.db");
    EXPECT_THAT(error_of_using(folder / "a.db"),
                AllOf(says(folder / "a.db", "newer autotune"), HasSubstr("99"), HasSubstr("upgrade")));
    EXPECT_TRUE(read_file(folder / "a.db") == before);
}

TEST(BrokenFile, ANegativeOrMissingVersionIsRefused) {
    const TempFolder folder;
    for (const char* sql : {"PRAGMA user_version = 0", "PRAGMA user_version = -5"}) {
        change(sound_file(folder), sql);
        EXPECT_THAT(error_of_using(folder / "a.db"), says(folder / "a.db", "has no schema version"));
        change(folder / "a.db", ("PRAGMA user_version = " + std::to_string(schema_version())).c_str());
    }
}

TEST(BrokenFile, ChangedTablesAreRefused) {
    for (const char* sql : {"ALTER TABLE winner DROP COLUMN min_us", "ALTER TABLE winner ADD COLUMN extra TEXT",
                            "DROP TABLE evidence", "DROP INDEX winner_key", "ALTER TABLE trial RENAME COLUMN status TO state",
                            "CREATE VIEW v AS SELECT 1", "CREATE TRIGGER t AFTER INSERT ON winner BEGIN DELETE FROM winner; END",
                            "DROP TABLE miss; CREATE TABLE miss(id TEXT, class_id TEXT)"}) {
        const TempFolder folder;
        change(sound_file(folder), sql);
        EXPECT_THAT(error_of_using(folder / "a.db"),
                    says(folder / "a.db", "tables and columns of schema " + std::to_string(schema_version())))
            << sql;
    }
}

TEST(BrokenFile, RowsOutOfRangeArePassedOverWithAWarning) {
    for (const char* sql :
         {"UPDATE winner SET config = 'block_m=1;}evil' WHERE id = 7", "UPDATE winner SET e0 = -1 WHERE id = 7",
          "UPDATE winner SET config = 'block_m=64.0' WHERE id = 7",
          "UPDATE winner SET config = 'block_m=1 block_m=2' WHERE id = 7",
          "UPDATE winner SET registers = 99999999999 WHERE id = 7", "UPDATE winner SET driver = char(27) || '[31m' WHERE id = 7",
          "UPDATE winner SET median_us = 9e999 WHERE id = 7"}) {
        const TempFolder folder;
        change(sound_file(folder), sql);
        const Store store = Store::open({.path = folder / "a.db"});
        EXPECT_THAT(store.list({}), SizeIs(49)) << sql;
        EXPECT_THAT(texts_of(store.warnings()), ElementsAre(HasSubstr("row 7"))) << sql;
        EXPECT_THAT(store.verify_integrity(), HasSubstr("row 7")) << sql;
    }
}

TEST(BrokenFile, IntegrityFindsDanglingRowsAndForgedDevices) {
    const TempFolder folder;
    change(sound_file(folder), "PRAGMA foreign_keys = OFF; DELETE FROM template");
    EXPECT_THAT(Store::open({.path = folder / "a.db"}).verify_integrity(), HasSubstr("not there"));
    const TempFolder second;
    change(sound_file(second), "UPDATE device SET sm_count = 7");
    EXPECT_THAT(Store::open({.path = second / "a.db"}).verify_integrity(), HasSubstr("key"));
}

// Other programs leave foreign keys off.
void delete_by_another_program(const std::string& path, const std::string& sql) {
    change(path, ("PRAGMA foreign_keys = OFF; " + sql).c_str());
}

TEST(BrokenFile, AWinnerThatAnotherProgramDeletedIsTunedAgain) {
    const TempFolder folder;
    delete_by_another_program(sound_file(folder), "DELETE FROM winner WHERE id > 40");
    Store store = Store::open({.path = folder / "a.db"});
    Winner fresh = sample_winner(sample_problem(900), 7);
    fresh.evidence.finalists.resize(1);
    store.put(fresh);  // SQLite gives the row the number 41, whose old evidence still exists.
    EXPECT_THAT(store.find(sample_problem(900), sample_device()).at(0).evidence.finalists, SizeIs(1));
    store.record_misses(std::vector<Miss>{{sample_problem(901), sample_device()}});
}

TEST(BrokenFile, WinnersOfADeletedTemplateDoNotBecomeAnotherOnes) {
    for (const char* sql : {"DELETE FROM template", "DELETE FROM device", "DELETE FROM problem_class"}) {
        const TempFolder folder;
        delete_by_another_program(sound_file(folder), sql);
        Store store = Store::open({.path = folder / "a.db"});
        EXPECT_THAT(store.list({.limit = 1}), SizeIs(0));
        EXPECT_THAT(texts_of(store.warnings()), ElementsAre(HasSubstr("is not there"))) << sql;
        Winner other = sample_winner(sample_problem(900));
        other.template_identity = "another";
        other.device.sm_count = 78;
        other.class_key += " beta=zero";
        store.put(other);
        EXPECT_THAT(store.list({}), SizeIs(1)) << sql;  // with the old number there would be 51
    }
}

TEST(BrokenFile, ARepairDeletesOrphansAndInvalidRowsAfterABackup) {
    const TempFolder folder;
    delete_by_another_program(sound_file(folder),
                              "DELETE FROM winner WHERE id > 40; UPDATE winner SET e0 = -1 WHERE id = 7; "
                              "INSERT INTO template VALUES(9, 'gemm/mma', 'x'); "
                              "UPDATE winner SET template_id = 9 WHERE id = 8; DELETE FROM template WHERE id = 9");
    Store store = Store::open({.path = folder / "a.db"});
    const FileHealth health = store.check();
    EXPECT_EQ(health.damage, "");
    EXPECT_EQ(health.orphans, 10 + 20 + 1);  // the evidence and finalists of ten winners, and one winner
    EXPECT_EQ(health.invalid, 1);
    const RepairReport report = store.repair();
    EXPECT_EQ(report.invalid, 1);
    EXPECT_GE(report.orphans, health.orphans);
    EXPECT_TRUE(store.check().is_sound());
    EXPECT_EQ(store.count({}), 38);
    EXPECT_EQ(Store::open({.path = report.backup}).count({}), 40);
    EXPECT_EQ(store.repair().backup, "");
}

TEST(BrokenFile, ASymbolicLinkIsFine) {
    const TempFolder folder;
    std::filesystem::create_symlink(sound_file(folder), folder / "link.db");
    EXPECT_EQ(error_of_using(folder / "link.db"), "");
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.db"));
}

TEST(BrokenFile, DanglingAndCircularLinksAreErrors) {
    const TempFolder folder;
    std::filesystem::create_symlink(folder / "circle.db", folder / "circle.db");
    EXPECT_THAT(error_of_using(folder / "circle.db"), says(folder / "circle.db", "cannot be reached"));
    std::filesystem::create_symlink(folder / "nowhere/x.db", folder / "dangling.db");
    for (const bool read_only : {false, true}) {
        EXPECT_THAT(
            error_of_using(folder / "dangling.db", read_only),
            says(folder / "dangling.db", "is a symbolic link to " + (folder / "nowhere/x.db") + ", which does not exist"));
    }
    EXPECT_FALSE(std::filesystem::exists(folder / "nowhere"));
}

TEST(BrokenFile, AFolderOrAPipeIsNoFile) {
    const TempFolder folder;
    EXPECT_THAT(error_of_using(folder.path()), says(folder.path(), "is a folder"));
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    EXPECT_THAT(error_of_using(folder / "pipe"), says(folder / "pipe", "is not a regular file"));
    EXPECT_THAT(error_of_using("/dev/null"), says("/dev/null", "is not a regular file"));
}

// SQLite would wait forever for the pipe's writer.
TEST(BrokenFile, AJournalThatIsNoFileIsAnErrorAndNoHang) {
    const TempFolder folder;
    const std::string path = sound_file(folder);
    ASSERT_EQ(::mkfifo((path + "-journal").c_str(), 0600), 0);
    std::filesystem::create_symlink(path, folder / "link.db");
    for (const std::string& name : {path, folder / "link.db"}) {
        for (const bool read_only : {false, true})
            EXPECT_THAT(error_of_using(name, read_only), says(name, path + "-journal is not a regular file"));
    }
    std::filesystem::remove(path + "-journal");
    EXPECT_EQ(error_of_using(path), "");
    std::filesystem::create_directory(path + "-wal");
    EXPECT_THAT(error_of_using(path), says(path, path + "-wal is not a regular file"));
}

TEST(BrokenFile, PathsThatCannotBeAreErrors) {
    const TempFolder folder;
    write_file(folder / "file", "x");
    EXPECT_THAT(error_of_using(folder / "file/a.db"), says(folder / "file/a.db", "cannot be reached"));
    EXPECT_NE(error_of_using(""), "");
    EXPECT_NE(error_of_using(std::string("a\0b", 3)), "");
    EXPECT_NE(error_of_using(folder / std::string(300, 'x')), "");
}

TEST(BrokenFile, AnUriIsAFileName) {
    const TempFolder folder;
    const auto here = std::filesystem::current_path();
    std::filesystem::current_path(folder.path());
    Store::open({.path = "file:x.db?mode=memory"}).put(sample_winner());
    EXPECT_TRUE(std::filesystem::exists("file:x.db?mode=memory"));
    std::filesystem::current_path(here);
}

TEST(BrokenFile, MissingFoldersAreMadeForTheirOwnerAlone) {
    const TempFolder folder;
    const mode_t before = ::umask(0);
    EXPECT_EQ(error_of_using(folder / "one/two/a.db"), "");
    ::umask(before);
    struct stat found {};
    ASSERT_EQ(::stat((folder / "one").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0700U);
    ASSERT_EQ(::stat((folder / "one/two").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0700U);
    ASSERT_EQ(::stat((folder / "one/two/a.db").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0600U);
}

TEST(BrokenFile, AMissingFileIsMadeOnlyIfAsked) {
    const TempFolder folder;
    EXPECT_THAT(database_error_of([&] { Store::open({.path = folder / "a.db", .create = false}); }),
                says(folder / "a.db", "does not exist"));
    EXPECT_THAT(error_of_using(folder / "a.db", true), says(folder / "a.db", "does not exist"));
    EXPECT_FALSE(std::filesystem::exists(folder / "a.db"));
}

TEST(BrokenFile, AFileThatOthersMayWriteIsUsedWithAWarning) {
    const TempFolder folder;
    std::filesystem::permissions(sound_file(folder), std::filesystem::perms(0666));
    EXPECT_THAT(texts_of(Store::open({.path = folder / "a.db"}).warnings()), ElementsAre(HasSubstr("chmod o-w")));
}

TEST(BrokenFile, AnUnwritableFileIsAnErrorUnlessReadOnly) {
    const TempFolder folder;
    std::filesystem::permissions(sound_file(folder), std::filesystem::perms(0444));
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0777));
    EXPECT_EQ(as_nobody([&] {
                  return error_of_using(folder / "a.db").find("cannot be written") != std::string::npos &&
                         error_of_using(folder / "a.db", true).empty();
              }),
              0);
}

TEST(BrokenFile, AnUnwritableFileIsOpenedForReadingWhereThatWillDo) {
    const TempFolder folder;
    std::filesystem::permissions(sound_file(folder), std::filesystem::perms(0444));
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0777));
    EXPECT_EQ(as_nobody([&] {
                  Store store = Store::open({.path = folder / "a.db", .or_read_only = true});
                  // A search continues without storing its trials.
                  store.record(sample_problem(), sample_device(), sample_trial(1));
                  return store.is_read_only() && store.warnings().at(0).kind == WarningKind::read_only &&
                         store.find(sample_problem(7), sample_device()).size() == 1 && !store.flush() &&
                         fault_of([&] { store.put(sample_winner()); }) == DatabaseFault::read_only;
              }),
              0);
    EXPECT_FALSE(Store::open({.path = folder / "a.db", .or_read_only = true}).is_read_only() && ::geteuid() == 0);
}

TEST(BrokenFile, AMissingFileIsAnEmptyOneForAReaderWhoSaysSo) {
    const TempFolder folder;
    const Store store = Store::open({.path = folder / "a.db", .read_only = true, .missing_is_empty = true});
    EXPECT_THAT(store.list({}), SizeIs(0));
    EXPECT_EQ(store.path(), folder / "a.db");
    ASSERT_THAT(store.warnings(), SizeIs(1));
    EXPECT_EQ(store.warnings()[0].kind, WarningKind::missing);
    EXPECT_FALSE(std::filesystem::exists(folder / "a.db"));
}

TEST(BrokenFile, WarningsAreToldWhenTheyAreFoundAndFewOfAKind) {
    const TempFolder folder;
    change(sound_file(folder), "UPDATE winner SET e0 = -id WHERE id > 10");
    std::vector<Warning> heard;
    const Store store =
        Store::open({.path = folder / "a.db", .on_warning = [&](const Warning& warning) { heard.push_back(warning); }});
    for (int twice = 0; twice < 2; ++twice) EXPECT_THAT(store.list({}), SizeIs(10));
    EXPECT_THAT(heard, SizeIs(21));
    EXPECT_THAT(heard.back().text, HasSubstr("left out"));
    EXPECT_EQ(heard, store.warnings());
}

TEST(BrokenFile, AnUnwritableFolderIsAnErrorUnlessReadOnly) {
    const TempFolder folder;
    std::filesystem::permissions(sound_file(folder), std::filesystem::perms(0666));
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
    EXPECT_EQ(as_nobody([&] {
                  return error_of_using(folder / "a.db").find("folder that cannot be written") != std::string::npos &&
                         error_of_using(folder / "a.db", true).empty();
              }),
              0);
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
}

TEST(BrokenFile, AFolderThatCannotBeMadeIsNamed) {
    const TempFolder folder;
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
    EXPECT_EQ(as_nobody([&] {
                  return error_of_using(folder / "new/a.db").find("needs the folder " + (folder / "new")) != std::string::npos;
              }),
              0);
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
}

TEST(BrokenFile, AnUnreadableFileIsAnErrorForAReader) {
    const TempFolder folder;
    std::filesystem::permissions(sound_file(folder), std::filesystem::perms(0));
    std::filesystem::permissions(folder.path(), std::filesystem::perms(0777));
    EXPECT_EQ(as_nobody([&] { return error_of_using(folder / "a.db", true).find("cannot be opened") != std::string::npos; }), 0);
}

TEST(BrokenFile, AFullDiskKeepsWhatWasStored) {
    const TempFolder folder;
    const std::string path = sound_file(folder);
    const pid_t child = ::fork();
    if (child == 0) {  // a file size limit simulates a full disk
        std::signal(SIGXFSZ, SIG_IGN);
        const auto size = std::filesystem::file_size(path);
        const rlimit limit{size, size};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        std::optional<DatabaseFault> fault;
        Store store = Store::open({.path = path});
        for (std::int64_t m = 100; m < 1000 && !fault; ++m)
            fault = fault_of([&] { store.put(sample_winner(sample_problem(m))); });
        const std::string message = database_error_of([&] { store.put(sample_winner(sample_problem(2000))); });
        const bool told = fault == DatabaseFault::full && message.find("cannot grow") != std::string::npos;
        if (!told || store.count({}) < 50) std::cerr << message << "\n";
        ::_exit(told ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    const Store store = Store::open({.path = path});
    EXPECT_GE(store.count({}), 50);
    EXPECT_EQ(store.verify_integrity(), "");
}

TEST(BrokenFile, AFullFileSystemKeepsWhatWasStored) {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "tiny");
    if (::mount("tmpfs", (folder / "tiny").c_str(), "tmpfs", 0, "size=256k") != 0) GTEST_SKIP() << "mounting needs more rights";
    std::string message;
    std::int64_t stored = 0;
    {
        Store store = Store::open({.path = folder / "tiny/a.db"});
        while (message.empty() && stored < 10'000) {
            message = database_error_of([&] { store.put(sample_winner(sample_problem(stored + 1))); });
            if (message.empty()) ++stored;
        }
        EXPECT_THAT(message, AllOf(HasSubstr("cannot grow"), HasSubstr("intact")));
        EXPECT_EQ(store.count({}), stored);
        EXPECT_EQ(store.verify_integrity(), "");
    }
    ::umount((folder / "tiny").c_str());
}

TEST(BrokenFile, AWalFileIsBroughtBackToTheRollbackJournal) {
    const TempFolder folder;
    change(sound_file(folder), "PRAGMA journal_mode = WAL");
    EXPECT_THAT(Store::open({.path = folder / "a.db"}).describe(), HasSubstr("journal delete"));
}

}  // namespace
}  // namespace autotune::db
