// The interface for every op, with two of them: the same kernels, plans and refusals as the functions of single ops.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <tuple>
#include <utility>

#include "src/core/statistics/random.h"
#include "tests/runtime/fake_session.h"
#include "tests/runtime/ops/add_data.h"

namespace autotune::runtime::described_fake_test {
namespace {

using test::add;
using test::AddData;
using ::testing::AllOf;

using Extents = std::vector<std::int64_t>;

autotune_tensor tensor(const char* name, const Extents& extents, const Extents& strides = {},
                       autotune_dtype type = AUTOTUNE_F16) {
    autotune_tensor made = {};
    made.struct_size = sizeof(made);
    made.name = name;
    made.type = type;
    made.rank = static_cast<int>(extents.size());
    std::copy(extents.begin(), extents.end(), made.extents);
    std::copy(strides.begin(), strides.end(), made.strides);
    return made;
}

autotune_attribute word(const char* name, const char* value) {
    autotune_attribute made = {};
    made.struct_size = sizeof(made);
    made.name = name;
    made.word = value;
    return made;
}

// A problem with its arrays, whose addresses do not change.
struct Described {
    std::vector<autotune_tensor> tensors;
    std::vector<autotune_attribute> attributes;
    std::string op;

    autotune_problem problem() const {
        return {sizeof(autotune_problem), op.c_str(), tensors.data(), tensors.size(), attributes.data(), attributes.size()};
    }
};

Described product(std::int64_t m, std::int64_t n, std::int64_t k) {
    return {{tensor("a", {m, k}), tensor("b", {k, n}), tensor("c", {m, n})}, {}, "gemm"};
}

autotune_scalar f32(float value) {
    autotune_scalar scalar = {};
    scalar.value.f32 = value;
    return scalar;
}

// A call with its arrays.
struct Call {
    std::vector<const void*> tensors;
    std::vector<autotune_scalar> scalars;

    autotune_call call() const {
        return {sizeof(autotune_call), tensors.data(), tensors.size(), scalars.data(), scalars.size(), nullptr, 0};
    }
};

Call call_of(const GemmData& data, float alpha, float beta) {
    return {{data.a(), data.b(), data.c()}, {f32(alpha), f32(beta)}};
}

struct PlanOwner {
    autotune_plan raw = nullptr;
    ~PlanOwner() { autotune_plan_destroy(raw); }
};

TEST(Described, APlanComputesWhatTheTypedOneDoesWithTheSameKernel) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Described described = product(48, 40, 32);
        const autotune_problem problem = described.problem();
        PlanOwner plan;
        ASSERT_EQ(autotune_plan_create(handle.get(), &problem, &plan.raw), AUTOTUNE_OK) << autotune_last_error(nullptr);
        autotune_plan_facts facts = {};
        facts.struct_size = sizeof(facts);
        ASSERT_EQ(autotune_plan_info(plan.raw, &facts), AUTOTUNE_OK);
        autotune_gemm_problem same = test::gemm(48, 40, 32);
        same.beta = AUTOTUNE_BETA_ZERO;
        const GemmPlan typed(handle, same);
        EXPECT_STREQ(facts.candidate, autotune_plan_candidate(typed.get()));
        EXPECT_EQ(facts.origin, AUTOTUNE_ORIGIN_DEFAULT);
        EXPECT_GT(facts.predicted_us, 0);
        EXPECT_EQ(facts.recorded_us, 0);
        std::vector<std::byte> bytes(facts.workspace_bytes);
        gpu::Buffer workspace(session.driver, facts.workspace_bytes + 256);
        workspace.fill_bytes(0);
        const GemmData data(session.driver, same);
        const Call call = call_of(data, 2, 0);
        autotune_call given = call.call();
        given.workspace = reinterpret_cast<void*>(workspace.address());
        given.workspace_bytes = facts.workspace_bytes;
        EXPECT_EQ(autotune_run(plan.raw, &given, session.stream.handle()), AUTOTUNE_OK) << autotune_last_error(nullptr);
        session.stream.synchronize();
        EXPECT_EQ(data.wrong(2, 0), 0);
    });
}

TEST(Described, OneCallTakesStridesColumnMajorOrderAndBeta) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        autotune_gemm_problem same = test::gemm(24, 40, 16);
        same.order = AUTOTUNE_COLUMN_MAJOR;
        same.lda = 32, same.ldb = 16, same.ldc = 24;
        const GemmData data(session.driver, same);
        Described described{{tensor("c", {24, 40}, {1, 24}), tensor("a", {24, 16}, {1, 32}), tensor("b", {16, 40}, {1, 16})},
                            {word("beta", "any")},
                            "gemm"};
        const autotune_problem problem = described.problem();
        const Call call = call_of(data, 1, 2);
        const autotune_call given = call.call();
        ASSERT_EQ(autotune_tuned(handle.get(), &problem, &given, session.stream.handle()), AUTOTUNE_OK)
            << autotune_last_error(nullptr);
        session.stream.synchronize();
        EXPECT_EQ(data.wrong(1, 2), 0);
    });
}

TEST(Described, TheSecondCallLooksNothingUp) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open();
            autotune_add_problem same = add(1003, AUTOTUNE_F16);
            const AddData data(session.driver, same);
            const Described described{{tensor("a", {17, 59}), tensor("b", {1003}), tensor("c", {1, 17, 59})}, {}, "add"};
            const autotune_problem problem = described.problem();
            const Call call{{data.a(), data.b(), data.c()}, {}};
            const autotune_call given = call.call();
            for (int i = 0; i < 3; ++i)
                ASSERT_EQ(autotune_tuned(handle.get(), &problem, &given, session.stream.handle()), AUTOTUNE_OK)
                    << autotune_last_error(nullptr);
            session.stream.synchronize();
            EXPECT_EQ(data.wrong(2), 0);
        },
        [](const fake::Sandbox& sandbox) {
            EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 1);
            EXPECT_EQ(sandbox.count_calls("cuLibraryLoadData"), 1);
        });
}

TEST(Described, ARecordedTimeIsThatOfTheWinner) {
    fake_test("", [] {
        Session session;
        session.remember("64x64x64");
        const Handle handle = session.open();
        const Described described = product(64, 64, 64);
        const autotune_problem problem = described.problem();
        PlanOwner plan;
        ASSERT_EQ(autotune_plan_create(handle.get(), &problem, &plan.raw), AUTOTUNE_OK) << autotune_last_error(nullptr);
        autotune_plan_facts facts = {};
        facts.struct_size = sizeof(facts);
        ASSERT_EQ(autotune_plan_info(plan.raw, &facts), AUTOTUNE_OK);
        EXPECT_EQ(facts.origin, AUTOTUNE_ORIGIN_EXACT);
        EXPECT_GT(facts.recorded_us, 0);
    });
}

TEST(Described, ARecordedRivalIsTheFastestOfTheWinnersRounds) {
    fake_test("", [] {
        Session session;
        const Problem known = session.catalogue.problem({"hgemm", "64x64x64", {}});
        db::Winner winner = test::winner_of(session.catalogue, known, session.driver->device(0));
        for (const auto& [name, ratio] : {std::pair{"cublas", 1.25}, std::pair{"cublaslt", 1.1}})
            winner.evidence.finalists.push_back(
                {.name = name, .timing = winner.timing, .ratio = ratio, .ratio_low = 1.0, .ratio_high = 1.3});
        db::Store::open({.path = session.database()}).put(winner);
        const Handle handle = session.open();
        const Described described = product(64, 64, 64);
        const autotune_problem problem = described.problem();
        PlanOwner plan;
        ASSERT_EQ(autotune_plan_create(handle.get(), &problem, &plan.raw), AUTOTUNE_OK) << autotune_last_error(nullptr);
        autotune_plan_facts facts = {};
        facts.struct_size = sizeof(facts);
        ASSERT_EQ(autotune_plan_info(plan.raw, &facts), AUTOTUNE_OK);
        EXPECT_EQ(facts.recorded_us, 10);
        EXPECT_NEAR(facts.recorded_rival_us, 11, 1e-9);
    });
}

// The message with which a problem is refused, or "" if it is supported.
std::string refusal(const Handle& handle, const Described& described, autotune_status expected = AUTOTUNE_INVALID_ARGUMENT) {
    const autotune_problem problem = described.problem();
    const autotune_status status = autotune_supports(handle.get(), &problem);
    EXPECT_EQ(status, expected) << autotune_last_error(nullptr);
    return status == AUTOTUNE_OK ? "" : autotune_last_error(nullptr);
}

TEST(Described, SupportSaysYesOrWhyNotAndCompilesNothing) {
    fake_test(
        "",
        [] {
            Session session;
            const Handle handle = session.open();
            EXPECT_EQ(refusal(handle, product(48, 40, 32), AUTOTUNE_OK), "");
            Described bad = product(48, 40, 32);
            bad.op = "convolution";
            EXPECT_THAT(refusal(handle, bad), AllOf(HasSubstr("unknown op 'convolution'"), HasSubstr("gemm")));
            bad = product(48, 40, 32);
            bad.tensors[1].extents[0] = 31;
            EXPECT_THAT(refusal(handle, bad), HasSubstr("columns of a and the rows of b"));
            bad = product(48, 40, 32);
            bad.tensors[0].rank = 6;
            EXPECT_THAT(refusal(handle, bad), HasSubstr("rank 6"));
            bad = product(48, 40, 32);
            bad.tensors[0].type = AUTOTUNE_E4M3;
            EXPECT_THAT(refusal(handle, bad), HasSubstr("e4m3"));
            bad.tensors[0].type = static_cast<autotune_dtype>(99);
            EXPECT_THAT(refusal(handle, bad), HasSubstr("99, no value of autotune_dtype"));
            bad.tensors[0].type = AUTOTUNE_DTYPE_DEFAULT;
            EXPECT_THAT(refusal(handle, bad), HasSubstr("the type of tensor a is missing"));
            bad = product(48, 40, 32);
            bad.tensors[2].name = nullptr;
            EXPECT_THAT(refusal(handle, bad), HasSubstr("tensors[2].name is NULL"));
            bad = product(48, 40, 32);
            bad.tensors[1].struct_size = 8;
            EXPECT_THAT(refusal(handle, bad), HasSubstr("tensors[1].struct_size"));
            bad = product(48, 40, 32);
            bad.attributes = {word("layout", "xy")};
            EXPECT_THAT(refusal(handle, bad), HasSubstr("unknown layout 'xy'"));
            EXPECT_EQ(autotune_supports(handle.get(), nullptr), AUTOTUNE_INVALID_ARGUMENT);
        },
        [](const fake::Sandbox& sandbox) { EXPECT_EQ(sandbox.count_calls("nvrtcCompileProgram"), 0); });
}

// A product as words for the command and as a description for the interface.
struct RandomProduct {
    autotune_dtype type, output;
    std::string type_word, output_word;
    bool b_is_transposed;
    std::int64_t m, n, k;

    explicit RandomProduct(Random& random) {
        using Type = std::pair<autotune_dtype, const char*>;
        const std::vector<Type> types = {
            {AUTOTUNE_F16, "f16"}, {AUTOTUNE_BF16, "bf16"}, {AUTOTUNE_F32, "f32"}, {AUTOTUNE_E4M3, "e4m3"}};
        std::tie(type, type_word) = random.below(2) == 1 ? types.back() : types[random.below(types.size())];
        std::tie(output, output_word) = type == AUTOTUNE_E4M3 ? types[random.below(types.size())] : Type{type, type_word.c_str()};
        b_is_transposed = random.below(2) == 1;
        const auto extent = [&] {
            return static_cast<std::int64_t>(random.below(2) == 1 ? 16 * (1 + random.below(4)) : 1 + random.below(70));
        };
        m = extent(), n = extent(), k = extent();
    }
    Described described() const {
        const Extents stored = b_is_transposed ? Extents{1, k} : Extents{n, 1};
        return {{tensor("a", {m, k}, {}, type), tensor("b", {k, n}, stored, type), tensor("c", {m, n}, {}, output)}, {}, "gemm"};
    }
    std::vector<std::string> command() const {
        const std::string shape = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
        return {"tune",
                "--op",
                "gemm",
                "--a",
                type_word,
                "--b",
                type_word,
                "--c",
                output_word,
                "--layout",
                b_is_transposed ? "nt" : "nn",
                "--shape",
                shape,
                "--budget",
                "1s"};
    }
};

std::size_t number_of_random_products() {
    const char* const more = std::getenv("AUTOTUNE_RANDOM_PROBLEMS");
    return more == nullptr ? 4 : static_cast<std::size_t>(std::max(1, std::atoi(more)));
}

// Whether a problem can be computed must not depend on the function that is called: the library's answer, its plan and the
// command's tune agree. An A100 has no fp8.
TEST(Described, SupportPlanAndTuneGiveOneAnswerForRandomProducts) {
    constexpr unsigned kSeed = 20261128;
    std::size_t refused = 0;
    for (const char* card : {"device name=\"NVIDIA A100\" cc=8.0 sms=108 l2_mib=40 memory_mib=81920 bus=5120\n", ""}) {
        Sandbox sandbox(card);
        const std::string answers = sandbox.folder() / "answers";
        if (!in_fake_process(sandbox, {.timeout_s = 110, .environment = {{"AUTOTUNE_TEST_ANSWERS", answers}}})) {
            std::ifstream lines(answers);
            Random random(kSeed);
            for (std::size_t i = 0; i < number_of_random_products(); ++i) {
                const RandomProduct product(random);
                int supported = -1, planned = -1;
                lines >> supported >> planned;
                const auto outcome = sandbox.autotune(product.command(), {.timeout_s = 60});
                const std::string what = ::testing::PrintToString(product.command()) + outcome.err;
                constexpr int kNoValidConfig = 4;
                ASSERT_TRUE(supported == AUTOTUNE_OK || supported == AUTOTUNE_NO_KERNEL) << supported << " " << what;
                EXPECT_EQ(planned, supported) << what;
                EXPECT_EQ(outcome.exit_code, supported == AUTOTUNE_OK ? 0 : kNoValidConfig) << what;
                refused += supported == AUTOTUNE_OK ? 0 : 1;
            }
            continue;
        }
        Session session;
        const Handle handle = session.open();
        std::ofstream lines(std::getenv("AUTOTUNE_TEST_ANSWERS"));
        Random random(kSeed);
        for (std::size_t i = 0; i < number_of_random_products(); ++i) {
            const Described described = RandomProduct(random).described();
            const autotune_problem problem = described.problem();
            PlanOwner plan;
            const autotune_status supported = autotune_supports(handle.get(), &problem);
            lines << supported << " " << autotune_plan_create(handle.get(), &problem, &plan.raw) << std::endl;
        }
        return;
    }
    EXPECT_GT(refused, 0U) << "no problem was drawn that the smaller card cannot do";
}

// A description has beta = 0 by default, and the general kernels are for any beta.
TEST(Described, ACallInTheBackgroundIsServedByAGeneralKernel) {
    fake_test("rule on=compile reads_c=0 do=hang seconds=1\n", [] {
        Session session;
        const Handle handle = session.open(AUTOTUNE_ON_MISS_BACKGROUND);
        for (const std::int64_t columns : {64, 47}) {  // aligned, and not
            const Described described = product(64, columns, 64);
            const autotune_problem problem = described.problem();
            const GemmData data(session.driver, test::gemm(64, columns, 64));
            const Call arguments = call_of(data, 1, 0);
            const autotune_call call = arguments.call();
            EXPECT_EQ(autotune_tuned(handle.get(), &problem, &call, session.stream.handle()), AUTOTUNE_OK)
                << autotune_last_error(nullptr);
            session.stream.synchronize();
            EXPECT_EQ(data.wrong(1, 0), 0);
        }
    });
}

TEST(Described, AKeyIsTheCommandsWordsWithAHandleAndWithout) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Described described = product(48, 40, 32);
        const autotune_problem problem = described.problem();
        const std::string expected = session.catalogue.problem({"hgemm", "48x40x32", {}}).key();
        for (autotune_handle each : {handle.get(), autotune_handle{nullptr}}) {
            std::size_t bytes = 0;
            ASSERT_EQ(autotune_problem_key(each, &problem, nullptr, &bytes), AUTOTUNE_OK) << autotune_last_error(nullptr);
            EXPECT_EQ(bytes, expected.size() + 1);
            std::string text(bytes, 'x');
            ASSERT_EQ(autotune_problem_key(each, &problem, text.data(), &bytes), AUTOTUNE_OK);
            EXPECT_EQ(std::string(text.c_str()), expected);
            std::size_t room = 5;
            ASSERT_EQ(autotune_problem_key(each, &problem, text.data(), &room), AUTOTUNE_OK);
            EXPECT_EQ(std::string(text.c_str()), "gemm");
            EXPECT_EQ(room, bytes);
            Described bad = product(48, 40, 32);
            bad.op = "convolution";
            const autotune_problem refused = bad.problem();
            EXPECT_EQ(autotune_problem_key(each, &refused, nullptr, &bytes), AUTOTUNE_INVALID_ARGUMENT);
            EXPECT_EQ(autotune_problem_key(each, &problem, nullptr, nullptr), AUTOTUNE_INVALID_ARGUMENT);
        }
    });
}

TEST(Described, CallsAreCheckedAgainstThePlan) {
    fake_test("", [] {
        Session session;
        const Handle handle = session.open();
        const Described described = product(48, 40, 32);
        const autotune_problem problem = described.problem();
        PlanOwner plan;
        ASSERT_EQ(autotune_plan_create(handle.get(), &problem, &plan.raw), AUTOTUNE_OK);
        const GemmData data(session.driver, test::gemm(48, 40, 32));
        const auto refused = [&](const Call& call) {
            const autotune_call given = call.call();
            EXPECT_EQ(autotune_run(plan.raw, &given, session.stream.handle()), AUTOTUNE_INVALID_ARGUMENT);
            return std::string(autotune_last_error(nullptr));
        };
        Call call = call_of(data, 1, 0);
        call.tensors.pop_back();
        EXPECT_THAT(refused(call), HasSubstr("2 tensors and 2 scalars"));
        call = call_of(data, 1, 0);
        call.scalars.pop_back();
        EXPECT_THAT(refused(call), HasSubstr("takes 3 and 2"));
        call = call_of(data, 1, 0.5F);
        EXPECT_THAT(refused(call), HasSubstr("beta is not 0"));
        call = call_of(data, 1, 0);
        call.scalars[0].type = AUTOTUNE_SCALAR_I32;
        EXPECT_THAT(refused(call), HasSubstr("scalar alpha has another type"));
        call = call_of(data, 1, 0);
        call.tensors[1] = nullptr;
        EXPECT_THAT(refused(call), HasSubstr("b is NULL"));
        EXPECT_EQ(autotune_run(plan.raw, nullptr, session.stream.handle()), AUTOTUNE_INVALID_ARGUMENT);
        EXPECT_EQ(autotune_run(nullptr, nullptr, session.stream.handle()), AUTOTUNE_INVALID_ARGUMENT);
    });
}

// The positions in device memory of an fp8 product's tensors, in the op's order.
struct Fp8Data {
    gpu::Buffer a, b, c, scale_a, scale_b, bias, scale_d, amax_d;

    explicit Fp8Data(const std::shared_ptr<const gpu::Driver>& driver)
        : a(driver, 1 << 18),
          b(driver, 1 << 18),
          c(driver, 1 << 18),
          scale_a(driver, 2048),
          scale_b(driver, 1024),
          bias(driver, 512),
          scale_d(driver, 256),
          amax_d(driver, 256) {}
};

const void* at(const gpu::Buffer& buffer, std::size_t offset = 0) {
    return reinterpret_cast<const void*>(buffer.address() + offset);
}

// Larger than the products that the scripted driver computes. b is stored [n, k], c is e4m3 with its factor.
Description fp8_product() {
    Description product("gemm");
    product.tensor("a", AUTOTUNE_E4M3, {512, 512}).tensor("b", AUTOTUNE_E4M3, {512, 256}, {1, 512});
    product.tensor("c", AUTOTUNE_E4M3, {512, 256}).tensor("bias", AUTOTUNE_BF16, {256}, {}, 2);
    return product.tensor("scale_d", AUTOTUNE_F32, {1}, {}, 4).tensor("amax_d", AUTOTUNE_F32, {1}, {}, 4);
}

// The scripted driver reads the parameters of this family.
fake::RunOptions with_fp8_pinned() {
    return {.environment = {{"AUTOTUNE_PIN", "gemm/mma_fp8"}}};
}

TEST(Described, AnEpilogueOfFp8HasItsAddressesInTheOpsOrder) {
    fake_test({"", with_fp8_pinned()}, [] {
        Session session;
        const Handle handle = session.open();
        const Fp8Data data(session.driver);
        tuned(handle, fp8_product(),
              {at(data.a), at(data.b), at(data.c), nullptr, nullptr, at(data.bias), at(data.scale_d), at(data.amax_d)}, {1, 0},
              session.stream.handle());
        Description scaled = fp8_product();
        scaled.tensor("scale_a", AUTOTUNE_F32, {512}, {}, 4).tensor("scale_b", AUTOTUNE_F32, {256}, {}, 4).word("scale", "row");
        tuned(handle, scaled,
              {at(data.a), at(data.b), at(data.c), at(data.scale_a), at(data.scale_b), at(data.bias), at(data.scale_d),
               at(data.amax_d)},
              {1, 0}, session.stream.handle());
    });
}

// A plan that is called with addresses that it refuses.
class RefusingPlan {
  public:
    explicit RefusingPlan(const Description& described) : handle_(session_.open()) {
        const autotune_problem problem = described.problem();
        EXPECT_EQ(autotune_plan_create(handle_.get(), &problem, &plan_.raw), AUTOTUNE_OK) << autotune_last_error(nullptr);
    }
    const Fp8Data& data() const { return data_; }
    // What it says.
    std::string refused(const std::vector<const void*>& addresses, autotune_status expected) {
        const Call call{addresses, {f32(1), f32(0)}};
        const autotune_call given = call.call();
        EXPECT_EQ(autotune_run(plan_.raw, &given, session_.stream.handle()), expected);
        return autotune_last_error(nullptr);
    }

  private:
    Session session_;
    Handle handle_;
    PlanOwner plan_;
    Fp8Data data_{session_.driver};
};

TEST(Described, AnEpilogueOfFp8RefusesWhatIsMissingOrMisaligned) {
    fake_test({"", with_fp8_pinned()}, [] {
        RefusingPlan plan(fp8_product());
        const Fp8Data& data = plan.data();
        const void *const a = at(data.a), *const b = at(data.b), *const c = at(data.c), *const bias = at(data.bias),
                          *const scale_d = at(data.scale_d), *const amax_d = at(data.amax_d);
        EXPECT_THAT(plan.refused({a, b, c, nullptr, nullptr, nullptr, scale_d, amax_d}, AUTOTUNE_INVALID_ARGUMENT),
                    HasSubstr("bias is NULL"));
        EXPECT_THAT(plan.refused({a, b, c, nullptr, nullptr, bias, nullptr, amax_d}, AUTOTUNE_INVALID_ARGUMENT),
                    HasSubstr("scale_d is NULL"));
        EXPECT_THAT(plan.refused({a, b, c, nullptr, nullptr, bias, scale_d}, AUTOTUNE_INVALID_ARGUMENT), HasSubstr("7 tensors"));
        EXPECT_THAT(plan.refused({a, b, c, nullptr, nullptr, at(data.bias, 1), scale_d, amax_d}, AUTOTUNE_MISALIGNED),
                    HasSubstr("bias"));
        EXPECT_THAT(plan.refused({a, b, c, nullptr, nullptr, bias, at(data.scale_d, 2), amax_d}, AUTOTUNE_MISALIGNED),
                    HasSubstr("scale_d"));
        EXPECT_THAT(plan.refused({a, b, c, nullptr, nullptr, bias, scale_d, at(data.amax_d, 1)}, AUTOTUNE_MISALIGNED),
                    HasSubstr("amax_d"));
    });
}

TEST(Described, ScalesOfFp8AreRefusedWhereMissingOrMisaligned) {
    fake_test({"", with_fp8_pinned()}, [] {
        Description product("gemm");
        product.tensor("a", AUTOTUNE_E4M3, {512, 512}).tensor("b", AUTOTUNE_E4M3, {512, 256}, {1, 512});
        product.tensor("c", AUTOTUNE_BF16, {512, 256}).word("scale", "row");
        product.tensor("scale_a", AUTOTUNE_F32, {512}, {}, 4).tensor("scale_b", AUTOTUNE_F32, {256}, {}, 4);
        RefusingPlan plan(product);
        const Fp8Data& data = plan.data();
        const void *const a = at(data.a), *const b = at(data.b), *const c = at(data.c);
        EXPECT_THAT(plan.refused({a, b, c}, AUTOTUNE_INVALID_ARGUMENT), HasSubstr("3 tensors"));
        EXPECT_THAT(plan.refused({a, b, c, nullptr, at(data.scale_b)}, AUTOTUNE_INVALID_ARGUMENT), HasSubstr("scale_a is NULL"));
        EXPECT_THAT(plan.refused({a, b, c, at(data.scale_a), nullptr}, AUTOTUNE_INVALID_ARGUMENT), HasSubstr("scale_b is NULL"));
        EXPECT_THAT(plan.refused({a, b, c, at(data.scale_a, 2), at(data.scale_b)}, AUTOTUNE_MISALIGNED), HasSubstr("scale_a"));
        EXPECT_THAT(plan.refused({at(data.a, 8), b, c, at(data.scale_a), at(data.scale_b)}, AUTOTUNE_MISALIGNED), HasSubstr("a"));
    });
}

}  // namespace
}  // namespace autotune::runtime::described_fake_test
