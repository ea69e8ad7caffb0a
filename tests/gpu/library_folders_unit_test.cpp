#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "src/gpu/library_folders.h"

namespace autotune::gpu {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A machine made of folders. The search finds what a test creates below root().
class LibraryFolders : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "autotune-folders-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = fs::canonical(pattern).string();
    }
    void TearDown() override { fs::remove_all(root_); }

    std::string plant(const std::string& path) const {
        fs::create_directories(root_ + path);
        return root_ + path;
    }
    void plant_program(const std::string& path) const {
        plant(fs::path(path).parent_path().string());
        std::ofstream(root_ + path) << "#!/bin/false\n";
        fs::permissions(root_ + path, fs::perms::owner_all);
    }
    std::vector<std::string> search(const std::map<std::string, std::string>& variables = {}) const {
        const auto variable = [&](const char* name) -> const char* {
            const auto found = variables.find(name);
            return found == variables.end() ? nullptr : found->second.c_str();
        };
        return library_folders(variable, root_);
    }
    std::string root_;
};

TEST_F(LibraryFolders, OfAnEmptyMachineAreNone) {
    EXPECT_THAT(search(), IsEmpty());
}

TEST_F(LibraryFolders, OfAToolkitAreItsLibraryFolders) {
    const std::string system = plant("/usr/local/cuda/lib64");
    const std::string named = plant("/toolkit/targets/x86_64-linux/lib");
    EXPECT_THAT(search({{"CUDA_PATH", root_ + "/toolkit"}}), ElementsAre(named, system));
}

TEST_F(LibraryFolders, OfPipsPackagesAreBothLayoutsTheNewerReleaseFirst) {
    const std::string packages = "/venv/lib/python3.11/site-packages/nvidia";
    const std::string old = plant(packages + "/cuda_nvrtc/lib");
    const std::string twelve = plant(packages + "/cu12/lib");
    const std::string thirteen = plant(packages + "/cu13/lib");
    EXPECT_THAT(search({{"VIRTUAL_ENV", root_ + "/venv"}}), ElementsAre(thirteen, twelve, old));
}

TEST_F(LibraryFolders, OfNewerPythonsComeFirst) {
    const std::string nine = plant("/usr/local/lib/python3.9/site-packages/nvidia/cu13/lib");
    const std::string eleven = plant("/usr/local/lib/python3.11/dist-packages/nvidia/cu13/lib");
    const std::string debian = plant("/usr/lib/python3/dist-packages/nvidia/cuda_nvrtc/lib");
    EXPECT_THAT(search(), ElementsAre(eleven, nine, debian));
}

TEST_F(LibraryFolders, OfTheFirstPythonOnThePathAreFound) {
    plant_program("/venv/bin/python3");
    plant_program("/other/bin/python3");
    const std::string venv = plant("/venv/lib/python3.12/site-packages/nvidia/cu13/lib");
    plant("/other/lib/python3.12/site-packages/nvidia/cu13/lib");
    const std::string path = "relative:" + root_ + "/nothing::" + root_ + "/venv/bin:" + root_ + "/other/bin";
    EXPECT_THAT(search({{"PATH", path}}), ElementsAre(venv));
}

TEST_F(LibraryFolders, OfAPythonBehindALinkAreFound) {
    plant_program("/opt/python/bin/python3");
    plant("/bin");
    fs::create_symlink(root_ + "/opt/python/bin/python3", root_ + "/bin/python3");
    const std::string packages = plant("/opt/python/lib/python3.12/site-packages/nvidia/cu13/lib");
    EXPECT_THAT(search({{"PATH", root_ + "/bin"}}), ElementsAre(packages));
}

TEST_F(LibraryFolders, OfPyenvAreThoseBehindItsShims) {
    plant_program("/pyenv/shims/python3");
    const std::string packages = plant("/pyenv/versions/3.11.7/lib/python3.11/site-packages/nvidia/cu13/lib");
    EXPECT_THAT(search({{"PATH", root_ + "/pyenv/shims"}}), ElementsAre(packages));
}

TEST_F(LibraryFolders, OfCondaIncludeItsOwnLibraries) {
    const std::string own = plant("/conda/lib");
    const std::string packages = plant("/conda/lib/python3.10/site-packages/nvidia/cu13/lib");
    EXPECT_THAT(search({{"CONDA_PREFIX", root_ + "/conda"}}), ElementsAre(own, packages));
}

TEST_F(LibraryFolders, OfAUserAreBelowHome) {
    const std::string packages = plant("/home/.local/lib/python3.11/site-packages/nvidia/cu13/lib");
    EXPECT_THAT(search({{"HOME", root_ + "/home"}}), ElementsAre(packages));
}

TEST_F(LibraryFolders, OfAnotherUsersHomeAreNotTrusted) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
    plant("/home/.local/lib/python3.11/site-packages/nvidia/cu13/lib");
    ASSERT_EQ(::chown((root_ + "/home").c_str(), 65534, 65534), 0);
    EXPECT_THAT(search({{"HOME", root_ + "/home"}}), IsEmpty());
}

TEST_F(LibraryFolders, OfRelativeVariablesAreIgnored) {
    plant("/toolkit/lib64");
    const fs::path before = fs::current_path();
    fs::current_path(root_);
    EXPECT_THAT(search({{"CUDA_PATH", "toolkit"}, {"VIRTUAL_ENV", "."}, {"HOME", "."}}), IsEmpty());
    fs::current_path(before);
}

TEST_F(LibraryFolders, AreNamedOnce) {
    plant_program("/venv/bin/python3");
    const std::string packages = plant("/venv/lib/python3.11/site-packages/nvidia/cu13/lib");
    EXPECT_THAT(search({{"VIRTUAL_ENV", root_ + "/venv"}, {"PATH", root_ + "/venv/bin"}}), ElementsAre(packages));
}

}  // namespace
}  // namespace autotune::gpu
