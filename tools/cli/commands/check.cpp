#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "src/kernel_files/kernel_file.h"
#include "tools/cli/command.h"
#include "tools/cli/input/kernel_files.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/printable_stream.h"
#include "tools/cli/session.h"
#include "tools/cli/shared/compile_check.h"

namespace autotune::cli {
namespace {

using KernelFinding = kernel_files::Finding;

// A summary of a file for its first example.
std::string kernel_summary(const kernel_files::KernelFile& file, const Device& device) {
    const DefinedOp op(file.family.op);
    const DefinedFamily family(file.family);
    const OpDefinition::Example& example = file.op().examples.front();
    const Problem problem = op.problem_of(example.extents, example.attributes);
    const SpaceCount count = family.space(problem, device).count();
    return fmt::format("{}: {} parameters, {} of {} points are legal on {}, {} to compile ({})", file.op().name,
                       file.family.parameters.size(), count.legal, count.points, problem.shape(), count.instances, device.arch());
}

Json kernel_finding_json(const KernelFinding& finding) {
    return {{"file", finding.place.file},
            {"line", finding.place.line},
            {"column", finding.place.column},
            {"warning", finding.is_warning},
            {"text", finding.text}};
}

// Adds the checks that need a compiler. A machine without NVRTC can make all others.
void add_compile_check(Session& session, kernel_files::Loaded& loaded, const Device& device) {
    try {
        for (KernelFinding& finding : compile_check(session, loaded.file, device)) loaded.findings.push_back(std::move(finding));
    } catch (const Error& error) {
        if (error.code() != ErrorCode::no_compiler) throw;
        session.warn(std::string(error.what()) + "; the file was checked without compiling it");
    }
}

ExitCode run_check(Session& session, const Arguments& arguments) {
    const std::vector<Device> devices = devices_of_archs(arguments, {"sm_90a", "sm_80"});
    const kernel_files::LoadOptions options = kernel_load_options(session.catalogue(), session.environment(), session.services());
    bool is_right = true;
    session.document().expect(arguments.words().size());
    for (const std::string& path : arguments.words()) {
        kernel_files::Loaded loaded = kernel_files::load(path, options);
        if (loaded.is_whole())
            for (KernelFinding& finding : kernel_files::check(loaded.file, devices))
                loaded.findings.push_back(std::move(finding));
        if (loaded.is_whole() && !arguments.has("no-compile")) add_compile_check(session, loaded, devices.front());
        const auto faults = std::count_if(loaded.findings.begin(), loaded.findings.end(),
                                          [](const KernelFinding& each) { return !each.is_warning; });
        is_right = is_right && faults == 0;
        const std::string told = faults == 0 ? kernel_summary(loaded.file, devices.front()) : "";
        if (session.json()) {
            Json findings = Json::array();
            for (const KernelFinding& finding : loaded.findings) findings.push_back(kernel_finding_json(finding));
            print_json(session, {{"file", path}, {"right", faults == 0}, {"findings", findings}});
            continue;
        }
        for (const KernelFinding& finding : loaded.findings) session.out() << finding.told() << "\n";
        if (faults == 0) {
            const std::size_t warnings = loaded.findings.size();
            const std::string verdict = warnings == 0   ? "nothing is wrong"
                                        : warnings == 1 ? "one warning, no errors"
                                                        : fmt::format("{} warnings, no errors", warnings);
            session.out() << fmt::format("{}: {}. {}\n", path, verdict, told);
        } else {
            session.out() << fmt::format("{}: {} to put right\n", path,
                                         faults == 1 ? "one thing" : fmt::format("{} things", faults));
        }
    }
    return is_right ? ExitCode::done : ExitCode::usage;
}

}  // namespace

Command check_command() {
    return {
        .name = "check",
        .about = "tell everything that is wrong with kernel files of your own, without a GPU",
        .examples = {"autotune check conv2d.toml", "autotune check --arch sm_80 conv2d.toml transpose.toml"},
        .flags = std::vector<Flag>{arch_flag(),
                                   {"no-compile", "", "do not compile: a tenth of a second instead of some seconds", false, {}}} +
                 output_flags(),
        .takes_op_options = false,
        .words = "FILE...",
        .min_positional = 1,
        .run = run_check};
}

}  // namespace autotune::cli
