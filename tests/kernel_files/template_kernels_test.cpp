// Kernels that are templates, named as C++ names them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/catalogue/catalogue.h"
#include "src/gpu/kernel_names.h"
#include "src/jit/render.h"
#include "src/kernel_files/tuned_header.h"
#include "tests/kernel_files/sample.h"

namespace autotune::kernel_files {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

constexpr const char* kTemplates = R"cu(#include "helper.h"
namespace ours {
template <const int threads, typename T, int WIDTH = 1>
__global__ void __launch_bounds__(threads) scale(const T* x, T* y, float factor, int n) {
    for (int i = threadIdx.x; i < n; i += threads) y[i] = helper(x[i]) * factor;
}
template <typename T>
__device__ T twice(T x) { return x + x; }
}
template <class Real> __global__ void scale_reference(const Real* x, Real* y, float factor, int n) {
    for (int i = 0; i < n; ++i) y[i] = x[i] * factor;
}
)cu";

std::string with(std::string text, const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
    return text;
}

// The sample with template kernels; `name` is the step's kernel.
Loaded loaded(const Folder& folder, const std::string& name, const std::string& reference = "scale_reference<double>",
              const std::string& source = kTemplates) {
    folder.put("scale.cu", source);
    std::string text = with(kFile, "kernel = \"scale\"", "kernel = \"" + name + "\"");
    folder.put("scale.toml", with(text, "kernel = \"scale_reference\"", "kernel = \"" + reference + "\""));
    return load(folder.path("scale.toml"), {});
}

std::vector<std::string> told(const Loaded& file) {
    std::vector<std::string> all;
    for (const Finding& finding : file.findings) all.push_back(finding.text);
    return all;
}

struct Rendering {
    explicit Rendering(const Loaded& file) : catalogue(Catalogue::embedded()) {
        catalogue.add(file.file.family);
        family = catalogue.find_family("user_scale/main");
        problem = catalogue.problem({.op = "user_scale", .shape = "1000", .options = {}});
        space = family->space(problem, device);
    }
    jit::Rendered of(const Config& config) const {
        return jit::render(catalogue, *family, problem, space, config, {"sm_90a", "13.0"});
    }
    jit::Rendered reference() const {
        return jit::render_reference(catalogue, *catalogue.find_op("user_scale"), problem, {"sm_90a", "13.0"});
    }

    Catalogue catalogue;
    Device device = *reference_device("sm_90a");
    const Family* family = nullptr;
    Problem problem;
    SearchSpace space;
};

TEST(TemplateKernels, AreNamedWithTheValuesOfParameters) {
    const Folder folder;
    const Loaded file = loaded(folder, "ours::scale<threads, float, width>");
    ASSERT_THAT(told(file), IsEmpty());
    EXPECT_THAT(check(file.file, {*reference_device("sm_90a")}), IsEmpty());
    const Rendering rendering(file);
    Config config = rendering.space.default_config;
    config.set("width", 4);
    const jit::Rendered rendered = rendering.of(config);
    EXPECT_THAT(rendered.kernel_names, ElementsAre(Pair(rendered.symbol, "ours::" + rendered.symbol + "<128, float, 4>")));
    EXPECT_THAT(rendered.source, AllOf(HasSubstr("#define scale " + rendered.symbol + "\n"), Not(HasSubstr("#define threads")),
                                       Not(HasSubstr("#define width")), Not(HasSubstr("extern \"C\" __global__ void __launch"))));
    EXPECT_NE(rendering.of(rendering.space.default_config).identity, rendered.identity) << "another instance";
    const jit::Rendered reference = rendering.reference();
    const std::string symbol = reference.symbol + "_scale_reference__1";
    EXPECT_THAT(reference.kernel_names, ElementsAre(Pair(symbol, symbol + "<double>")));
}

TEST(TemplateKernels, OfOneTemplateShareItsName) {
    const Folder folder;
    folder.put("scale.cu", kTemplates);
    std::string text = with(kFile, "kernel = \"scale\"", "kernel = \"ours::scale<threads, float>\"");
    text = with(text, "kernel = \"scale_reference\"", "kernel = \"scale_reference<double>\"");
    text = with(text, "values = [1, 2, 4]", "values = [1, 2, 4]\nkind = \"launch\"");
    text = with(text, "[check.reference]",
                "[[step]]\nkernel = \"ours::scale<32, float, items - threads>\"\ngrid = [1]\nblock = [32]\nargs = [\"y\", \"y\", "
                "\"factor\", "
                "\"i32: n\"]\n[check.reference]");
    text = with(text, "access = \"out\"", "access = \"inout\"");
    text = with(text, "items = \"threads * width\"", "items = \"threads * 2\"");
    folder.put("scale.toml", text);
    const Loaded file = load(folder.path("scale.toml"), {});
    ASSERT_TRUE(file.is_whole()) << ::testing::PrintToString(told(file));
    const jit::Rendered rendered = Rendering(file).of(Rendering(file).space.default_config);
    EXPECT_THAT(rendered.kernel_names,
                ElementsAre(Pair(rendered.symbol, "ours::" + rendered.symbol + "<128, float>"),
                            Pair(rendered.symbol + "_scale__1", "ours::" + rendered.symbol + "<32, float, 256 - 128>")));
}

TEST(TemplateKernels, AreToldWhatIsWrongWithTheirNames) {
    const Folder folder;
    EXPECT_THAT(told(loaded(folder, "scale")),
                Contains("kernel 'scale' is a template: say its arguments, which may be parameters of this file, as in "
                         "\"scale<threads, T, WIDTH>\""));
    EXPECT_THAT(told(loaded(folder, "ours::scale<threads>")),
                Contains("template 'scale' takes 2 arguments, and this name gives 1"));
    EXPECT_THAT(told(loaded(folder, "ours::scales<threads, float>")),
                Contains(HasSubstr("there is no kernel 'scales' in scale.cu")));
    EXPECT_THAT(told(loaded(folder, "ours::scale<threads, float> evil; int x<1>")),
                Contains(HasSubstr("is no name of a kernel")));
    EXPECT_THAT(
        told(loaded(folder, "ours::scale<threads, float>", "scale_reference<double, width>")),
        Contains(HasSubstr("the name of this kernel uses parameter 'width'; the reference and preparations know no parameters")));
    EXPECT_THAT(
        told(loaded(folder, "ours::scale<128, float, width>")),
        Contains("'threads' is the name of a template's parameter at scale.cu:3, and a macro of that name would break the "
                 "template: name the kernel with its arguments, as in \"gemm<threads>\", or give this parameter another name"));
    const std::string plain =
        "__device__ float helper(float);\n__global__ void plain(const float* x, float* y, float factor, int n) {}\n";
    EXPECT_THAT(told(loaded(folder, "plain<threads, width>", "scale_reference<double>", kTemplates + plain)),
                Contains("kernel 'plain' is no template; write its name alone"));
}

TEST(TemplateKernels, NamesTravelBehindTheCode) {
    const std::vector<std::byte> image(100, std::byte{7});
    EXPECT_EQ(gpu::with_kernel_names(image, {}), image);
    const auto named = gpu::with_kernel_names(image, {{"user_a", "_Z1aILi4EEvv"}, {"user_a_b", "_Z1bv"}});
    EXPECT_TRUE(std::equal(image.begin(), image.end(), named.begin()));
    EXPECT_THAT(gpu::kernel_names_of(named), ElementsAre(Pair("user_a", "_Z1aILi4EEvv"), Pair("user_a_b", "_Z1bv")));
    EXPECT_THAT(gpu::kernel_names_of(image), IsEmpty());
    EXPECT_THAT(gpu::kernel_names_of(std::span(named).last(16)), IsEmpty()) << "the names are cut off";
}

TEST(TemplateKernels, AreShownInTheHeaderForAnotherCompiler) {
    const Folder folder;
    const Loaded file = loaded(folder, "ours::scale<threads, float, width>");
    const Rendering rendering(file);
    const std::string header =
        tuned_header(file.file.family, rendering.problem, rendering.space.default_config, rendering.device, {"about"});
    EXPECT_THAT(header,
                AllOf(HasSubstr("constexpr int threads = 128;\n"), HasSubstr("// ours::scale<128, float, 1><<<dim3(8, 1, 1), ")));
}

// The declarations of a kernel's parameters, against the arguments that the file passes.
TEST(Arguments, AreComparedWithTheKernelsDeclarations) {
    const Folder folder;
    const auto with_source = [&](const std::string& from, const std::string& to) {
        folder.put("scale.cu", with(kSource, from, to));
        return told(folder.with("format = 1", "format = 1"));
    };
    EXPECT_THAT(
        with_source("const double* x, double* y", "const float* x, double* y"),
        ElementsAre(
            "parameter 1 of scale_reference is `const float* x`, and the reference gets x as double: write double there, or "
            "add inputs = \"as_is\""));
    EXPECT_THAT(told(folder.with("[check.reference]", "[check.reference]\ninputs = \"as_is\"")), IsEmpty());
    EXPECT_THAT(
        with_source("scale(const float* x, float* y", "scale(float* x, const float* __restrict__ y"),
        ElementsAre("no step can write tensor y: parameter 2 of scale is `const float* __restrict__ y`. Are arguments swapped?"));
    folder.put("scale.cu", kSource);
    EXPECT_THAT(told(folder.with("kernel = \"scale_reference\"", "kernel = \"scale\"")),
                Contains(HasSubstr("the reference is the kernel that is tuned")));
}

TEST(Includes, ThatTheCompilerLeavesOutAreNotMissed) {
    const Folder folder;
    const auto with_source = [&](const std::string& more) {
        folder.put("scale.cu", more + kSource);
        return told(folder.with("format = 1", "format = 1"));
    };
    for (const std::string guard : {"#ifndef __CUDACC_RTC__\n", "#ifndef AUTOTUNE\n", "#if 0\n", "#ifdef AUTOTUNE\n#else\n"})
        EXPECT_THAT(with_source(guard + "#include <vector>\n#include \"gone.h\"\n#endif\n"), IsEmpty()) << guard;
    EXPECT_THAT(
        with_source("#include <vector>\n"),
        ElementsAre("<vector> is a header of the host, and a kernel is compiled by NVRTC: put host code, and the headers that it "
                    "needs, between `#ifndef __CUDACC_RTC__` and `#endif`"));
    EXPECT_THAT(with_source("#ifdef width\n#include \"gone.h\"\n#endif\n"),
                ElementsAre(HasSubstr("there is no header \"gone.h\"")))
        << "a parameter is defined";
    EXPECT_THAT(with_source("#include <cub/cub.cuh>\n"), ElementsAre(HasSubstr("such as <cub/block/block_reduce.cuh>")));
    EXPECT_THAT(with_source("#include <device_thing.h>\n"),
                ElementsAre(HasSubstr("needs the toolkit's headers, which are not here")));
}

TEST(Defaults, OfTheCommandStandInTheFile) {
    const Folder folder;
    const Loaded file = folder.with("[let]", "[search]\nbudget = \"60s\"\ntrials = 40\n[measure]\nl2 = \"warm\"\n[let]");
    EXPECT_THAT(told(file), IsEmpty());
    EXPECT_THAT(file.file.defaults, ElementsAre(Pair("budget", "60s"), Pair("l2", "warm"), Pair("trials", "40")));
}

}  // namespace
}  // namespace autotune::kernel_files
