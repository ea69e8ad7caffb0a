#include "src/kernel_files/kernel_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/kernel_files/sample.h"
#include "tests/support/refusal.h"

namespace autotune::kernel_files {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(KernelFile, IsReadAsAnOpAndAFamily) {
    const Folder folder;
    const Loaded loaded = load(folder.path("scale.toml"), {});
    ASSERT_TRUE(loaded.is_whole());
    EXPECT_THAT(loaded.findings, IsEmpty());
    EXPECT_THAT(folder.told("format = 1", "format = 1"), IsEmpty());
    const DefinedOp op(loaded.file.family.op);
    const DefinedFamily family(loaded.file.family);
    EXPECT_EQ(op.name(), "user_scale");
    EXPECT_EQ(family.name(), "user_scale/main");
    const Problem problem = op.problem({.op = "user_scale", .shape = "1000", .options = {{"mode", "fancy"}}});
    EXPECT_EQ(problem.key(), "user_scale mode=fancy 1000");
    EXPECT_EQ(op.bytes(problem), 8000);
    const Device device = *reference_device("sm_90a");
    const SearchSpace space = family.space(problem, device);
    EXPECT_EQ(space.count().points, 6U);
    EXPECT_EQ(space.count().legal, 6U);
    EXPECT_EQ(space.default_config.to_string(), "threads=128 width=1");
    const LaunchPlan plan = family.plan(problem, space.default_config, device);
    ASSERT_THAT(plan.steps, SizeIs(1));
    EXPECT_EQ(plan.steps[0].grid, (Dim3{8, 1, 1}));
    EXPECT_EQ(plan.steps[0].block, (Dim3{128, 1, 1}));
    EXPECT_EQ(std::get<ScalarArg>(plan.steps[0].arguments[2]).index, 0);
    EXPECT_EQ(std::get<I32Arg>(plan.steps[0].arguments[3]).value, 1000);
    using Macro = DefinedFamily::Macro;
    EXPECT_THAT(family.macros(problem, space.default_config), ElementsAre(Macro{"threads", "128"}, Macro{"width", "1"}));
}

TEST(KernelFile, GivesTheCompilerTheUsersHeadersAndStandIns) {
    const Folder folder;
    const Loaded loaded = load(folder.path("scale.toml"), {});
    std::vector<std::string> names;
    for (const KernelText& header : loaded.file.op().source.headers) names.push_back(header.name);
    EXPECT_THAT(names, ElementsAre("autotune_prelude.h", "cstdint", "helper.h"));
    EXPECT_THAT(loaded.file.op().source.files.front().text, HasSubstr("\nextern \"C\" __global__ void scale(const"))
        << "the driver finds kernels by their C names";
}

TEST(KernelFile, HasAReferenceThatReadsDoubles) {
    const Folder folder;
    const Loaded loaded = load(folder.path("scale.toml"), {});
    const DefinedOp op(loaded.file.family.op);
    const Problem problem = op.problem({.op = "user_scale", .shape = "1000", .options = {}});
    const std::vector<OpTest> tests = op.tests(problem);
    ASSERT_THAT(tests, SizeIs(2));
    const auto entries = [&](const OpTest& test) {
        std::vector<std::string> all;
        for (const LaunchStep& step : op.reference_plan(problem, test).steps) all.push_back(step.entry);
        return all;
    };
    EXPECT_THAT(entries(typical_test(tests)),
                ElementsAre("_autotune_widen", "_autotune_widen", "_scale_reference", "_autotune_survey", "_autotune_expect"));
    EXPECT_THAT(entries(test_named(tests, "exact")), SizeIs(8)) << "the exact test runs it on magnitudes too";
}

TEST(KernelFile, ALetIsAMacroWhereTheSourceUsesItAndHasNoNameLikeIt) {
    const Folder folder;
    const auto constants = [&] { return folder.with("format = 1", "format = 1").file.family.constants; };
    EXPECT_THAT(constants(), IsEmpty()) << "the source does not know `items`";
    const std::string guarded = "#ifndef AUTOTUNE\nconstexpr int items = 7;\n#endif\n__device__ int more() { return items; }\n";
    folder.put("scale.cu", kSource + guarded);
    EXPECT_THAT(constants(), ElementsAre("items"));
    folder.put("scale.cu", std::string(kSource) + "__device__ int more() { const int a = 1, items = 2; return items + a; }\n");
    EXPECT_THAT(constants(), IsEmpty()) << "a local name is the source's own";
    folder.put("scale.cu", std::string(kSource) + "__device__ void more(int items) {}\n");
    EXPECT_THAT(constants(), IsEmpty());
}

// Sources for other tuners look like this: they have values of their own, unless a tuner defines others.
TEST(KernelFile, ALetThatTheSourceGuardsIsAMacro) {
    const Folder folder;
    const auto loaded = [&](const std::string& more) {
        folder.put("scale.cu", kSource + more);
        return folder.with("format = 1", "format = 1");
    };
    for (const std::string guard :
         {"#ifndef items\n#define items 7\n#endif\n", "#if !defined(items) && 1\n#define items \\\n 7\n#endif\n",
          "#ifdef items\n#else\n#define items 7\n#endif\n", "#ifndef AUTOTUNE\n#define items 7\n#endif\n"}) {
        const Loaded guarded = loaded(guard + "__device__ int more() { return items; }\n");
        EXPECT_THAT(guarded.file.family.constants, ElementsAre("items")) << guard;
        EXPECT_THAT(guarded.findings, IsEmpty()) << guard;
    }
    const Loaded in_a_macro = loaded("#define twice items * 2\n__device__ int more() { return twice; }\n");
    EXPECT_THAT(in_a_macro.file.family.constants, ElementsAre("items"));
    const Loaded member = loaded("struct A { int x; };\n__device__ int more(A a) { return a.items; }\n");
    EXPECT_THAT(member.file.family.constants, IsEmpty()) << "the name of a member alone";
}

TEST(KernelFile, SaysWhichLetsStayOutOfTheSource) {
    const Folder folder;
    const auto told = [&](const std::string& more) {
        folder.put("scale.cu", kSource + more);
        return folder.told("format = 1", "format = 1");
    };
    EXPECT_THAT(told("#define items 7\n__device__ int more() { return items; }\n"),
                ElementsAre(HasSubstr("warning: [let] items: the source defines 'items' itself at scale.cu:17, so this one stays "
                                      "out of the source; put that line into `#ifndef items`")));
    EXPECT_THAT(told("__device__ int more() { int items = 2; return items; }\n"), IsEmpty()) << "a variable of the source";
    EXPECT_THAT(folder.with("format = 1", "format = 1").file.family.constants, IsEmpty());
    EXPECT_THAT(told("__device__ float more(float *items) { return *items; }\n"), IsEmpty());
    EXPECT_THAT(folder.with("format = 1", "format = 1").file.family.constants, IsEmpty());
}

TEST(KernelFile, RefusesASourceThatDefinesAParameterItself) {
    const Folder folder;
    const auto told = [&](const std::string& more) {
        folder.put("scale.cu", kSource + more);
        return folder.told("format = 1", "format = 1");
    };
    EXPECT_THAT(told("#define width 4\n"),
                ElementsAre(HasSubstr("scale.toml:28:1: the source defines parameter width itself at scale.cu:17, so its values "
                                      "never reach the kernel")));
    EXPECT_THAT(told("#ifndef some_tuner\n#define width 4\n#endif\n"), ElementsAre(HasSubstr("at scale.cu:18")))
        << "nobody defines some_tuner";
    EXPECT_THAT(told("#if threads > 64\n#define width 4\n#endif\n"), IsEmpty()) << "a condition that is not understood";
    EXPECT_THAT(told("#ifndef __CUDACC_RTC__\n#define width 4\n#endif\n"), IsEmpty());
}

TEST(KernelFile, TensorsMayHaveCapitals) {
    const Folder folder;
    std::string text = kFile;
    for (std::size_t at = text.find("\"x\""); at != std::string::npos; at = text.find("\"x\"")) text.replace(at, 3, "\"X\"");
    folder.put("scale.toml", text);
    EXPECT_THAT(load(folder.path("scale.toml"), {}).findings, IsEmpty());
}

struct Bad {
    const char* name;
    const char* from;
    const char* to;
    const char* told;
};

std::ostream& operator<<(std::ostream& out, const Bad& bad) {
    return out << bad.name;
}

class BadKernelFile : public ::testing::TestWithParam<Bad> {};

// Each fault gives one sentence, at its place in the file.
TEST_P(BadKernelFile, IsToldAtItsPlace) {
    const Folder folder;
    EXPECT_THAT(folder.told(GetParam().from, GetParam().to), Contains(HasSubstr(GetParam().told)));
}

const Bad kBad[] = {
    {"UnknownKey", "extents = [\"n\"]", "extends = [\"n\"]\nextents = [\"n\"]",
     "scale.toml:4:1: [op] has no key 'extends' (did you mean extents?)"},
    {"UnknownTable", "[let]", "[lets]", "the file has no key 'lets' (did you mean let?)"},
    {"FormatOfLater", "format = 1", "format = 2", "scale.toml:1:10: format 2 is newer than this autotune"},
    {"NoFormat", "format = 1", "", "'format = 1' is missing"},
    {"NameOfOurs", "name = \"scale\"", "name = \"gemm\"", "scale.toml:3:9: 'gemm' is a built-in op"},
    {"NameWithCapitals", "name = \"scale\"", "name = \"Scale\"", "'Scale' is no name of an op"},
    {"AttributeNamedLikeAFlag", "name = \"mode\"", "name = \"budget\"", "--budget is a flag of the command"},
    {"ExtentWithAMeaning", "extents = [\"n\"]", "extents = [\"batch\"]", "'batch' has a meaning of its own"},
    {"UnknownName", "ceil_div(n, items)", "ceil_div(n, item)",
     "scale.toml:38:22: there is no 'item' (did you mean items?); known here are parameters threads, width; extents n"},
    {"ParameterInAShape", "shape = [\"n\"]", "shape = [\"n * threads\"]",
     "parameter 'threads' has no value here, where only the problem is known"},
    {"DeviceInAShape", "shape = [\"n\"]", "shape = [\"n * sms\"]", "'sms' is a number of the device"},
    {"CyclicLet", "items = \"threads * width\"", "items = \"more\"\nmore = \"items\"", "'items' is defined by itself"},
    {"SyntaxOfAnExpression", "64 <= items <= 512", "64 <= items <=", "scale.toml:34:24: a value is missing"},
    {"DivisionByZeroOnAnExample", "ceil_div(n, items)", "ceil_div(n, n - 1)",
     "scale.toml:38:10: a division by zero (on example 1"},
    {"ShapeBelowZero", "shape = [\"n\"]", "shape = [\"n - 2\"]", "an extent of tensor x is -1 (on example 1)"},
    {"TooManyDimensions", "shape = [\"n\"]", "shape = [\"n\", 1, 1, 1, 1, 1]", "'shape' has 6 members; the most is 5"},
    {"NoValues", "values = [1, 2, 4]", "", "parameter width has no values"},
    {"EmptyValues", "values = [1, 2, 4]", "values = []", "parameter width has no values"},
    {"ValueTwice", "values = [1, 2, 4]", "values = [1, 2, 2]", "a value of width is there twice"},
    {"ParameterTwice", "name = \"width\"", "name = \"threads\"", "parameter 'threads' is there twice"},
    {"ParameterNamedLikeAnExtent", "name = \"width\"", "name = \"n\"", "parameter 'n' has the name of an extent: rename one"},
    {"DefaultOutsideItsValues", "default = 128", "default = 100",
     "scale.toml:27:11: the default of threads is none of its values"},
    {"NoLegalConfig", "64 <= items <= 512", "items < 0", "of 6 points 6 break 'too many items'"},
    {"TooManyPoints", "values = [1, 2, 4]",
     "range = [1, 9000, 1]\n[[parameter]]\nname = \"a\"\nrange = [1, 9000, 1]\n[[parameter]]\nname = \"b\"\nrange = [1, 9000, 1]",
     "more than 10^12"},
    {"KernelNotInTheSource", "kernel = \"scale\"", "kernel = \"scales\"",
     "there is no kernel 'scales' in scale.cu (did you mean scale?); it has scale, scale_reference, templated"},
    {"KernelIsATemplate", "kernel = \"scale\"", "kernel = \"templated\"", "kernel 'templated' is a template"},
    {"ArgumentsOfAnotherNumber", "\"factor\", \"i32: n\"]\n[check", "\"factor\"]\n[check",
     "kernel 'scale' takes 4 arguments, and 'args' has 3"},
    {"WrongTypeWord", "\"i32: n\"]\n[check", "\"int: n\"]\n[check", "there is no type 'int' of an argument"},
    {"ArgumentWithoutType", "\"i32: n\"]\n[check", "\"n\"]\n[check", "a number needs its type, such as \"i32: n\""},
    {"ArgumentThatDoesNotFit", "\"i32: n\"]\n[check", "\"i32: n * 1000000000\"]\n[check", "does not fit 32 bits"},
    {"TensorReadByNothing", "args = [\"x\", \"y\", \"factor\", \"i32: n\"]\n[check",
     "args = [\"y\", \"y\", \"factor\", \"i32: n\"]\n[check", "no step reads tensor x"},
    {"TensorWrittenByNoStep", "args = [\"x\", \"y\", \"factor\", \"i32: n\"]\n[check",
     "args = [\"x\", \"x\", \"factor\", \"i32: n\"]\n[check", "no step writes tensor y"},
    {"IntegersWithoutFill", "dtype = \"f32\"", "dtype = \"i32\"", "tensor x holds integers: say its 'fill'"},
    {"UnknownType", "dtype = \"f32\"", "dtype = \"float\"", "there is no type 'float'"},
    {"KeyOfLater", "access = \"in\"", "access = \"in\"\nrotate = false", "'rotate' is part of the format, and this version"},
    {"SymbolThatIsNotThere", "access = \"in\"", "access = \"in\"\nsymbol = \"c\"",
     "scale.toml:15:11: the source has no __constant__ or __device__ array 'c'"},
    {"SymbolOfAnOutput", "access = \"out\"", "access = \"out\"\nsymbol = \"c\"", "only a tensor that is in has a symbol"},
    {"UncheckedInput", "access = \"in\"", "access = \"in\"\ncheck = false", "a tensor that is in must not change"},
    {"NothingChecked", "access = \"out\"", "access = \"inout\"\ncheck = false", "no tensor is written and checked"},
    {"IndexWithoutRepeat", "block = [\"threads\"]", "block = [\"threads\"]\nindex = \"i\"", "'index' needs 'repeat'"},
    {"IndexNamedLikeAnExtent", "block = [\"threads\"]", "block = [\"threads\"]\nrepeat = 2\nindex = \"n\"",
     "index 'n' is named like extent"},
    {"IndexOutsideOfItsLoop", "ceil_div(n, items)\"]\nblock = [\"threads\"]",
     "ceil_div(n, items)\"]\nblock = [\"threads\"]\nrepeat = \"i + 2\"\nindex = \"i\"", "there is no 'i'"},
    {"TooManyRounds", "block = [\"threads\"]", "block = [\"threads\"]\nrepeat = \"n + 1025\"",
     "is no number of repeats; it is 0 to 1024"},
    {"PickOutside", "args = [\"x\", \"y\", \"factor\", \"i32: n\"]\n[check",
     "args = [{ pick = \"2\", of = [\"x\", \"y\"] }, \"y\", \"factor\", \"i32: n\"]\n[check",
     "it gives 2, which is the number of none of its 2 arguments"},
    {"PickOfNothing", "args = [\"x\", \"y\", \"factor\", \"i32: n\"]\n[check",
     "args = [{ pick = \"0\" }, \"x\", \"factor\", \"i32: n\"]\n[check", "'of' is missing"},
    {"ZeroOfAnInput", "[check.reference]", "[[step]]\nzero = \"x\"\n[check.reference]",
     "tensor x is in, and this step writes it"},
    {"ZeroOfNothing", "[check.reference]", "[[step]]\nzero = \"z\"\n[check.reference]", "there is no tensor or workspace 'z'"},
    {"CopyWithoutEnds", "[check.reference]", "[[step]]\ncopy = \"x\"\n[check.reference]", "'copy' is { from = "},
    {"NoSuchFile", "access = \"in\"", "access = \"in\"\nfill = { npy = \"x.npy\" }",
     "there is no file x.npy beside the kernel file"},
    {"AbsoluteSource", "[let]", "[source]\nfile = \"/etc/passwd\"\n[let]", "'/etc/passwd' is an absolute path"},
    {"SourceOutside", "[let]", "[source]\nfile = \"../x.cu\"\n[let]", "'../x.cu' lies outside the kernel file's folder"},
    {"NoSource", "[let]", "[source]\nfile = \"other.cu\"\n[let]",
     "the source other.cu cannot be read: No such file or directory"},
    {"OptionOfOthers", "[let]", "[source]\noptions = [\"-I/etc\"]\n[let]", "option '-I/etc': write include = "},
    {"MacroAsAnOption", "[let]", "[source]\noptions = [\"-DN=3\"]\n[let]", "option '-DN=3': write a macro as a [let]"},
    {"OptionOfThemNone", "[let]", "[source]\noptions = [\"--frob\"]\n[let]", "option '--frob' is not allowed"},
    {"PowersOfAnother", "values = [1, 2, 4]", "powers = [1, 60]", "two powers of two, and 60 is none"},
    {"TwoLists", "values = [1, 2, 4]", "values = [1, 2, 4]\npowers = [1, 4]", "give one of 'values', 'range' and 'powers'"},
    {"WordsOfPython", "64 <= items <= 512", "64 <= items and items <= 512", "scale.toml:34:22: write && for 'and'"},
    {"NotOfPython", "64 <= items <= 512", "not items", "write ! for 'not'"},
    {"PowerOfPython", "64 <= items <= 512", "items <= 2 ** 9", "write pow2(k) for 2 ** k"},
    {"DivisionOfPython", "64 <= items <= 512", "items // 2 < 512", "write / for //"},
    {"Assignment", "64 <= items <= 512", "items = 512", "write == for '='"},
    {"CeilOfOthers", "ceil_div(n, items)", "cdiv(n, items)", "there is no function 'cdiv'; write ceil_div(a, b)"},
    {"ListInOneText", "shape = [\"n\"]", "shape = \"n, n\"", "several expressions are a list, as in [\"a\", \"b\"]"},
    {"ToleranceWithoutOutput", "[check.reference]", "[check]\ntolerance = 1e-3\n[check.reference]",
     "a tolerance belongs to an output: write tolerance = { out = { rtol = 1e-3 } }"},
    {"TextWithoutEnd", "name = \"scale\"", "name = \"scale", "scale.toml:3:"},
    {"SearchKeyOfNone", "[let]", "[search]\nbudgets = \"3s\"\n[let]", "[search] has no key 'budgets' (did you mean budget?)"},
    {"SymbolTooSmallToBeOne", "access = \"in\"", "access = \"in\"\nsymbol = \"2\"", "is no name of an array"},
    {"TypeOfATensorThatIsNone",
     "[[attribute]]\nname = \"mode\"\nvalues = [\"plain\", \"fancy\"]\n[[tensor]]\nname = \"x\"\ndtype = \"f32\"",
     "[[attribute]]\nname = \"mode\"\nvalues = [\"plain\", \"fancy\"]\n[[tensor]]\nname = \"x\"\ndtype = \"mode\"",
     "has the value 'plain', which is no type of a tensor"},
    {"NoCheck",
     "[check.reference]\nkernel = \"scale_reference\"\ngrid = [\"1\"]\nblock = [\"1\"]\nargs = [\"x\", \"y\", \"factor\", \"i32: "
     "n\"]",
     "", "the table [check] is missing"},
    {"TomlSyntax", "name = \"scale\"", "name = scale", "scale.toml:3:"},
    {"BlockTooLarge", "block = [\"threads\"]", "block = [\"threads * 16\"]", "a block has 2048 threads; a GPU takes 1024"},
    {"TooMuchSharedMemory", "block = [\"threads\"]", "block = [\"threads\"]\nsmem = \"threads * 4096\"",
     "bytes of shared memory"},
    {"FloatInAGrid", "ceil_div(n, items)", "n / 2.0", "a float stands where an integer is expected"},
    {"UnknownFill", "access = \"in\"", "access = \"in\"\nfill = \"gauss\"", "there is no fill 'gauss'"},
    {"ExampleOfAnotherRank", "examples = [\"1000\", \"1\"]", "examples = [\"1000x2\"]", "'1000x2' is no shape of the extents n"},
    {"UnusedParameter", "name = \"width\"", "name = \"unheard\"",
     "warning: the source does not use parameter unheard, and neither does a step"},
    {"ParameterOfTheLaunchAlone", "[[config]]",
     "[[parameter]]\nname = \"blocks\"\nvalues = [1, 2]\n[[workspace]]\nname = \"w\"\nbytes = \"blocks\"\n[[config]]",
     "the source does not use parameter blocks; add kind = \"launch\", which says that it changes the launch alone"},
    {"ConfigOfUnknownParameter", "width = 1 }", "widht = 1 }", "there is no parameter 'widht' (did you mean width?)"},
    {"AccessWord", "access = \"out\"", "access = \"output\"", "'access' is one of in, out, inout, not 'output'"},
};

INSTANTIATE_TEST_SUITE_P(All, BadKernelFile, ::testing::ValuesIn(kBad),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(KernelFile, TellsEverythingAtOnce) {
    const Folder folder;
    std::string text = kFile;
    const auto replace = [&](const std::string& from, const std::string& to) { text.replace(text.find(from), from.size(), to); };
    replace("values = [1, 2, 4]", "values = []");
    replace("ceil_div(n, items)", "ceil_div(n, nothing)");
    replace("kernel = \"scale\"", "kernel = \"gone\"");
    folder.put("scale.toml", text);
    EXPECT_GE(load(folder.path("scale.toml"), {}).findings.size(), 3U);
    EXPECT_THAT(test::refusal_of([&] { load_or_throw(folder.path("scale.toml"), {}); }),
                AllOf(HasSubstr("scale.toml:30"), HasSubstr("autotune check"), HasSubstr("more")));
}

TEST(KernelFile, ShowsTheLineAndAMark) {
    const Folder folder;
    EXPECT_THAT(folder.told("ceil_div(n, items)", "ceil_div(n, item)"),
                Contains(HasSubstr("\n    grid = [\"ceil_div(n, item)\"]\n                         ^~~~")));
}

TEST(KernelFile, ReadsNoPipeAndNothingTooLarge) {
    const Folder folder;
    ASSERT_EQ(mkfifo(folder.path("pipe.toml").c_str(), 0600), 0);
    EXPECT_THAT(load(folder.path("pipe.toml"), {}).findings.front().text, HasSubstr("pipe"));
    folder.put("big.toml", std::string((std::size_t{1} << 20) + 1, '#'));
    EXPECT_THAT(load(folder.path("big.toml"), {}).findings.front().text, HasSubstr("larger than 1 MiB"));
    folder.put("latin.toml", "format = 1 # caf\xe9\n");
    EXPECT_THAT(load(folder.path("latin.toml"), {}).findings.front().text, HasSubstr("not UTF-8"));
    EXPECT_THAT(load(folder.path("none.toml"), {}).findings.front().text, HasSubstr("No such file"));
}

TEST(KernelFile, SaysWhatASourceIsInItsPlace) {
    const Folder folder;
    EXPECT_THAT(load(folder.path("scale.cu"), {}).findings.front().text,
                HasSubstr("this is a source, and a kernel file is the .toml that describes it; scale.toml is beside it"));
}

TEST(KernelFile, ReadsNoSourceThatIsTooLargeAPipeOrNoText) {
    const Folder folder;
    folder.put("scale.cu", std::string((std::size_t{16} << 20) + 1, ' '));
    EXPECT_THAT(folder.told("format = 1", "format = 1"), Contains(HasSubstr("the source scale.cu cannot be read: ")));
    folder.put("scale.cu", std::string("// caf\xe9\n") + kSource);
    EXPECT_THAT(folder.told("format = 1", "format = 1"), Contains(HasSubstr("the source is not UTF-8")));
    fs::remove(folder.path("scale.cu"));
    ASSERT_EQ(mkfifo(folder.path("scale.cu").c_str(), 0600), 0);
    EXPECT_THAT(folder.told("format = 1", "format = 1"), Contains(HasSubstr("the source scale.cu cannot be read: ")));
}

TEST(KernelFile, TellsOfWrongValuesOnceAndOfAnExampleWithoutConfigsOnce) {
    const Folder folder;
    EXPECT_THAT(folder.told("values = [64, 128]", "values = [\"64\"]"), testing::SizeIs(1))
        << "default and config follow from it";
    const std::vector<std::string> none = folder.told("64 <= items <= 512", "items < 0");
    ASSERT_THAT(none, SizeIs(1));
    EXPECT_THAT(none.front(), AllOf(HasSubstr("scale.toml:34:10"), HasSubstr("(and on 1 more examples)")));
}

TEST(KernelFile, LeavesFlopsOutWhereAllOutputsAreIntegers) {
    const Folder folder;
    std::string text = kFile;
    const auto replace = [&](const std::string& from, const std::string& to) { text.replace(text.rfind(from), from.size(), to); };
    replace("flops = \"1.0 * n\"\n", "");
    folder.put("scale.toml", text);
    EXPECT_THAT(load(folder.path("scale.toml"), {}).findings.front().text, HasSubstr("'flops' is missing"));
    replace("dtype = \"f32\"", "dtype = \"i32\"");
    folder.put("scale.toml", text);
    for (const Finding& finding : load(folder.path("scale.toml"), {}).findings)
        EXPECT_THAT(finding.text, Not(HasSubstr("flops")));
}

TEST(KernelFile, DoesNotFollowALinkOutOfItsFolder) {
    const Folder folder, other;
    fs::remove(folder.path("scale.cu"));
    fs::create_symlink(other.path("scale.cu"), folder.path("scale.cu"));
    EXPECT_THAT(folder.told("format = 1", "format = 1"), Contains(HasSubstr("lies outside the kernel file's folder")));
}

TEST(KernelFile, RefusesHeadersByAbsolutePath) {
    const Folder folder;
    folder.put("scale.cu", std::string("#include \"/etc/passwd\"\n") + kSource);
    EXPECT_THAT(folder.told("format = 1", "format = 1"),
                Contains(AllOf(HasSubstr("scale.cu:1"), HasSubstr("is an absolute path"))));
}

TEST(KernelFile, IdentityFollowsTheTextOfTheOp) {
    const Folder folder;
    const std::string before = folder.with("format = 1", "format = 1").file.family.canonical_rules();
    EXPECT_NE(folder.with("values = [1, 2, 4]", "values = [1, 2]").file.family.canonical_rules(), before);
    EXPECT_NE(folder.with("shape = [\"n\"]", "shape = [\"n + 1\"]").file.family.canonical_rules(), before);
    EXPECT_EQ(folder.with("reason = \"too many items\"", "reason = \"other words\"").file.family.canonical_rules(), before);
}

TEST(KernelFile, ExamplesAreWhole) {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(std::string(AUTOTUNE_TEST_DATA) + "/../../examples/kernels")) {
        if (entry.path().extension() != ".toml") continue;
        ++count;
        const Loaded loaded = load(entry.path().string(), {});
        EXPECT_THAT(loaded.findings, IsEmpty()) << entry.path();
        if (loaded.is_whole()) {
            EXPECT_THAT(check(loaded.file, {*reference_device("sm_90a"), *reference_device("sm_80")}), IsEmpty()) << entry.path();
        }
    }
    EXPECT_GE(count, 2U);
}

}  // namespace
}  // namespace autotune::kernel_files
