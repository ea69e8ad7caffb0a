// Steps that loop, write zeros and copy; data that symbols, preparations and files hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/core/system/npy_file.h"
#include "src/jit/user_source.h"
#include "src/kernel_files/tuned_header.h"
#include "tests/kernel_files/sample.h"

namespace autotune::kernel_files {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kStep = R"(block = ["threads"]
args = ["x", "y", "factor", "i32: n"]
[check)";

struct Planned {
    explicit Planned(const Loaded& loaded) : op(loaded.file.family.op), family(loaded.file.family) {
        problem = op.problem({.op = "user_scale", .shape = "1000", .options = {}});
        const Device device = *reference_device("sm_90a");
        plan = family.plan(problem, family.space(problem, device).default_config, device);
    }
    std::vector<std::string> entries() const {
        std::vector<std::string> all;
        for (const LaunchStep& step : plan.steps) all.push_back(step.entry);
        return all;
    }
    DefinedOp op;
    DefinedFamily family;
    Problem problem;
    LaunchPlan plan;
};

void expect_none(const Loaded& loaded) {
    for (const Finding& finding : loaded.findings) ADD_FAILURE() << finding.told();
}

TEST(Steps, OfOneLoopTakeTurns) {
    const Folder folder;
    const Loaded loaded = folder.with(kStep, R"(block = ["threads"]
args = [{ pick = "pass == 0 ? 0 : 1", of = ["x", "y"] }, "y", "factor", "i32: 10 * pass"]
repeat = "3"
index = "pass"
[[step]]
kernel = "scale_reference"
grid = ["1"]
block = ["1"]
args = ["x", "y", "factor", "i32: pass"]
when = "pass != 1"
repeat = "3"
index = "pass"
[[step]]
kernel = "scale"
grid = ["1"]
block = ["1"]
args = ["x", "y", "factor", "i32: n"]
[check)");
    expect_none(loaded);
    const Planned planned(loaded);
    EXPECT_THAT(planned.entries(), ElementsAre("", "_scale_reference", "", "", "_scale_reference", ""));
    const auto first = [&](std::size_t step) { return std::get<TensorArg>(planned.plan.steps[step].arguments[0]).index; };
    const auto last = [&](std::size_t step) { return std::get<I32Arg>(planned.plan.steps[step].arguments[3]).value; };
    EXPECT_EQ(first(0), 0);
    EXPECT_EQ(first(2), 1);
    EXPECT_THAT((std::vector{last(0), last(1), last(2), last(3), last(4), last(5)}), ElementsAre(0, 0, 10, 20, 2, 1000));
}

TEST(Steps, WithAnotherIndexAreAnotherLoop) {
    const Folder folder;
    const std::string step = "\nargs = [\"x\", \"y\", \"factor\", \"i32: n\"]\nrepeat = 2\nindex = ";
    const Loaded loaded =
        folder.with(kStep, "block = [\"threads\"]" + step +
                               "\"i\"\n[[step]]\nkernel = \"scale_reference\"\ngrid = [1]\nblock = [1]" + step + "\"j\"\n[check");
    expect_none(loaded);
    EXPECT_THAT(Planned(loaded).entries(), ElementsAre("", "", "_scale_reference", "_scale_reference"));
}

TEST(Steps, WriteZerosAndCopy) {
    const Folder folder;
    const Loaded loaded = folder.with(kStep, R"(block = ["threads"]
args = ["x", "sums", "factor", "i32: n"]
[[workspace]]
name = "sums"
dtype = "f32"
elements = "2 * n"
[[workspace]]
name = "counts"
dtype = "u32"
elements = "4"
zero = "each"
[[step]]
zero = "y"
[[step]]
copy = { from = "sums", to = "y" }
when = "threads == 128"
[check)");
    expect_none(loaded);
    const Planned planned(loaded);
    EXPECT_THAT(planned.entries(), ElementsAre("_autotune_zero_step", "", "_autotune_zero_step", "_autotune_copy_step"));
    const LaunchStep& copy = planned.plan.steps[3];
    EXPECT_EQ(std::get<WorkspaceArg>(copy.arguments[0]).offset_bytes, 0U);
    EXPECT_EQ(std::get<TensorArg>(copy.arguments[1]).index, 1);
    EXPECT_EQ(std::get<I64Arg>(copy.arguments[2]).value, 4000) << "the smaller of the two";
    EXPECT_EQ(std::get<I64Arg>(planned.plan.steps[0].arguments[1]).value, 16);
    EXPECT_TRUE(loaded.file.family.needs_helpers());
    EXPECT_THAT(step_helpers("user_scale"), HasSubstr("user_scale_autotune_zero_step("));
    EXPECT_THAT(jit::user_unit({}, loaded.file.family.steps, nullptr).entries, SizeIs(1)) << "steps without a kernel name none";
}

TEST(Data, OfASymbolIsWrittenBeforeStepsAndReference) {
    const Folder folder;
    folder.put("scale.cu", std::string("__constant__ float table[2000];\n") + kSource);
    const Loaded loaded = folder.with("access = \"in\"", "access = \"in\"\nsymbol = \"table\"");
    expect_none(loaded);
    const Planned planned(loaded);
    ASSERT_THAT(planned.plan.symbol_writes, SizeIs(1));
    EXPECT_EQ(planned.plan.symbol_writes[0].symbol, "table");
    EXPECT_EQ(planned.plan.symbol_writes[0].bytes, 4000U);
    // The exact test also runs the reference on magnitudes, which are then copied into the symbol.
    const LaunchPlan reference =
        planned.op.reference_plan(planned.problem, test_named(planned.op.tests(planned.problem), "exact"));
    ASSERT_THAT(reference.symbol_writes, SizeIs(2));
    EXPECT_TRUE(std::holds_alternative<TensorArg>(reference.symbol_writes[0].from));
    EXPECT_TRUE(std::holds_alternative<WorkspaceArg>(reference.symbol_writes[1].from));
    for (const SymbolWrite& write : reference.symbol_writes)
        EXPECT_EQ(reference.steps[write.before_step].entry, "_scale_reference");
}

TEST(Data, OfASymbolNeedsNoArgument) {
    const Folder folder;
    folder.put("scale.cu", std::string("__constant__ float table[2000];\n") + kSource);
    std::string text = kFile;
    for (const std::string args : {"args = [\"x\", \"y\"", "args = [\"x\", \"y\""}) {
        const std::size_t at = text.find(args);
        text.replace(at, args.size(), "args = [\"y\", \"y\"");
    }
    text.replace(text.find("access = \"in\""), 13, "access = \"in\"\nsymbol = \"table\"");
    folder.put("scale.toml", text);
    expect_none(load(folder.path("scale.toml"), {}));
}

TEST(Data, IsPreparedByKernelsOfTheSource) {
    const Folder folder;
    const Loaded loaded = folder.with("[check.reference]", R"([[prepare]]
kernel = "scale_reference"
grid = ["1"]
block = ["1"]
args = ["x", "y", "factor", "i32: n"]
[check.reference])");
    expect_none(loaded);
    const Planned planned(loaded);
    const DataRules rules = planned.op.data_rules(planned.problem);
    ASSERT_THAT(rules.prepare.steps, SizeIs(1));
    EXPECT_EQ(rules.prepare.steps[0].entry, "_scale_reference");
    EXPECT_THAT(rules.reset, IsEmpty());
}

TEST(Data, ThatIsUncheckedIsNoOutput) {
    const Folder folder;
    const Loaded loaded = folder.with("access = \"in\"", "access = \"inout\"\ncheck = false");
    expect_none(loaded);
    const Planned planned(loaded);
    for (const OpTest& test : planned.op.tests(planned.problem)) {
        ASSERT_THAT(test.outputs, SizeIs(1));
        EXPECT_EQ(test.outputs[0].tensor, 1);
    }
    EXPECT_THAT(planned.op.data_rules(planned.problem).reset, ElementsAre(0)) << "launches must find it as it was filled";
    const Loaded kept = folder.with("access = \"in\"", "access = \"inout\"\ncheck = false\nreset = \"none\"");
    EXPECT_THAT(Planned(kept).op.data_rules(Planned(kept).problem).reset, IsEmpty());
}

TEST(Data, HasAllTypesOfTheFormat) {
    const Folder folder;
    std::string source = kSource;
    const std::string of_doubles = "scale_reference(const double* x";
    folder.put("scale.cu", source.replace(source.find(of_doubles), of_doubles.size(), "scale_reference(const void* x"));
    for (const std::string type : {"u8", "i16", "u16", "u32", "i64", "u64"}) {
        const Loaded loaded =
            folder.with("dtype = \"f32\"", "fill = { integers = { low = 0, high = 200 } }\ndtype = \"" + type + "\"");
        expect_none(loaded);
        EXPECT_EQ(to_string(Planned(loaded).problem.tensors[0].dtype), type);
    }
}

// A program that calls the kernel passes its own data.
TEST(Data, NeedNotBeThereForACaller) {
    const Folder folder;
    const Loaded with_file = folder.with("access = \"in\"", "access = \"in\"\nfill = { npy = \"x.npy\" }");
    EXPECT_FALSE(with_file.is_whole());
    EXPECT_TRUE(load(folder.path("scale.toml"), {.needs_data = false}).is_whole());
}

TEST(TunedHeader, HasConstantsMacrosWhereTheSourceAsksAndTheLaunch) {
    const Folder folder;
    folder.put("scale.cu", std::string(kSource) + "#if width == 4 && \\\n    width > 2\n#endif\n");
    const Loaded loaded = load(folder.path("scale.toml"), {});
    ASSERT_TRUE(loaded.is_whole());
    const DefinedOp op(loaded.file.family.op);
    const Device device = *reference_device("sm_90a");
    const Problem problem = op.problem_of({1000}, {});
    const Config config = DefinedFamily(loaded.file.family).space(problem, device).default_config;
    const std::string header = tuned_header(loaded.file.family, problem, config, device, {"About it."});
    EXPECT_TRUE(header.starts_with("// About it.\n#pragma once\n")) << header;
    EXPECT_THAT(header, HasSubstr("constexpr int threads = 128;\n"));
    EXPECT_THAT(header, HasSubstr("#define width "));
    EXPECT_THAT(header, HasSubstr("// scale<<<dim3("));
}

// The bytes of a file as numpy.save writes it.
std::string npy(const std::string& type, const std::string& shape, std::size_t bytes, bool is_fortran = false) {
    std::string header =
        "{'descr': '" + type + "', 'fortran_order': " + (is_fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
    while ((10 + header.size() + 1) % 64 != 0) header += ' ';
    header += '\n';
    std::string text = "\x93NUMPY";
    text += std::string{1, 0};
    text += static_cast<char>(header.size() % 256);
    text += static_cast<char>(header.size() / 256);
    std::string content(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i % 128);
    return text + header + content;
}

TEST(Data, ComesFromAFileOfNumpy) {
    const Folder folder;
    folder.put("x.npy", npy("<f4", "(1000,)", 4000));
    std::string text = kFile;
    text.replace(text.find(", \"1\"]"), 6, "]");
    text.replace(text.find("access = \"in\""), 13, "access = \"in\"\nfill = { npy = \"x.npy\" }");
    folder.put("scale.toml", text);
    const Loaded without_sum = load(folder.path("scale.toml"), {});
    ASSERT_THAT(without_sum.findings, SizeIs(1));
    EXPECT_TRUE(without_sum.findings.front().is_warning);
    const std::string advice = without_sum.findings.front().text;
    const std::string pinned = advice.substr(advice.find("{ npy"), advice.find(" }") + 2 - advice.find("{ npy"));
    text.replace(text.find("{ npy = \"x.npy\" }"), 17, pinned);
    folder.put("scale.toml", text);
    const Loaded loaded = load(folder.path("scale.toml"), {});
    expect_none(loaded);
    EXPECT_NE(loaded.file.family.canonical_rules(), without_sum.file.family.canonical_rules())
        << "the sum is part of the identity";
    const std::vector<Device> devices = {*reference_device("sm_90a")};
    EXPECT_THAT(check(loaded.file, devices), IsEmpty());
    const Planned planned(loaded);
    const DataRules rules = planned.op.data_rules(planned.problem);
    ASSERT_EQ(rules.files.count(0), 1U);
    const std::vector<std::byte> content = read_npy(rules.files.at(0), planned.problem.tensors[0]);
    ASSERT_EQ(content.size(), 4000U);
    EXPECT_EQ(content[5], std::byte{5});

    const auto told = [&](const std::string& file) {
        folder.put("x.npy", file);
        std::vector<std::string> all;
        for (const Finding& finding : check(loaded.file, devices)) all.push_back(finding.text);
        return all;
    };
    EXPECT_THAT(told(npy("<f8", "(1000,)", 8000)),
                Contains(HasSubstr("x.npy holds elements of numpy's type '<f8', and tensor x is f32 ('<f4') (on example 1000)")));
    EXPECT_THAT(told(npy("<f4", "(10, 100)", 4000)),
                Contains(HasSubstr("x.npy has the shape [10, 100], and tensor x has [1000]")));
    EXPECT_THAT(told(npy("<f4", "(1000,)", 3999)), Contains(HasSubstr("ends before its last element")));
    EXPECT_THAT(told("no file of numpy"), Contains(HasSubstr("is no .npy file")));
    const Loaded changed = load(folder.path("scale.toml"), {});
    EXPECT_FALSE(changed.is_whole());
    EXPECT_THAT(changed.findings.front().text, HasSubstr("x.npy has changed: its sum is \""));
    EXPECT_TRUE(load(folder.path("scale.toml"), {.needs_data = false}).is_whole()) << "a caller brings its own data";
}

}  // namespace
}  // namespace autotune::kernel_files
