// Offsets of packed sequences that violate every rule: nothing outside the tensors may be read or written.
#include <gtest/gtest.h>

#include <algorithm>

#include "src/catalogue/catalogue.h"
#include "src/jit/render.h"
#include "tests/support/host_cuda/candidate.h"
#include "tests/support/host_cuda/machine/launch_memory.h"

namespace autotune::test {
namespace {

using host_cuda::Bits;

constexpr std::size_t kQOffsets = 5, kKvOffsets = 6;

struct FamilyWithArch {
    const char *name, *arch;
};

class PackedOffsets : public ::testing::TestWithParam<FamilyWithArch> {};

TEST_P(PackedOffsets, ThatDoNotAscendOrLeadOutOfTheTensorsDoNoHarm) {
    const Catalogue catalogue = Catalogue::embedded();
    const Family& family = *catalogue.find_family(GetParam().name);
    const Problem problem =
        catalogue.problem({"attention", "3x2x40x64", {{"packed", "yes"}, {"dtype", "bf16"}, {"mask", "causal"}}});
    const Device device = host_cuda::device_for(family, problem);
    const Config config = family.default_config(problem, device);
    host_cuda::HostKernel kernel(
        jit::render(catalogue, family, problem, family.rules(problem, device), config, {GetParam().arch, "13.0"}));
    const LaunchPlan plan = family.plan(problem, config, device);
    const OpTest test = catalogue.op_of(problem).tests(problem).front();
    std::vector<Bits> contents;
    const std::vector<std::vector<double>> tensors = host_cuda::filled_tensors(problem, test);
    for (std::size_t i = 0; i < tensors.size(); ++i) contents.push_back(host_cuda::encoded(problem.tensors[i].dtype, tensors[i]));
    const std::vector<std::vector<double>> offsets = {
        {0, 50, 20, 60}, {60, 40, 20, 0}, {0, -7, 2147483647, 60}, {-2147483648.0, 2147483647, 3, 61}, {2147483647, 0, 0, 0}};
    for (const std::vector<double>& queries : offsets) {
        for (const std::vector<double>& keys : offsets) {
            contents[kQOffsets] = host_cuda::encoded(DType::i32, queries);
            contents[kKvOffsets] = host_cuda::encoded(DType::i32, keys);
            for (const auto side : {host_cuda::GuardedArray::Side::begin, host_cuda::GuardedArray::Side::end}) {
                const host_cuda::LaunchMemory memory(problem, plan, contents, side);
                for (const LaunchStep& step : plan.steps) ASSERT_NO_THROW(kernel.launch(step, memory.words(step), {}));
                EXPECT_EQ(memory.damage(contents), "");
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Families, PackedOffsets,
                         ::testing::Values(FamilyWithArch{"attention/naive", host_cuda::kArch},
                                           FamilyWithArch{"attention/simt", host_cuda::kArch},
                                           FamilyWithArch{"attention/mma", host_cuda::kArch},
                                           FamilyWithArch{"attention/wgmma", host_cuda::kLaterArch}),
                         [](const auto& entry) {
                             std::string name = entry.param.name;
                             std::replace(name.begin(), name.end(), '/', '_');
                             return name;
                         });

}  // namespace
}  // namespace autotune::test
