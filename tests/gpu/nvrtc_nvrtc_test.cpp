#include "src/gpu/nvrtc.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "src/core/error.h"
#include "tests/support/nvrtc_for_tests.h"

namespace autotune::test {
namespace {

// The real compiler, found as the product finds it. This needs no GPU.
class Nvrtc : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string why;
        nvrtc_ = nvrtc_or_skip(why);
        if (nvrtc_ == nullptr) GTEST_SKIP() << why;
    }
    gpu::Nvrtc::Output compile(const std::string& text,
                               std::vector<std::string> options = {"--std=c++17", "-arch=sm_90a"}) const {
        return nvrtc_->compile({.text = text, .name = "test.cu", .headers = headers_, .options = std::move(options)});
    }
    std::shared_ptr<const gpu::Nvrtc> nvrtc_;
    std::vector<std::pair<std::string, std::string>> headers_;
};

constexpr const char* kKernel = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n";

TEST_F(Nvrtc, MakesACubinForTheArchitecture) {
    const auto output = compile(kKernel);
    ASSERT_TRUE(output.ok) << output.log;
    ASSERT_GT(output.cubin.size(), 4u);
    EXPECT_EQ(output.cubin[1], std::byte{'E'});  // \x7f ELF: a cubin, not PTX
    EXPECT_GT(output.milliseconds, 0);
}

TEST_F(Nvrtc, RefusedSourceIsAResultWithTheCompilersWords) {
    const auto output = compile("extern \"C\" __global__ void broken() { undeclared = 1; }\n");
    EXPECT_FALSE(output.ok);
    EXPECT_TRUE(output.cubin.empty());
    EXPECT_NE(output.log.find("undeclared"), std::string::npos) << output.log;
}

TEST_F(Nvrtc, FailedStaticAssertIsAResult) {
    const auto output = compile("static_assert(1 == 2, \"tile does not fit\");\n" + std::string(kKernel));
    EXPECT_FALSE(output.ok);
    EXPECT_NE(output.log.find("tile does not fit"), std::string::npos) << output.log;
}

TEST_F(Nvrtc, UnknownOptionIsAResult) {
    const auto output = compile(kKernel, {"-arch=sm_90a", "--no-such-option"});
    EXPECT_FALSE(output.ok);
    EXPECT_FALSE(output.log.empty());
}

TEST_F(Nvrtc, IncludesComeFromTheHeadersInMemory) {
    headers_ = {{"common/factor.cuh", "constexpr float factor = 3;\n"}};
    const auto output = compile("#include \"common/factor.cuh\"\nextern \"C\" __global__ void f(float* x) { *x = factor; }\n");
    EXPECT_TRUE(output.ok) << output.log;
}

TEST_F(Nvrtc, CompilersReportIsInTheLog) {
    const auto output = compile(kKernel, {"-arch=sm_90a", "-Xptxas=-v"});
    ASSERT_TRUE(output.ok) << output.log;
    EXPECT_NE(output.log.find("registers"), std::string::npos) << output.log;
}

TEST_F(Nvrtc, NoCacheIsKnownFrom129) {
    const auto output = compile(kKernel, {"-arch=sm_90a", "--no-cache"});
    EXPECT_EQ(output.ok, nvrtc_->has_own_cache()) << nvrtc_->version() << output.log;
}

TEST_F(Nvrtc, TellsItsVersionAndPlace) {
    EXPECT_GE(std::stoi(nvrtc_->version()), 12);
    EXPECT_NE(nvrtc_->path().find("libnvrtc"), std::string::npos);
}

// NVRTC opens its builtins by name at its first compilation. Without a toolkit in the loader's path, that name is found only if
// the library is loaded already.
TEST_F(Nvrtc, BuiltinsBesideTheLibraryAreLoadedWithIt) {
    const std::filesystem::path builtins =
        std::filesystem::canonical(nvrtc_->path()).parent_path() / ("libnvrtc-builtins.so." + nvrtc_->version());
    ASSERT_TRUE(std::filesystem::exists(builtins)) << builtins;
    void* loaded = ::dlopen(builtins.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    EXPECT_NE(loaded, nullptr) << ::dlerror();
}

TEST(NvrtcSearch, AFolderThatIsNamedIsSearched) {
    std::string pattern = (std::filesystem::temp_directory_path() / "autotune-nvrtc-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    std::ofstream(pattern + "/libnvrtc.so.11") << "not a library\n";
    std::ofstream(pattern + "/libnvrtc.so.12") << "not a library\n";
    try {
        gpu::Nvrtc::load({.folders = {pattern}, .driver_major = 12});
    } catch (const Error& error) {  // The machine may have an NVRTC 12.
        EXPECT_NE(std::string(error.what()).find(pattern + "/libnvrtc.so.12: "), std::string::npos) << error.what();
        EXPECT_EQ(std::string(error.what()).find("libnvrtc.so.11"), std::string::npos);
    }
    std::filesystem::remove_all(pattern);
}

TEST(NvrtcSearch, ExplicitPathThatIsNoLibraryIsNamed) {
    try {
        gpu::Nvrtc::load({.explicit_path = "/nonexistent/libnvrtc.so"});
        FAIL() << "loaded";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::no_compiler);
        EXPECT_NE(std::string(error.what()).find("/nonexistent/libnvrtc.so"), std::string::npos);
    }
}

TEST(NvrtcSearch, DriverTooOldForAnyCompilerListsWhatWasTried) {
    EXPECT_THROW(gpu::Nvrtc::load({.driver_major = 11}), Error);
}

}  // namespace
}  // namespace autotune::test
