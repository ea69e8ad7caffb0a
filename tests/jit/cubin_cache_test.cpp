#include "src/jit/cubin_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

namespace autotune::jit {
namespace {

namespace fs = std::filesystem;

const std::string kIdentity(64, 'a');

Compiled sample(const std::string& identity = kIdentity) {
    Compiled compiled{"gemm_mma_aaaa", identity, std::vector<std::byte>(5000, std::byte{0x5a}), {}};
    compiled.report = {
        .registers = 168, .spill_bytes = 16, .static_smem_bytes = 1024, .wgmma_serialised = true, .compile_ms = 12.5};
    return compiled;
}

class CubinCacheTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "autotune-cache-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        folder_ = (root_ / "a" / "b").string();
    }
    void TearDown() override { fs::remove_all(root_); }

    fs::path file() const { return fs::path(folder_) / (kIdentity + ".atcubin"); }
    std::string bytes() const {
        std::ifstream in(file(), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void replace(const std::string& text) const { std::ofstream(file(), std::ios::binary | std::ios::trunc) << text; }

    fs::path root_;
    std::string folder_;
};

TEST_F(CubinCacheTest, GivesBackWhatWasPut) {
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    const auto found = cache.find(kIdentity);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->symbol, "gemm_mma_aaaa");
    EXPECT_EQ(found->cubin, sample().cubin);
    EXPECT_EQ(found->report.registers, 168);
    EXPECT_EQ(found->report.spill_bytes, 16);
    EXPECT_EQ(found->report.static_smem_bytes, 1024);
    EXPECT_TRUE(found->report.wgmma_serialised);
    EXPECT_FALSE(found->report.setmaxnreg_ignored);
    EXPECT_DOUBLE_EQ(found->report.compile_ms, 12.5);
    EXPECT_TRUE(found->report.from_cache);
}

TEST_F(CubinCacheTest, MissesWhatWasNeverPut) {
    EXPECT_FALSE(CubinCache(folder_).find(kIdentity));
}

TEST_F(CubinCacheTest, MakesItsFolderPrivate) {
    const CubinCache cache(folder_);
    struct stat info = {};
    ASSERT_EQ(::stat(folder_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(CubinCacheTest, MakesItsFilesPrivate) {
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    struct stat info = {};
    ASSERT_EQ(::stat(file().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(CubinCacheTest, LeavesNoTemporaryFileBehind) {
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}), 1);
}

// A name with a process id could be that of another container's process, whose leftover file would then block it forever.
TEST_F(CubinCacheTest, LeftoversOfEndedWritersStopNobodyAndAreRemovedAfterAnHour) {
    const CubinCache cache(folder_);
    const fs::path fresh = fs::path(folder_) / (kIdentity + ".atcubin." + std::to_string(::getpid()) + ".0.tmp");
    const fs::path stale = fs::path(folder_) / (kIdentity + ".abcdef.tmp");
    std::ofstream(fresh) << "half";
    std::ofstream(stale) << "half";
    fs::last_write_time(stale, fs::file_time_type::clock::now() - std::chrono::hours(2));
    EXPECT_TRUE(cache.put(sample()));
    cache.clean();
    EXPECT_TRUE(fs::exists(fresh)) << "its writer may be at work";
    EXPECT_FALSE(fs::exists(stale));
    EXPECT_TRUE(cache.find(kIdentity));
}

TEST_F(CubinCacheTest, SaysWhyItKeepsNothing) {
    EXPECT_EQ(CubinCache(folder_).why_not_usable(), "");
    fs::permissions(root_ / "a", fs::perms(0775));
    EXPECT_EQ(CubinCache(folder_).why_not_usable(),
              "the folder that holds the cubin cache " + folder_ +
                  " belongs to another user or can be written by others; chmod go-w it, or name another cache folder");
}

TEST_F(CubinCacheTest, MissesAFileOfAnyShorterLength) {
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    const std::string whole = bytes();
    for (std::size_t length = 0; length < whole.size(); length += 37) {
        replace(whole.substr(0, length));
        ASSERT_FALSE(cache.find(kIdentity)) << "at " << length << " bytes";
    }
}

TEST_F(CubinCacheTest, MissesAFileWithAnyBitFlipped) {
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    const std::string whole = bytes();
    for (std::size_t at = 0; at < whole.size(); at += 13) {
        std::string altered = whole;
        altered[at] = static_cast<char>(altered[at] ^ 4);
        replace(altered);
        ASSERT_FALSE(cache.find(kIdentity)) << "byte " << at;
    }
}

TEST_F(CubinCacheTest, MissesAFileWithBytesAppended) {
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    replace(bytes() + "x");
    EXPECT_FALSE(cache.find(kIdentity));
}

TEST_F(CubinCacheTest, MissesAnotherInstancesFileUnderThisName) {
    const CubinCache cache(folder_);
    const std::string other(64, 'b');
    ASSERT_TRUE(cache.put(sample(other)));
    fs::rename(fs::path(folder_) / (other + ".atcubin"), file());
    EXPECT_FALSE(cache.find(kIdentity));
}

TEST_F(CubinCacheTest, MissesASymbolicLink) {
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    fs::rename(file(), root_ / "elsewhere");
    fs::create_symlink(root_ / "elsewhere", file());
    EXPECT_FALSE(cache.find(kIdentity));
}

TEST_F(CubinCacheTest, MissesAFileThatOthersCanWrite) {
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    ASSERT_EQ(::chmod(file().c_str(), 0620), 0);
    EXPECT_FALSE(cache.find(kIdentity));
}

TEST_F(CubinCacheTest, MissesAFifoWithoutWaitingForAWriter) {
    const CubinCache cache(folder_);
    ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
    EXPECT_FALSE(cache.find(kIdentity));
}

TEST_F(CubinCacheTest, MissesAFolderUnderTheName) {
    const CubinCache cache(folder_);
    fs::create_directory(file());
    EXPECT_FALSE(cache.find(kIdentity));
}

TEST_F(CubinCacheTest, MissesAFileOfAnotherUser) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    ASSERT_EQ(::chown(file().c_str(), 12345, 12345), 0);
    EXPECT_FALSE(cache.find(kIdentity));
}

TEST_F(CubinCacheTest, ReplacesABrokenFile) {
    const CubinCache cache(folder_);
    ASSERT_TRUE(cache.put(sample()));
    replace("broken");
    ASSERT_TRUE(cache.put(sample()));
    EXPECT_TRUE(cache.find(kIdentity));
}

TEST_F(CubinCacheTest, StoresNothingWithoutAFolder) {
    const CubinCache cache("");
    EXPECT_FALSE(cache.put(sample()));
    EXPECT_FALSE(cache.find(kIdentity));
    EXPECT_FALSE(cache.disabled_because().empty());
}

TEST_F(CubinCacheTest, StoresNothingInAFolderThatOthersCanWrite) {
    fs::create_directories(folder_);
    ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
    const CubinCache cache(folder_);
    EXPECT_FALSE(cache.put(sample()));
    EXPECT_NE(cache.disabled_because().find("chmod 700"), std::string::npos);
}

// If a user can write the parent folder, they can replace our folder.
TEST_F(CubinCacheTest, StoresNothingInAFolderThatOthersCanReplace) {
    fs::create_directories(folder_);
    ASSERT_EQ(::chmod((root_ / "a").c_str(), 0777), 0);
    const CubinCache cache(folder_);
    EXPECT_FALSE(cache.put(sample()));
    EXPECT_NE(cache.disabled_because().find("chmod go-w"), std::string::npos);
}

TEST_F(CubinCacheTest, StoresWhereOnlyTheOwnerCanRenameAFolder) {
    fs::create_directories(folder_);
    ASSERT_EQ(::chmod((root_ / "a").c_str(), 01777), 0);  // as /tmp is
    EXPECT_TRUE(CubinCache(folder_).put(sample()));
}

TEST_F(CubinCacheTest, StoresNothingInAFolderWithAParentOfAnotherUser) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root gives folders away";
    fs::create_directories(folder_);
    ASSERT_EQ(::chown((root_ / "a").c_str(), 65534, 65534), 0);
    EXPECT_FALSE(CubinCache(folder_).put(sample()));
}

TEST_F(CubinCacheTest, MakesItsFoldersPrivateWhateverTheUmask) {
    const mode_t before = ::umask(0);
    const CubinCache cache(folder_);
    ::umask(before);
    EXPECT_TRUE(cache.put(sample()));
    for (const fs::path& folder : {root_ / "a", fs::path(folder_)})
        EXPECT_EQ(fs::status(folder).permissions() & fs::perms::all, fs::perms::owner_all) << folder;
}

TEST_F(CubinCacheTest, SaysWhichFolderOfItsPathCannotBeMade) {
    std::ofstream(root_ / "a") << "a file";
    EXPECT_NE(CubinCache(folder_).disabled_because().find("Not a directory"), std::string::npos);
}

TEST_F(CubinCacheTest, StoresNothingWhereAFileStandsInTheWay) {
    fs::create_directories(root_ / "a");
    std::ofstream(folder_) << "a file";
    const CubinCache cache(folder_);
    EXPECT_FALSE(cache.put(sample()));
    EXPECT_NE(cache.disabled_because().find(folder_), std::string::npos);
}

TEST_F(CubinCacheTest, RefusesAnIdentityThatIsNoHash) {
    const CubinCache cache(folder_);
    EXPECT_FALSE(cache.put(sample("../../../../etc/passwd")));
    EXPECT_FALSE(cache.find("../../../../etc/passwd"));
}

TEST_F(CubinCacheTest, TakesManyWritersAndReadersOfOneIdentity) {
    const CubinCache cache(folder_);
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 50; ++i) {
                if (!cache.put(sample())) ++wrong;
                const auto found = cache.find(kIdentity);
                if (!found || found->cubin != sample().cubin) ++wrong;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace autotune::jit
