// Tests of src/core/system/read_file.h and src/core/system/write_file.h, which access files from outside.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "src/core/system/read_file.h"
#include "src/core/system/write_file.h"

namespace autotune::files_test {
namespace {

using ::testing::ElementsAre;

class Files : public ::testing::Test {
  protected:
    Files() {
        std::string pattern = (std::filesystem::temp_directory_path() / "autotune-files-XXXXXX").string();
        folder_ = ::mkdtemp(pattern.data());
    }
    ~Files() override {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    std::string path(const std::string& name) const { return folder_ + "/" + name; }
    static void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
    static std::string text_of(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& entry : std::filesystem::directory_iterator(folder_)) found.push_back(entry.path().filename());
        std::sort(found.begin(), found.end());
        return found;
    }

    std::string folder_;
};

TEST_F(Files, AreReadWholeAndWithoutAMark) {
    put(path("a"), std::string("one\0two\n", 8));
    EXPECT_EQ(read_regular_file(path("a"), 100).text, std::string("one\0two\n", 8));
    put(path("b"), "\xEF\xBB\xBFtext");
    EXPECT_EQ(read_regular_file(path("b"), 100).text, "text");
    put(path("c"), "");
    const FileContent empty = read_regular_file(path("c"), 100);
    EXPECT_TRUE(empty.is_read);
    EXPECT_EQ(empty.text, "");
    put(path("d"), std::string(300'000, 'x'));
    EXPECT_EQ(read_regular_file(path("d"), 300'000).text.size(), 300'000U);
    EXPECT_EQ(read_regular_file("/proc/self/status", 1 << 20).text.substr(0, 5), "Name:");  // a file without a stated size
}

// The reader must neither block on any of these nor read forever.
TEST_F(Files, ThatAreNoneAreNamedAndNotRead) {
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    EXPECT_EQ(read_regular_file(path("fifo"), 100).why, "it is a pipe, not a regular file");
    EXPECT_EQ(read_regular_file("/dev/zero", 100).why, "it is a device, not a regular file");
    EXPECT_EQ(read_regular_file("/dev/tty", 100).is_read, false);
    EXPECT_EQ(read_regular_file(folder_, 100).why, "it is a folder, not a file");
    EXPECT_EQ(read_regular_file(path("none"), 100).why, "No such file or directory");
    EXPECT_EQ(read_regular_file(path("none"), 100).code, ENOENT);
    put(path("large"), std::string(101, 'x'));
    EXPECT_EQ(read_regular_file(path("large"), 100).why, "it is larger than 100 bytes");
    // The size shows only while the file is read.
    EXPECT_EQ(read_regular_file("/proc/self/maps", 16).why, "it is larger than 16 bytes");
    ASSERT_EQ(::truncate(path("large").c_str(), off_t{1} << 40), 0);  // a hole of a TiB
    EXPECT_EQ(read_regular_file(path("large"), 16 << 20).why, "it is larger than 16 MiB");
    std::filesystem::create_symlink(path("loop"), path("loop"));
    EXPECT_EQ(read_regular_file(path("loop"), 100).code, ELOOP);
}

TEST_F(Files, AreReplacedWithTheirModeAndNothingStaysBeside) {
    put(path("a"), "before");
    ASSERT_EQ(::chmod(path("a").c_str(), 0640), 0);
    std::filesystem::create_symlink("a", path("link"));
    EXPECT_FALSE(replace_file(path("link"), "after"));
    EXPECT_EQ(text_of(path("a")), "after");
    EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
    struct stat found {};
    ASSERT_EQ(::stat(path("a").c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777U, 0640U);
    EXPECT_FALSE(replace_file(path("new"), "text"));
    EXPECT_THAT(names(), ElementsAre("a", "link", "new"));
}

TEST_F(Files, ThatAreNotCommittedLeaveWhatWasThere) {
    put(path("a"), "before");
    {
        FileWriter writer(path("a"));
        EXPECT_FALSE(writer.write("half"));
    }
    EXPECT_EQ(text_of(path("a")), "before");
    EXPECT_FALSE(why_not_writable(path("a")));
    EXPECT_FALSE(why_not_writable(path("b")));
    EXPECT_THAT(names(), ElementsAre("a"));
}

// Simulates a full disk: no file may grow beyond 1 KiB.
TEST_F(Files, OnAFullDiskCostNothing) {
    put(path("a"), "before");
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{1024, 1024};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        ::_exit(replace_file(path("a"), std::string(10'000, 'x')).value());
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), EFBIG);
    EXPECT_EQ(text_of(path("a")), "before");
    EXPECT_THAT(names(), ElementsAre("a"));
    EXPECT_EQ(replace_file("/dev/full", "text").value(), ENOSPC);
}

TEST_F(Files, ThatCannotBeWrittenSayWhyAtOnce) {
    EXPECT_EQ(why_not_writable(path("none/a")).value(), ENOENT);
    EXPECT_EQ(why_not_writable(folder_).value(), EISDIR);
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    EXPECT_EQ(why_not_writable(path("fifo")).value(), ENXIO);  // the FIFO has no reader, but the call must not block
    EXPECT_FALSE(why_not_writable("/dev/null"));
}

}  // namespace
}  // namespace autotune::files_test
