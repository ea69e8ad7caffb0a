#include "tuner/verifier.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

namespace autotune::tuner {
namespace {

std::string place_of(const Operand& out, std::uint64_t index) {
    const auto cols = static_cast<std::uint64_t>(out.cols);
    const auto rows = static_cast<std::uint64_t>(out.rows);
    std::string place = "row " + std::to_string(index / cols % rows) + ", column " + std::to_string(index % cols);
    if (out.batch > 1) place += ", batch " + std::to_string(index / cols / rows);
    return place;
}

// A part's judgement counts from where the part begins.
std::string counted_from(const Answer& part) {
    if (part.first == 0) return "";
    return " (counted from row " + std::to_string(part.first / part.out.ld) + ", column " +
           std::to_string(part.first % part.out.ld) + ")";
}

// A number that the device is asked for, and what it means if it is another than the right one.
struct Claim {
    Inquiry::Question question;
    std::uint64_t right;
    std::string otherwise;
};

// That nothing lies changed but the output's elements.
std::vector<Claim> claim_intact(Inquiry& inquiry, const Problem& problem, const TestBench& test, const Runnable& runnable) {
    std::vector<Claim> claims;
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
        const Operand& operand = problem.operands[i];
        const GuardedBuffer& buffer = test.operands.buffers[i];
        claims.push_back({inquiry.altered_bytes(buffer.zones()), 0, "writes outside operand " + operand.name});
        if (operand.access == Access::in) {
            claims.push_back(
                {inquiry.checksum(buffer.contents()), test.operands.checksums[i], "changes its input " + operand.name});
        } else if (operand.ld > operand.cols || operand.batch > 1) {
            claims.push_back(
                {inquiry.altered_gap_bytes(operand, buffer.address()), 0, "writes between the rows of " + operand.name});
        }
    }
    claims.push_back({inquiry.altered_bytes(runnable.workspace.zones()), 0, "writes outside its workspace"});
    return claims;
}

std::string first_broken(const Inquiry& inquiry, const std::vector<Claim>& claims) {
    for (const Claim& claim : claims) {
        if (inquiry.number(claim.question) != claim.right) return claim.otherwise;
    }
    return "";
}

double element(const OperandSet& set, std::size_t operand, const Operand& out, bool last) {
    std::int64_t at = 0;
    if (last) at = (out.batch - 1) * out.batch_stride + (out.rows - 1) * out.ld + out.cols - 1;
    const std::size_t size = size_bytes(out.dtype);
    std::uint64_t bits = 0;
    std::vector<std::byte> raw(size);
    const GuardedBuffer& buffer = set.buffers[operand];
    buffer.memory().download(raw, buffer.offset() + static_cast<std::size_t>(at) * size);
    std::memcpy(&bits, raw.data(), size);
    return decode(out.dtype, bits);
}

std::string judge_parts(const TestBench& test, const Inquiry& inquiry, const std::vector<Inquiry::Question>& parts,
                        Verification& found) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const CompareResult& comparison = inquiry.comparison(parts[i]);
        if (test.kind == TestKind::numeric) found.max_error = std::max(found.max_error, comparison.max_ratio);
        const std::string wrong = judge(test.check, test.kind, test.answers[i].out, comparison);
        if (!wrong.empty()) return wrong + counted_from(test.answers[i]);
    }
    return "";
}

// All runs and questions of a test are enqueued before the one wait: most kernels take less than waiting for them does.
std::string check_one(Harness& harness, Workbench& bench, TestBench& test, Runnable& runnable, Verification& found) {
    const auto index = static_cast<std::size_t>(test.check.operand);
    const Operand& out = bench.problem().operands[index];
    const GuardedBuffer& answer = test.operands.buffers[index];
    const auto run = [&] {
        bench.restore_outputs(test);
        runnable.enqueue(test.operands.addresses);
    };
    Inquiry inquiry(harness);
    run();
    std::vector<Inquiry::Question> parts;
    for (const Answer& part : test.answers) {
        const gpu::DeviceAddress at = answer.address() + static_cast<std::size_t>(part.first) * size_bytes(out.dtype);
        parts.push_back(inquiry.compare(part.out, at, part.expected.address(), part.bound.address()));
    }
    const bool twice = test.kind == TestKind::numeric && runnable.deterministic;
    const Inquiry::Question first = inquiry.checksum(answer.contents());
    Inquiry::Question last = first;
    if (twice) {
        run();
        last = inquiry.checksum(answer.contents());
    }
    const std::vector<Claim> claims = claim_intact(inquiry, bench.problem(), test, runnable);
    inquiry.wait();

    const std::string broken = first_broken(inquiry, claims);
    found.intact = broken.empty();
    if (std::string wrong = judge_parts(test, inquiry, parts, found); !wrong.empty()) return wrong;
    if (test.product) {
        if (const std::string wrong = test.product->judge(answer.address()); !wrong.empty()) return "product check: " + wrong;
    }
    if (!broken.empty()) return broken;
    if (test.kind == TestKind::numeric) {
        found.sample_values = {element(test.operands, index, out, false), element(test.operands, index, out, true)};
    }
    const bool same = inquiry.number(first) == inquiry.number(last);
    return same ? "" : "gives other bits when it is run again on the same input";
}

}  // namespace

std::string judge(const Check& check, TestKind kind, const Operand& out, const CompareResult& comparison) {
    const std::string test = kind == TestKind::exact ? "exact test: " : "numeric test: ";
    const std::string total = " of " + std::to_string(out.rows * out.cols * out.batch) + " elements ";
    if (comparison.nan_count > 0) return test + std::to_string(comparison.nan_count) + total + "are NaN or were never written";
    if (comparison.violations > 0) {
        return test + std::to_string(comparison.violations) + total + "are wrong, the first at " +
               place_of(out, comparison.first_wrong());
    }
    const double norm_ratio = comparison.sum_expected2 > 0 ? std::sqrt(comparison.sum_error2 / comparison.sum_expected2) : 0;
    if (check.max_norm_ratio > 0 && !(norm_ratio <= check.max_norm_ratio)) {
        std::ostringstream text;
        text << test << "the error's norm is " << norm_ratio << " of the answer's, " << check.max_norm_ratio << " is allowed";
        return text.str();
    }
    return "";
}

Verification verify_on_device(Harness& harness, Workbench& bench, Runnable& runnable) {
    Verification found;
    for (TestBench& test : bench.tests()) {
        found.detail = check_one(harness, bench, test, runnable, found);
        found.right = found.detail.empty();
        if (!found.right) break;
    }
    return found;
}

}  // namespace autotune::tuner
