#include "tuner/verify/verifier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

namespace autotune::tuner {
namespace {

// The position of an element by number: "row 3, column 5", with the batch if there are several. For more than three dimensions
// the index in each.
std::string place_of(const Tensor& out, std::uint64_t number) {
    const std::size_t rank = out.dims.size();
    auto rest = static_cast<std::int64_t>(number);
    std::vector<std::int64_t> at(rank);
    for (std::size_t i = rank; i-- > 0;) {
        at[i] = rest % out.dims[i].extent;
        rest /= out.dims[i].extent;
    }
    if (rank == 0) return "the only element";
    if (rank > 3) {
        std::string text;
        for (const std::int64_t each : at) text += (text.empty() ? "" : ", ") + std::to_string(each);
        return "(" + text + ")";
    }
    std::string place = "row " + std::to_string(rank >= 2 ? at[rank - 2] : 0) + ", column " + std::to_string(at[rank - 1]);
    if (rank == 3 && out.dims[0].extent > 1) place += ", batch " + std::to_string(at[0]);
    return place;
}

// If the answer is a part of an output, the message also says where the part begins.
std::string counted_from(const Answer& part) {
    if (part.first == 0) return "";
    const std::size_t rank = part.out.dims.size();
    const std::int64_t ld = rank >= 2 ? part.out.dims[rank - 2].stride : 0;
    if (ld == 0 || part.out.dims[rank - 1].stride != 1) return " (counted from element " + std::to_string(part.first) + ")";
    return " (counted from row " + std::to_string(part.first / ld) + ", column " + std::to_string(part.first % ld) + ")";
}

// A number that the device computes, its right value, and the meaning of any other.
struct Invariant {
    DeviceChecks::CheckId check;
    std::uint64_t right;
    std::string otherwise;
};

// Checks that nothing but the outputs' elements was changed.
std::vector<Invariant> invariants_of(DeviceChecks& checks, const Problem& problem, const TestFixture& tested,
                                     const Runnable& runnable) {
    std::vector<Invariant> invariants;
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
        const Tensor& tensor = problem.tensors[i];
        if (tensor.is_absent) continue;
        const GuardedBuffer& buffer = tested.tensors.buffers[i];
        invariants.push_back({checks.altered_bytes(buffer.zones()), 0, "writes outside tensor " + tensor.name});
        if (tensor.access == Access::in) {
            invariants.push_back(
                {checks.checksum(buffer.contents()), tested.tensors.checksums[i], "changes its input " + tensor.name});
        } else if (tensor.has_gaps()) {
            invariants.push_back(
                {checks.altered_gap_bytes(tensor, buffer.address()), 0, "writes between the elements of " + tensor.name});
        }
    }
    invariants.push_back({checks.altered_bytes(runnable.workspace.zones()), 0, "writes outside its workspace"});
    return invariants;
}

std::string first_broken(const DeviceChecks& checks, const std::vector<Invariant>& invariants) {
    for (const Invariant& claim : invariants) {
        if (checks.number(claim.check) != claim.right) return claim.otherwise;
    }
    return "";
}

double element(const GuardedBuffer& buffer, const Tensor& tensor, std::int64_t number) {
    const std::size_t size = size_bytes(tensor.dtype);
    std::uint64_t bits = 0;
    std::vector<std::byte> raw(size);
    buffer.memory().download(raw, buffer.offset() + static_cast<std::size_t>(tensor.offset_of(number)) * size);
    std::memcpy(&bits, raw.data(), size);
    return decode(tensor.dtype, bits);
}

std::string judge_parts(const TestFixture& tested, const DeviceChecks& checks, const std::vector<DeviceChecks::CheckId>& parts,
                        Verification& found) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const Answer& answer = tested.answers[i];
        const CompareResult& comparison = checks.comparison(parts[i]);
        if (tested.test.is_typical) {
            found.max_error = std::max(found.max_error, comparison.max_ratio);
            found.accumulation_error = std::max(found.accumulation_error, comparison.max_accumulation);
        }
        const std::string wrong = judge(tested.test, tested.test.outputs[answer.output], answer.out, comparison);
        if (!wrong.empty()) return wrong + counted_from(answer);
    }
    return "";
}

// Enqueues a hash of each output.
std::vector<DeviceChecks::CheckId> hashes(DeviceChecks& checks, const TestFixture& tested) {
    std::vector<DeviceChecks::CheckId> ids;
    for (const OutputCheck& output : tested.test.outputs)
        ids.push_back(checks.checksum(tested.tensors.buffers[static_cast<std::size_t>(output.tensor)].contents()));
    return ids;
}

// First and last element of the first output.
std::vector<double> samples(const Problem& problem, const TestFixture& tested) {
    const auto index = static_cast<std::size_t>(tested.test.outputs.front().tensor);
    const Tensor& out = problem.tensors[index];
    if (out.elements() == 0) return {};
    const GuardedBuffer& buffer = tested.tensors.buffers[index];
    return {element(buffer, out, 0), element(buffer, out, out.elements() - 1)};
}

// All runs and checks of a test are enqueued before the one wait, because most kernels take less time than a wait.
std::string check_one(Harness& harness, ProblemFixture& fixture, TestFixture& tested, Runnable& runnable, Verification& found) {
    const auto run = [&](ProblemFixture::Run which) {
        fixture.restore_outputs(tested, which);
        harness.poison_shared(fixture.device());
        runnable.enqueue(tested.tensors.addresses);
    };
    DeviceChecks checks(harness);
    run(ProblemFixture::Run::first);
    std::vector<DeviceChecks::CheckId> parts;
    for (const Answer& part : tested.answers) {
        const auto index = static_cast<std::size_t>(tested.test.outputs[part.output].tensor);
        const gpu::DeviceAddress at =
            tested.tensors.addresses[index] + static_cast<std::size_t>(part.first) * size_bytes(part.out.dtype);
        parts.push_back(checks.compare(part.out, at, part.expected.address(), part.bound.address()));
    }
    const std::vector<DeviceChecks::CheckId> first = hashes(checks, tested);
    std::vector<DeviceChecks::CheckId> last = first;
    if (tested.test.is_typical && runnable.deterministic) {
        run(ProblemFixture::Run::second);
        last = hashes(checks, tested);
    }
    const std::vector<Invariant> invariants = invariants_of(checks, fixture.problem(), tested, runnable);
    checks.wait();

    const std::string broken = first_broken(checks, invariants);
    found.intact = broken.empty();
    if (std::string wrong = judge_parts(tested, checks, parts, found); !wrong.empty()) return wrong;
    if (tested.product) {
        const auto out = static_cast<std::size_t>(tested.test.product->out);
        if (const std::string wrong = tested.product->judge(tested.tensors.addresses[out]); !wrong.empty())
            return "product check: " + wrong;
    }
    if (!broken.empty()) return broken;
    if (tested.test.is_typical) found.sample_values = samples(fixture.problem(), tested);
    const bool same = std::equal(
        first.begin(), first.end(), last.begin(),
        [&](DeviceChecks::CheckId one, DeviceChecks::CheckId other) { return checks.number(one) == checks.number(other); });
    return same ? "" : "gives other bits when it is run again on the same input";
}

}  // namespace

std::string judge(const OpTest& test, const OutputCheck& output, const Tensor& out, const CompareResult& comparison) {
    const std::string where = test.name + " test: " + (test.outputs.size() > 1 ? "of " + out.name + ", " : "");
    const std::string total = " of " + std::to_string(out.elements()) + " elements ";
    if (comparison.nan_count > 0) return where + std::to_string(comparison.nan_count) + total + "are NaN or were never written";
    if (comparison.violations > 0) {
        return where + std::to_string(comparison.violations) + total + "are wrong, the first at " +
               place_of(out, comparison.first_wrong());
    }
    const double norm_ratio = comparison.sum_expected2 > 0 ? std::sqrt(comparison.sum_error2 / comparison.sum_expected2) : 0;
    if (output.max_norm_ratio > 0 && !(norm_ratio <= output.max_norm_ratio)) {
        std::ostringstream text;
        text << where << "the error's norm is " << norm_ratio << " of the answer's, " << output.max_norm_ratio << " is allowed";
        return text.str();
    }
    return "";
}

Verification verify_on_device(Harness& harness, ProblemFixture& fixture, Runnable& runnable) {
    Verification found;
    for (TestFixture& test : fixture.tests()) {
        found.detail = check_one(harness, fixture, test, runnable, found);
        found.right = found.detail.empty();
        if (!found.right) break;
    }
    return found;
}

}  // namespace autotune::tuner
