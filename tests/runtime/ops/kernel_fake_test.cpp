// Kernels of a program's own, opened by their files, on the scripted driver.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/kernel_files/kernel_file.h"
#include "tests/runtime/fake_session.h"
#include "tests/runtime/sample.h"

namespace autotune::runtime::kernel_fake_test {
namespace {

using test::winner_of;
using ::testing::AllOf;

std::string example(const std::string& name) {
    return std::string(AUTOTUNE_TEST_DATA) + "/../../examples/kernels/" + name + ".toml";
}

// conv2d of n x n with a filter of 3: its tensors in the file's order.
struct Conv2d {
    static constexpr std::int64_t kN = 64, kFilter = 3, kPadded = 80;

    Description problem(const Kernel& kernel) const {
        Description described = kernel.problem();
        const std::int64_t edge = kN + kFilter - 1, pitch = (edge + 3) / 4 * 4;
        described.tensor("image", AUTOTUNE_F32, {edge, edge}, {pitch, 1})
            .tensor("weights", AUTOTUNE_F32, {kFilter, kFilter})
            .tensor("out", AUTOTUNE_F32, {kN, kN})
            .integer("filter", kFilter);
        return described;
    }
    void call(const Kernel& kernel, gpu::StreamHandle stream) const {
        kernel(problem(kernel), {at(image), at(weights), at(out)}, {}, stream);
    }
    void run(const OpPlan& plan, gpu::StreamHandle stream) const { plan.run({at(image), at(weights), at(out)}, {}, stream); }
    static const void* at(const gpu::Buffer& buffer) { return reinterpret_cast<const void*>(buffer.address()); }

    explicit Conv2d(Session& session)
        : image(session.driver, kPadded * kPadded * 4), weights(session.driver, 256), out(session.driver, kN * kN * 4) {}
    gpu::Buffer image, weights, out;
};

TEST(Kernel, IsOpenedOnceForTheSameContent) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        EXPECT_EQ(Kernel(handle, example("conv2d")).op(), "user_conv2d");
        EXPECT_EQ(Kernel(handle, example("conv2d")).op(), "user_conv2d");
        EXPECT_EQ(Kernel(handle, example("spmv")).op(), "user_spmv");
        char few[5] = {};
        std::size_t bytes = sizeof few;
        EXPECT_EQ(autotune_kernel_open(handle.get(), example("conv2d").c_str(), static_cast<char*>(few), &bytes), AUTOTUNE_OK);
        EXPECT_STREQ(few, "user");
        EXPECT_EQ(bytes, sizeof "user_conv2d");
    });
}

TEST(Kernel, TellsItsInterface) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Kernel kernel(handle, example("conv2d"));
        char text[512];
        std::size_t bytes = sizeof text;
        ASSERT_EQ(autotune_kernel_interface(handle.get(), kernel.op().c_str(), text, &bytes), AUTOTUNE_OK);
        EXPECT_THAT(text, AllOf(HasSubstr("tensor image in\n"), HasSubstr("tensor out out\n"), HasSubstr("attribute filter "),
                                HasSubstr("extent n of tensors\n")));
        EXPECT_EQ(autotune_kernel_interface(handle.get(), "gemm", text, &bytes), AUTOTUNE_INVALID_ARGUMENT);
    });
}

TEST(Kernel, RunsItsDefaultConfigWithoutAWinner) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Kernel kernel(handle, example("conv2d"));
        const Conv2d data(session);
        const OpPlan plan = kernel.plan(data.problem(kernel));
        EXPECT_EQ(plan.origin(), AUTOTUNE_ORIGIN_DEFAULT);
        EXPECT_THAT(plan.candidate(), HasSubstr("user_conv2d/main "));
        data.run(plan, session.stream.handle());
        data.call(kernel, session.stream.handle());
        session.stream.synchronize();
    });
}

// Stores winners of conv2d for these extents, as tunes would.
void remember(Session& session, const std::vector<std::string>& shapes) {
    session.catalogue.add(kernel_files::load_or_throw(example("conv2d"), {}));
    for (const std::string& shape : shapes) {
        const Problem problem = session.catalogue.problem({"user_conv2d", shape, {{"filter", "3"}}});
        db::Store::open({.path = session.database()}).put(winner_of(session.catalogue, problem, session.driver->device(0)));
    }
}

TEST(Kernel, RunsTheWinnerOfItsProblem) {
    fake_test("", [] {
        Session session;
        remember(session, {"64", "128"});
        const Handle handle = session.open();
        const Kernel kernel(handle, example("conv2d"));
        EXPECT_EQ(kernel.plan(Conv2d(session).problem(kernel)).origin(), AUTOTUNE_ORIGIN_EXACT);
    });
}

TEST(Kernel, RunsTheNearestWinnerOfItsFileElse) {
    fake_test("", [] {
        Session session;
        remember(session, {"128"});
        const Handle handle = session.open();
        const Kernel kernel(handle, example("conv2d"));
        EXPECT_EQ(kernel.plan(Conv2d(session).problem(kernel)).origin(), AUTOTUNE_ORIGIN_NEAR);
    });
}

TEST(Kernel, RecordsAMissLikeAnyOp) {
    fake_test("", [] {
        Session session;
        {
            Options options;
            options.record_misses = 1;
            const Handle handle(options);
            const Kernel kernel(handle, example("conv2d"));
            Conv2d(session).call(kernel, session.stream.handle());
            session.stream.synchronize();
        }
        const auto misses = db::Store::open({.path = session.database()}).misses();
        ASSERT_EQ(misses.size(), 1U);
        EXPECT_EQ(misses[0].op, "user_conv2d");
        EXPECT_EQ(misses[0].shape, "64");
        EXPECT_EQ(misses[0].origin, "default");
    });
}

// A program meets an untuned problem, a sweep with the kernel file tunes it, and the program finds the winner.
TEST(Kernel, IsSweptWhereItsFileIsNamed) {
    if (fake::autotune_binary().empty()) GTEST_SKIP() << "this build has no autotune command";
    Sandbox sandbox;
    if (!in_fake_process(sandbox, {.timeout_s = 110})) return;
    Session session;
    Options options;
    options.record_misses = 1;
    const Handle handle(options);
    const Kernel kernel(handle, example("conv2d"));
    const Conv2d data(session);
    data.call(kernel, session.stream.handle());
    session.stream.synchronize();
    ASSERT_EQ(autotune_flush_misses(handle.get()), AUTOTUNE_OK);
    const std::string out = sandbox.folder() / "sweep.txt";
    const std::string sweep = "'" + fake::autotune_binary() + "' sweep --misses --budget 20s,3t > '" + out + "' 2>&1";
    ASSERT_EQ(std::system(sweep.c_str()), 0);
    std::ostringstream said;
    said << std::ifstream(out).rdbuf();
    EXPECT_THAT(said.str(), HasSubstr("its kernel file is not here; name it with --kernel"));
    ASSERT_EQ(std::system((sweep + " --kernel '" + example("conv2d") + "'").c_str()), 0);
    EXPECT_TRUE(db::Store::open({.path = session.database()}).misses().empty());
    ASSERT_EQ(autotune_refresh(handle.get()), AUTOTUNE_OK);
    EXPECT_EQ(kernel.plan(data.problem(kernel)).origin(), AUTOTUNE_ORIGIN_EXACT);
}

TEST(Kernel, IsCapturedInAGraphWithoutAnAllocationOrACompile) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open();
            const Kernel kernel(handle, example("conv2d"));
            const Conv2d data(session);
            const auto call = [&] { data.call(kernel, session.stream.handle()); };
            session.capture([&] { EXPECT_EQ(status_of(call), AUTOTUNE_NOT_PLANNED); });
            call();
            const gpu::Graph graph = session.capture(call);
            session.replay(graph);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 1); });
}

TEST(Kernel, SaysWhatIsWrongWithAFileOrACall) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const auto message_of = [](const auto& work) {
            try {
                work();
            } catch (const StatusError& error) {
                EXPECT_EQ(error.status(), AUTOTUNE_INVALID_ARGUMENT);
                return std::string(error.what());
            }
            return std::string("no error");
        };
        EXPECT_THAT(message_of([&] { Kernel(handle, "/nonexistent/k.toml"); }), HasSubstr("cannot be read"));
        EXPECT_THAT(message_of([&] { OpPlan(handle, Description("user_conv2d")); }), HasSubstr("autotune_kernel_open()"));
        const Kernel kernel(handle, example("conv2d"));
        EXPECT_THAT(message_of([&] { kernel.plan(kernel.problem()); }), HasSubstr("op user_conv2d needs tensor image"));
        const Conv2d data(session);
        Description dense = kernel.problem();
        dense.tensor("image", AUTOTUNE_F32, {66, 66})
            .tensor("weights", AUTOTUNE_F32, {3, 3})
            .tensor("out", AUTOTUNE_F32, {64, 64});
        dense.integer("filter", 3);
        EXPECT_THAT(message_of([&] { kernel.plan(dense); }),
                    HasSubstr("tensor image of user_conv2d has shape [66, 66] with strides [66, 1]"));
        const OpPlan plan = kernel.plan(data.problem(kernel));
        EXPECT_EQ(status_of([&] {
                      plan.run({nullptr, nullptr, nullptr}, {}, session.stream.handle());
                  }),
                  AUTOTUNE_INVALID_ARGUMENT);
    });
}

TEST(Kernel, OfAnotherContentIsRefusedByTheSameHandle) {
    fake_test("", [] {
        namespace fs = std::filesystem;
        Session session;
        const fs::path folder = fs::path(std::getenv("XDG_DATA_HOME")) / "kernels";
        fs::create_directories(folder);
        for (const char* end : {".toml", ".cu"})
            fs::copy_file(fs::path(example("conv2d")).replace_extension(end), folder / (std::string("conv2d") + end));
        const std::string path = (folder / "conv2d.toml").string();
        const Handle handle = session.open();
        const Kernel first(handle, path);
        EXPECT_EQ(Kernel(handle, example("conv2d")).op(), first.op()) << "the same content elsewhere is the same op";
        std::ofstream(folder / "conv2d.cu", std::ios::app) << "__device__ int added;\n";
        EXPECT_EQ(status_of([&] { Kernel(handle, path); }), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_THAT(autotune_last_error(nullptr), HasSubstr("open it with another handle"));
        const Handle other = session.open();
        EXPECT_EQ(Kernel(other, path).op(), first.op());
    });
}

TEST(Kernel, MayBeOpenedWhileOthersArePlanned) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        on_threads(session, 4, [&](int i) {
            if (i == 0) {
                for (const char* name : {"conv2d", "spmv", "transpose", "norm2", "tiled_gemm"}) Kernel(handle, example(name));
            } else {
                for (int n = 1; n <= 8; ++n) GemmPlan(handle, gemm(16 * n, 16 * i, 32));
            }
        });
        EXPECT_EQ(Kernel(handle, example("norm2")).op(), "user_norm2");
    });
}

}  // namespace
}  // namespace autotune::runtime::kernel_fake_test
