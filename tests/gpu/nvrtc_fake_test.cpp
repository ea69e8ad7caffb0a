// How the compiler is found on a machine whose loader knows none.
#include <cstdlib>

#include "src/core/error.h"
#include "src/gpu/library_folders.h"
#include "src/gpu/nvrtc.h"
#include "tests/support/fake/fake_test.h"

namespace autotune::test {
namespace {

namespace fs = std::filesystem;

// Puts a copy of the scripted compiler into a package folder of `environment`, as pip would.
void install_compiler(const fake::Sandbox& sandbox, const fs::path& environment) {
    ASSERT_EQ(sandbox.run({"/bin/true"}).exit_code, 0);  // creates the folder of links to the scripted libraries
    const fs::path packages = environment / "lib/python3.11/site-packages/nvidia/cu13/lib";
    fs::create_directories(packages);
    fs::copy_file(fs::canonical(sandbox.folder() / "lib000/libnvrtc.so.13"), packages / "libnvrtc.so.13");
}

// The loader finds no compiler, no variable names a toolkit, and `environment` is active.
fake::RunOptions machine_with(const fs::path& environment) {
    return {.nvrtc = fake::Use::none,
            .environment = {{"CUDA_PATH", ""}, {"CUDA_HOME", ""}, {"VIRTUAL_ENV", environment.string()}}};
}

TEST(NvrtcOfAPipPackage, IsFoundInAnActiveVirtualEnvironment) {
    fake::Sandbox sandbox;
    const fs::path environment = fs::path(sandbox.folder()) / "venv";
    if (std::getenv("AUTOTUNE_TEST_IN_FAKE") == nullptr) install_compiler(sandbox, environment);
    if (!in_fake_process(sandbox, machine_with(environment))) return;
    const auto nvrtc = gpu::Nvrtc::load({.folders = gpu::library_folders([](const char* name) { return std::getenv(name); })});
    EXPECT_EQ(nvrtc->path(),
              std::string(std::getenv("VIRTUAL_ENV")) + "/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
}

TEST(NvrtcOfAPipPackage, IsNotLookedForUnasked) {
    fake::Sandbox sandbox;
    const fs::path environment = fs::path(sandbox.folder()) / "venv";
    if (std::getenv("AUTOTUNE_TEST_IN_FAKE") == nullptr) install_compiler(sandbox, environment);
    if (!in_fake_process(sandbox, machine_with(environment))) return;
    try {
        gpu::Nvrtc::load({.driver_major = 13});
    } catch (const Error& error) {  // The machine may have an NVRTC 12.
        EXPECT_EQ(error.code(), ErrorCode::no_compiler);
        EXPECT_EQ(std::string(error.what()).find("venv"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace autotune::test
