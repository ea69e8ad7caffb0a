#include "tools/cli/shared/compile_check.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <thread>

#include "src/core/error.h"
#include "src/core/system/clock.h"
#include "src/core/text.h"
#include "src/jit/compiler.h"
#include "src/jit/cubin_kernels.h"
#include "src/jit/render.h"

namespace autotune::cli {
namespace {

using KernelFinding = kernel_files::Finding;
using kernel_files::KernelFile;
using ArgumentKind = StepDefinition::Argument::Kind;
using Kernels = std::map<std::string, jit::CubinKernel>;

constexpr std::size_t kPairsOfAParameter = 3;
constexpr unsigned kMostThreads = 8;

std::size_t argument_bytes(const OpDefinition& op, const StepDefinition::Argument& argument) {
    switch (argument.kind) {
        case ArgumentKind::i32:
        case ArgumentKind::u32:
        case ArgumentKind::f32:
            return 4;
        case ArgumentKind::boolean:
            return 1;
        case ArgumentKind::pick:
            return argument_bytes(op, argument.of.front());
        case ArgumentKind::scalar: {
            const auto found = std::find_if(op.scalars.begin(), op.scalars.end(),
                                            [&](const OpDefinition::Scalar& each) { return each.name == argument.value; });
            return found != op.scalars.end() && found->type == "u64" ? 8 : 4;
        }
        default:
            return 8;
    }
}

// The type of a computed argument as the file writes it. Empty for names.
std::string type_word(ArgumentKind kind) {
    for (const auto& [word, each] : kernel_files::computed_argument_types())
        if (each == kind) return word + ": ";
    return "";
}

// The compiler's first error: the place that it names, and its text.
struct CompilerError {
    std::string file;  // as the compiler names it; empty: the error has no place
    std::size_t line = 0;
    std::string text;
    bool operator==(const CompilerError&) const = default;
};

// "row_argmax.cu(11): error: identifier ..." in its parts.
CompilerError error_of_line(const std::string& line) {
    const std::size_t close = line.find("): "), open = line.rfind('(', close);
    if (close == std::string::npos || open == std::string::npos) return {"", 0, line};
    const std::string number = line.substr(open + 1, close - open - 1);
    if (number.empty() || number.size() > 9 || number.find_first_not_of("0123456789") != std::string::npos) return {"", 0, line};
    return {line.substr(0, open), std::stoul(number), line.substr(close + 3)};
}

// The largest number before " bytes smem" in the assembler's report, with the kernel that it stands under.
std::pair<std::size_t, std::string> most_shared_memory(const std::string& log) {
    std::pair<std::size_t, std::string> most;
    std::string kernel;
    for (const std::string& line : split(log, '\n')) {
        if (const std::size_t at = line.find("Compiling entry function '"); at != std::string::npos)
            kernel = line.substr(at + 26, line.find('\'', at + 26) - at - 26);
        const std::size_t at = line.find(" bytes smem");
        if (at == std::string::npos) continue;
        std::size_t first = at;
        while (first > 0 && line[first - 1] >= '0' && line[first - 1] <= '9') --first;
        const std::size_t bytes = first == at || at - first > 12 ? 0 : std::stoul(line.substr(first, at - first));
        if (bytes > most.first) most = {bytes, kernel};
    }
    return most;
}

// Advice for errors that code of the host causes.
std::string advice(const CompilerError& error) {
    const auto says = [&](const char* what) { return error.text.find(what) != std::string::npos; };
    if (error.file.find("/thrust/") != std::string::npos || error.file.find("/cub/") != std::string::npos)
        return ". NVRTC takes headers of device code alone, such as <cub/block/block_reduce.cuh>";
    if (says("runtime APIs are not declared") || (says("is undefined") && says("\"cuda")))
        return ". Put host code between `#ifndef __CUDACC_RTC__` and `#endif`";
    if (says("namespace \"std\" has no member")) return ". NVRTC has no standard library, and autotune brings a small part of it";
    return "";
}

class CompileCheck {
  public:
    CompileCheck(Session& session, const KernelFile& file, const Device& device)
        : session_(session), file_(file), device_(device), catalogue_(Catalogue::embedded()) {
        catalogue_.add(file.family);
        op_ = dynamic_cast<const DefinedOp*>(catalogue_.find_op(file.op().name));
        family_ = catalogue_.find_family(file.family.name);
        const OpDefinition::Example& example = file.op().examples.front();
        problem_ = op_->problem_of(example.extents, example.attributes);
        space_ = family_->space(problem_, device);
        target_ = {device.arch(), session.services().nvrtc(session.nvrtc_path(), 0).version};
    }

    std::vector<KernelFinding> run() {
        std::vector<Unit> units;
        units.push_back(unit_of(space_.default_config, ""));
        Unit reference;
        reference.rendered = jit::render_reference(catalogue_, *op_, problem_, target_);
        reference.told = "the reference";
        units.push_back(std::move(reference));
        // Without optimisation a config takes a tenth of a second, however much it unrolls.
        units.push_back(without_optimisation(unit_of(space_.default_config, "")));
        add_pairs(units, 0, true);
        compile(units, 0);
        if (add_failures(units)) return std::move(findings_);
        // Then one pair for each parameter that must be seen in optimised code, and more where the first ones are alike.
        for (std::size_t round = 0; round < kPairsOfAParameter; ++round) {
            const std::size_t known = units.size();
            add_pairs(units, round, false);
            compile(units, known);
        }
        check_shared_memory(units);
        check_sizes(units[0], file_.family.steps, "args");
        check_sizes(units[1], file_.op().reference, "args of the reference");
        check_sizes(units[1], file_.op().prepare, "args of the preparation");
        check_symbols(units);
        check_parameters(units);
        return std::move(findings_);
    }

  private:
    struct Unit {
        jit::Rendered rendered;
        std::string parameter;  // the parameter that differs from the default config
        std::string told;
        CompilerError failure;
        std::string log;
        bool is_optimised = true;
        bool was_compiled = false;
        bool has_failed = false;
        double milliseconds = 0;
        Kernels kernels;
        std::map<std::string, std::size_t> variables;
    };

    Unit unit_of(const Config& config, const std::string& parameter) {
        Unit unit;
        unit.rendered = jit::render(catalogue_, *family_, problem_, space_, config, target_);
        unit.parameter = parameter;
        unit.told = "config " + config.to_string();
        return unit;
    }

    static Unit without_optimisation(Unit unit) {
        std::vector<std::string>& options = unit.rendered.options;
        std::erase_if(options, [](const std::string& each) { return each.starts_with("-Xptxas=-O") || each == "-lineinfo"; });
        options.emplace_back("--device-debug");
        unit.is_optimised = false;
        return unit;
    }

    // Whether the optimised code of this parameter's configs is left uncompiled: the default config takes long, and without
    // optimisation the parameter has an effect.
    bool is_seen_without_optimisation(const std::vector<Unit>& units, const std::string& parameter) const {
        constexpr double kLong_ms = 700;
        return units.front().milliseconds > kLong_ms && has_effect(units, parameter, false);
    }

    // For each compile parameter the next config that differs from the default in it alone, the nearest values first. Parameters
    // that have shown an effect need no other.
    void add_pairs(std::vector<Unit>& units, std::size_t round, bool unoptimised) {
        for (const Parameter& parameter : space_.parameters) {
            if (parameter.kind != ParameterKind::compile || parameter.values.size() < 2) continue;
            if (!unoptimised && is_seen_without_optimisation(units, parameter.name)) continue;
            if (round > 0 && has_effect(units, parameter.name, true)) continue;
            std::vector<std::int64_t> values = parameter.values;
            const std::int64_t usual = space_.default_config[parameter.name];
            const auto position = [&](std::int64_t value) {
                return std::find(parameter.values.begin(), parameter.values.end(), value) - parameter.values.begin();
            };
            std::stable_sort(values.begin(), values.end(), [&](std::int64_t a, std::int64_t b) {
                return std::abs(position(a) - position(usual)) < std::abs(position(b) - position(usual));
            });
            std::size_t count = 0;
            for (const std::int64_t value : values) {
                Config other = space_.default_config;
                if (value == usual) continue;
                other.set(parameter.name, value);
                if (!space_.contains(other)) continue;
                if (count++ < round) continue;
                Unit unit = unit_of(other, parameter.name);
                units.push_back(unoptimised ? without_optimisation(std::move(unit)) : std::move(unit));
                break;
            }
        }
    }

    bool has_effect(const std::vector<Unit>& units, const std::string& parameter, bool is_optimised) const {
        const Unit& usual = units[is_optimised ? 0 : 2];
        if (!usual.was_compiled || usual.has_failed) return false;
        const std::string code = code_of_steps(usual);
        return std::any_of(units.begin(), units.end(), [&](const Unit& unit) {
            return unit.parameter == parameter && unit.is_optimised == is_optimised && unit.was_compiled && !unit.has_failed &&
                   code_of_steps(unit) != code;
        });
    }

    // Compiles units[first] and those after it in parallel. After 8 s it begins no other; check_parameters() names what was
    // left.
    void compile(std::vector<Unit>& units, std::size_t first) {
        constexpr double kMostSeconds = 8;
        std::atomic<std::size_t> next{first};
        std::size_t done = 0;
        std::mutex telling;
        const bool shows = session_.streams().err_is_terminal;
        const auto work = [&] {
            for (std::size_t i = next++; i < units.size(); i = next++) {
                if (i > 2 && units[i].is_optimised && seconds_since(begun_) > kMostSeconds) continue;
                const jit::Rendered& rendered = units[i].rendered;
                const gpu::Nvrtc::Output output = session_.services().compile(
                    session_.nvrtc_path(),
                    {rendered.source, rendered.symbol + ".cu", rendered.headers, rendered.options, rendered.kernel_names});
                units[i].was_compiled = true;
                units[i].has_failed = !output.ok;
                units[i].milliseconds = output.milliseconds;
                if (!output.ok) units[i].failure = failure_of(output.log);
                units[i].log = output.log;
                if (output.ok) units[i].kernels = jit::kernels_of_cubin(output.cubin);
                if (output.ok) units[i].variables = jit::variables_of_cubin(output.cubin);
                const std::lock_guard lock(telling);
                ++done;
                if (!shows) continue;
                session_.err() << "\r\x1b[K"
                               << "compiled " << done << " of " << units.size() - first << " configs, "
                               << static_cast<int>(seconds_since(begun_)) << " s" << std::flush;
            }
        };
        std::vector<std::thread> threads;
        const unsigned count = std::min(
            {std::max(std::thread::hardware_concurrency(), 1U), kMostThreads, static_cast<unsigned>(units.size() - first)});
        for (unsigned i = 1; i < count; ++i) threads.emplace_back(work);
        work();
        for (std::thread& thread : threads) thread.join();
        if (shows) session_.err() << "\r\x1b[K" << std::flush;
    }

    void add(const std::string& text, bool is_warning = false) { findings_.push_back({{file_.path}, text, is_warning}); }

    CompilerError failure_of(const std::string& log) const {
        for (const std::string& line : split(log, '\n'))
            if (line.find("error") != std::string::npos) return error_of_line(line);
        // The assembler refuses too much shared memory without a word.
        const auto [bytes, kernel] = most_shared_memory(log);
        if (bytes > static_cast<std::size_t>(device_.limits.smem_per_block_bytes))
            return {"", 0, shared_memory_told(kernel, bytes)};
        return {"", 0, log.substr(0, log.find('\n'))};
    }

    std::string shared_memory_told(const std::string& symbol, std::size_t bytes) const {
        return "kernel " + name_of(symbol) + " has " + std::to_string(bytes) + " bytes of shared memory, and a block of " +
               device_.arch() + " has " + std::to_string(device_.limits.smem_per_block_bytes);
    }

    // A kernel's name in the file.
    std::string name_of(const std::string& symbol) const {
        for (const auto* const steps : {&file_.family.steps, &file_.op().reference, &file_.op().prepare})
            for (const StepDefinition& step : *steps)
                if (step.action == StepDefinition::Action::launch && !step.entry.empty() && symbol.ends_with(step.entry))
                    return step.kernel;
        return file_.family.steps.front().kernel.empty() ? symbol : file_.family.steps.front().kernel;
    }

    // Failures of the default config and of the reference. One of a line that both have is told once.
    bool add_failures(const std::vector<Unit>& units) {
        bool is_any = false;
        for (std::size_t i = 0; i < 2; ++i) {
            if (!units[i].has_failed) continue;
            const CompilerError& error = units[i].failure;
            if (i == 1 && units[0].has_failed && units[0].failure == error) continue;
            is_any = true;
            KernelFinding finding{{file_.path},
                                  units[i].told + " does not compile for " + device_.arch() + ": " + error.text + advice(error)};
            const auto& files = file_.op().source.files;
            const bool is_users =
                std::any_of(files.begin(), files.end(), [&](const KernelText& each) { return each.name == error.file; });
            if (is_users) {
                finding.place = {(std::filesystem::path(file_.path).parent_path() / error.file).string(), error.line};
            } else if (!error.file.empty()) {
                finding.text += " (" + error.file + ":" + std::to_string(error.line) + ")";
            }
            findings_.push_back(std::move(finding));
        }
        return is_any;
    }

    // Static and dynamic shared memory of the default config's kernels together.
    void check_shared_memory(const std::vector<Unit>& units) {
        const LaunchPlan plan = family_->plan(problem_, space_.default_config, device_);
        for (const LaunchStep& step : plan.steps) {
            const std::string symbol = units[0].rendered.symbol + step.entry;
            const auto statically =
                static_cast<std::size_t>(std::max(jit::parse_report(units[0].log, symbol).static_smem_bytes, 0));
            const std::size_t bytes = statically + step.dynamic_smem_bytes;
            if (bytes > static_cast<std::size_t>(device_.limits.smem_per_block_bytes))
                add(shared_memory_told(symbol, bytes) + " (" + units[0].told + ")");
        }
    }

    void check_sizes(const Unit& unit, const std::vector<StepDefinition>& steps, const std::string& what) {
        for (const StepDefinition& step : steps) {
            if (step.action != StepDefinition::Action::launch) continue;
            const auto kernel = unit.kernels.find(unit.rendered.symbol + step.entry);
            if (kernel == unit.kernels.end() || kernel->second.parameter_bytes.empty()) continue;
            const std::vector<std::size_t>& sizes = kernel->second.parameter_bytes;
            if (sizes.size() != step.arguments.size()) {
                add("kernel " + step.kernel + " takes " + std::to_string(sizes.size()) + " arguments, and '" + what + "' has " +
                    std::to_string(step.arguments.size()));
                continue;
            }
            for (std::size_t i = 0; i < sizes.size(); ++i) {
                const std::size_t given = argument_bytes(file_.op(), step.arguments[i]);
                if (given == sizes[i]) continue;
                KernelFinding finding{{file_.path}, {}};
                finding.text = "argument " + std::to_string(i + 1) + " of kernel " + step.kernel + " has " +
                               std::to_string(sizes[i]) + " bytes, and '" + step.arguments[i].value + "' passes " +
                               std::to_string(given);
                if (const auto place = file_.expressions.find(type_word(step.arguments[i].kind) + step.arguments[i].value);
                    place != file_.expressions.end()) {
                    finding.place = place->second;
                    finding.place.length = step.arguments[i].value.size();
                    finding.line = file_.line(finding.place.line);
                }
                findings_.push_back(std::move(finding));
            }
        }
    }

    // The arrays that tensors are copied into. A config may do without one.
    void check_symbols(const std::vector<Unit>& units) {
        for (const SymbolWrite& write : symbol_writes(file_.op(), problem_)) {
            bool is_there = false;
            for (const Unit& unit : units) {
                const auto found = unit.variables.find(write.symbol);
                if (!unit.is_optimised || found == unit.variables.end()) continue;
                is_there = true;
                if (found->second >= write.bytes) continue;
                add("array " + write.symbol + " of the source has " + std::to_string(found->second) + " bytes in " + unit.told +
                    ", and its tensor has " + std::to_string(write.bytes));
                break;
            }
            const bool any_known =
                std::any_of(units.begin(), units.end(), [](const Unit& unit) { return !unit.variables.empty(); });
            if (!is_there && any_known)
                add("no kernel reads array " + write.symbol +
                    ", or its name in the compiled code is another: it must stand outside "
                    "of namespaces and not be static");
        }
    }

    // The code of the kernels that the steps launch.
    std::string code_of_steps(const Unit& unit) const {
        std::string code;
        for (const StepDefinition& step : file_.family.steps)
            if (const auto kernel = unit.kernels.find(unit.rendered.symbol + step.entry); kernel != unit.kernels.end())
                code += kernel->second.code;
        return code;
    }
    std::string code_of_reference(const Unit& unit) const {
        std::string code;
        for (const StepDefinition& step : file_.op().reference)
            if (const auto kernel = unit.kernels.find(step.kernel); kernel != unit.kernels.end()) code += kernel->second.code;
        return code;
    }

    bool is_unseen(const std::string& parameter) const {
        const std::vector<std::string>& unseen = file_.unseen_parameters;
        return std::find(unseen.begin(), unseen.end(), parameter) != unseen.end();
    }

    void check_parameters(const std::vector<Unit>& units) {
        const std::string code = code_of_steps(units.front()), reference = code_of_reference(units.front());
        if (code.empty()) return;
        std::vector<std::pair<std::string, std::size_t>> without_effect;
        std::vector<std::string> untried;
        std::size_t tried = 0;
        for (const Parameter& parameter : space_.parameters) {
            std::size_t pairs = 0, alike = 0, left_out = 0;
            bool changes_reference = false;
            for (const Unit& unit : units) {
                left_out += unit.parameter == parameter.name && unit.is_optimised && !unit.was_compiled ? 1 : 0;
                if (unit.parameter != parameter.name || !unit.is_optimised || !unit.was_compiled || unit.has_failed) continue;
                ++pairs;
                alike += code_of_steps(unit) == code ? 1 : 0;
                changes_reference = changes_reference || code_of_reference(unit) != reference;
            }
            if (changes_reference) add("the reference depends on parameter " + parameter.name + "; it must not");
            if (pairs == 0 && left_out > 0) untried.push_back(parameter.name);
            if (is_seen_without_optimisation(units, parameter.name)) ++tried;
            if (pairs == 0 || is_unseen(parameter.name)) continue;
            ++tried;
            if (alike == pairs) without_effect.emplace_back(parameter.name, pairs);
        }
        if (!untried.empty()) add("compiling takes long, so the effect of " + join(untried) + " was not tried", true);
        if (tried > 1 && without_effect.size() == tried) {
            add("no parameter reaches the kernels: their machine code is the same in all configs tried. Does " +
                file_.op().source.files.front().name + " give " + join(space_names()) + " values of its own?");
            return;
        }
        for (const auto& [parameter, pairs] : without_effect)
            add("parameter " + parameter + " changes nothing in the machine code in " +
                    (pairs == 1 ? "the only pair" : "any of the " + std::to_string(pairs) + " pairs") + " of configs tried",
                true);
    }
    std::vector<std::string> space_names() const {
        std::vector<std::string> names;
        for (const Parameter& parameter : space_.parameters)
            if (parameter.kind == ParameterKind::compile && !is_unseen(parameter.name)) names.push_back(parameter.name);
        return names;
    }

    const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    Session& session_;
    const KernelFile& file_;
    const Device& device_;
    Catalogue catalogue_;
    const DefinedOp* op_ = nullptr;
    const Family* family_ = nullptr;
    Problem problem_;
    SearchSpace space_;
    jit::Target target_;
    std::vector<KernelFinding> findings_;
};

}  // namespace

std::vector<KernelFinding> compile_check(Session& session, const KernelFile& file, const Device& device) {
    return CompileCheck(session, file, device).run();
}

}  // namespace autotune::cli
