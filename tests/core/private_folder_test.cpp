#include "src/core/system/private_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace autotune::private_folder_test {
namespace {

namespace fs = std::filesystem;

class PrivateFolder : public testing::Test {
  protected:
    PrivateFolder() {
        std::string pattern = testing::TempDir() + "private-XXXXXX";
        root_ = ::mkdtemp(pattern.data());
    }
    ~PrivateFolder() override { fs::remove_all(root_); }
    std::string root_;
};

TEST_F(PrivateFolder, IsMadeForItsOwnerAloneWithItsParents) {
    ASSERT_EQ(make_private_folders(root_ + "/a/b"), 0);
    EXPECT_EQ(fs::status(root_ + "/a").permissions(), fs::perms::owner_all);
    EXPECT_EQ(fs::status(root_ + "/a/b").permissions(), fs::perms::owner_all);
}

TEST_F(PrivateFolder, SaysWhichPartCannotBeMadeAndWhy) {
    std::ofstream(root_ + "/file") << "in the way";
    std::string failed_at;
    EXPECT_EQ(make_private_folders(root_ + "/file/b", &failed_at), ENOTDIR);
    EXPECT_EQ(failed_at, root_ + "/file");
    EXPECT_EQ(why_folder_not_writable(root_ + "/file/b"), "the folder " + root_ + "/file cannot be made: Not a directory");
}

TEST_F(PrivateFolder, TemporaryFilesNeverShareAName) {
    const TemporaryFile one = make_temporary_file(root_, "kernel", ".tmp"), other = make_temporary_file(root_, "kernel", ".tmp");
    ASSERT_TRUE(one.file.open() && other.file.open());
    EXPECT_NE(one.path, other.path);
    EXPECT_EQ(fs::status(one.path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
    EXPECT_TRUE(one.path.ends_with(".tmp"));
}

TEST_F(PrivateFolder, ThatCanBeWrittenIsLeftAsItWas) {
    EXPECT_EQ(why_folder_not_writable(root_ + "/new", 40'000), "");
    EXPECT_TRUE(fs::is_empty(root_ + "/new"));
}

TEST_F(PrivateFolder, ThatCouldBeMadeIsNotMade) {
    EXPECT_EQ(why_folder_not_makeable(root_ + "/a/b"), "");
    EXPECT_FALSE(fs::exists(root_ + "/a"));
    std::ofstream(root_ + "/file") << "in the way";
    EXPECT_EQ(why_folder_not_makeable(root_ + "/file/b"), "the folder " + root_ + "/file/b cannot be reached: Not a directory");
}

}  // namespace
}  // namespace autotune::private_folder_test
