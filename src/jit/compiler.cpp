#include "src/jit/compiler.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "src/core/error.h"

namespace autotune::jit {
namespace {

// A few bytes that are spilled outside the main loop take no measurable time. More of them mean that the config does not fit.
constexpr int kSpillBytesAllowed = 64;

// The number before `what` in `line`, such as 288 in "288 bytes stack frame" for " bytes stack frame".
std::optional<int> number_before(std::string_view line, std::string_view what) {
    const std::size_t at = line.find(what);
    if (at == std::string_view::npos) return std::nullopt;
    std::size_t first = at;
    while (first > 0 && line[first - 1] >= '0' && line[first - 1] <= '9') --first;
    int value = 0;
    if (std::from_chars(line.data() + first, line.data() + at, value).ec != std::errc{}) return std::nullopt;
    return value;
}

// Returns false for a remark about another function of the program. A remark that names no function concerns this one.
bool concerns(std::string_view line, const std::string& symbol) {
    return line.find("function") == std::string_view::npos || line.find("'" + symbol + "'") != std::string_view::npos;
}

void read_remark(std::string_view line, const std::string& symbol, CompileReport& report) {
    if (!concerns(line, symbol)) return;
    const auto says = [&](std::string_view what) { return line.find(what) != std::string_view::npos; };
    if (says("(C7508)")) report.setmaxnreg_ignored = true;
    if (says("(C7511)") || says("(C7519)") || says("instructions are serialized")) report.wgmma_serialised = true;
}

void read_usage(std::string_view line, CompileReport& report) {
    if (const auto registers = number_before(line, " registers")) report.registers = *registers;
    if (const auto smem = number_before(line, " bytes smem")) report.static_smem_bytes = *smem;
    report.spill_bytes += number_before(line, " bytes spill stores").value_or(0);
    report.spill_bytes += number_before(line, " bytes spill loads").value_or(0);
}

// The first line that names an error, for messages; the whole log is kept too.
std::string first_error(const std::string& log) {
    std::string_view left = log;
    while (!left.empty()) {
        const std::string_view line = left.substr(0, left.find('\n'));
        if (line.find("error") != std::string_view::npos || line.find("fatal") != std::string_view::npos)
            return std::string(line);
        left.remove_prefix(std::min(left.size(), line.size() + 1));
    }
    return log.empty() ? "the compiler gave no reason" : log.substr(0, log.find('\n'));
}

CompileResult from_output(gpu::Nvrtc::Output output, const Rendered& rendered) {
    CompileResult result;
    result.log = std::move(output.log);
    if (!output.ok || output.cubin.empty()) {
        result.by_circumstance = !output.is_verdict;
        result.failure = "NVRTC refused " + rendered.symbol + " for " + rendered.arch + ": " + first_error(result.log);
        return result;
    }
    Compiled compiled{rendered.symbol, rendered.identity, std::move(output.cubin), parse_report(result.log, rendered.symbol)};
    compiled.report.compile_ms = output.milliseconds;
    compiled.report.cubin_bytes = compiled.cubin.size();
    result.compiled = std::move(compiled);
    return result;
}

}  // namespace

CompileReport parse_report(const std::string& log, const std::string& symbol) {
    CompileReport report;
    const std::string entry = "Compiling entry function '" + symbol + "'";
    bool ours = false;
    std::string_view left = log;
    while (!left.empty()) {
        const std::string_view line = left.substr(0, left.find('\n'));
        if (line.find("Compiling entry function") != std::string_view::npos) ours = line.find(entry) != std::string_view::npos;
        if (ours) read_usage(line, report);
        if (line.find("(C7") != std::string_view::npos) read_remark(line, symbol, report);
        left.remove_prefix(std::min(left.size(), line.size() + 1));
    }
    return report;
}

std::string reject_reason(const CompileReport& report) {
    if (report.wgmma_serialised) return "wgmma is serialised (C7511, C7519)";
    if (report.setmaxnreg_ignored) return "setmaxnreg is ignored (C7508)";
    if (report.spill_bytes > kSpillBytesAllowed) return "spills " + std::to_string(report.spill_bytes) + " bytes";
    return "";
}

// On an H200 80 spilled bytes took 1.2 to 1.3 times as long (bf16 1024x50257x768), 2,784 bytes 2.8 times (f16 3453x29023x1826).
double likely_slowdown(const CompileReport& report) {
    constexpr double kSlowest = 3, kBytesOfOnceMore = 256;
    if (reject_reason(report).empty()) return 1;
    if (report.wgmma_serialised || report.setmaxnreg_ignored) return kSlowest;
    return std::min(kSlowest, 1 + report.spill_bytes / kBytesOfOnceMore);
}

CompileResult compile(const gpu::Nvrtc& nvrtc, const CubinCache& cache, const Rendered& rendered) {
    CompileResult result;
    if (auto cached = cache.find(rendered.identity); cached && cached->symbol == rendered.symbol) {
        result.compiled = std::move(cached);
    } else {
        result = from_output(
            nvrtc.compile({rendered.source, rendered.symbol + ".cu", rendered.headers, rendered.options, rendered.kernel_names}),
            rendered);
        if (result.compiled) cache.put(*result.compiled);
    }
    if (result.compiled) result.rejected = reject_reason(result.compiled->report);
    return result;
}

}  // namespace autotune::jit
