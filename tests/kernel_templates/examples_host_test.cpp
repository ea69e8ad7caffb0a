// Runs the family and the op of docs/adding_a_family.md and docs/adding_an_op.md on the host. They are found as the product finds
// its own.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/jit/compiler.h"
#include "tests/support/embedded_catalogue.h"
#include "tests/support/host_cuda/candidate.h"
#include "tests/support/nvrtc_for_tests.h"

namespace autotune::examples_host_test {
namespace {

std::string examine(const std::string& family_name, const std::vector<ProblemRequest>& requests) {
    const Catalogue& catalogue = test::embedded_catalogue();
    const Family& family = *catalogue.find_family(family_name);
    const Problem first = catalogue.problem(requests.front());
    test::host_cuda::HostCandidate candidate(catalogue, family, first, test::host_cuda::config_with(family, first, ""));
    for (const ProblemRequest& request : requests) {
        const std::string wrong = candidate.examine(catalogue.problem(request));
        if (!wrong.empty()) return request.shape + ": " + wrong;
    }
    return "";
}

TEST(ExampleFamily, AddsEveryType) {
    for (const char* op : {"sadd", "hadd", "badd"}) {
        EXPECT_EQ(examine("add/mine", {{op, "1000", {}}, {op, "1", {}}, {op, "256", {}}, {op, "257", {}}}), "") << op;
    }
}

TEST(ExampleOp, NegatesOnTheHostAsItsReferenceSays) {
    EXPECT_EQ(examine("negate/plain", {{"negate", "1000", {}}, {"negate", "1", {}}, {"negate", "256", {}}}), "");
}

TEST(ExampleOp, IsDescribedAsItsWordsSay) {
    const Catalogue& catalogue = test::embedded_catalogue();
    ProblemDescription description{.op = "negate", .tensors = {}};
    for (const char* name : {"x", "y"}) description.tensors.push_back({.name = name, .dtype = DType::f32, .dims = {{1000, 1}}});
    EXPECT_EQ(catalogue.find_op("negate")->described(description).problem.key(), catalogue.problem({"negate", "1000", {}}).key());
}

TEST(ExampleFamily, CompilesForEveryArchitecture) {
    std::string why;
    const auto nvrtc = test::nvrtc_or_skip(why);
    if (!nvrtc) GTEST_SKIP() << why;
    const Catalogue& catalogue = test::embedded_catalogue();
    for (const Family* family : catalogue.families()) {
        const std::string_view op = family->name().substr(0, family->name().find('/'));
        const Problem problem = catalogue.problem(catalogue.find_op(op)->examples().front());
        for (const std::string& arch : known_archs()) {
            const SearchSpace space = family->space(problem, reference_device(arch).value());
            const jit::Rendered rendered =
                jit::render(catalogue, *family, problem, space, space.default_config, {arch, nvrtc->version()});
            EXPECT_EQ(jit::compile(*nvrtc, jit::CubinCache(""), rendered).failure, "") << family->name() << " " << arch;
        }
    }
}

}  // namespace
}  // namespace autotune::examples_host_test
