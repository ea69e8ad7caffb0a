// A libnvrtc.so.13 that compiles nothing: its "cubin" is the source itself, which the scripted driver reads.
#include <nvrtc.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "tests/support/fake/call_log.h"
#include "tests/support/fake/program.h"
#include "tests/support/fake/script.h"

struct _nvrtcProgram {
    std::string source;
    std::string name;
    std::string log;
    std::string cubin;
    std::map<std::string, std::string> lowered;  // of each name expression
};

// The preloaded interposer (tests/support/interposer) defines this function, if the interposer is loaded.
extern "C" [[gnu::weak]] void autotune_interposer_inside_driver(int change);

namespace autotune::fake {
namespace {

// During its lifetime, the actions of this library do not count as the caller's.
class Inside {
  public:
    Inside() { tell(1); }
    ~Inside() { tell(-1); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

  private:
    static void tell(int change) {
        if (autotune_interposer_inside_driver != nullptr) autotune_interposer_inside_driver(change);
    }
};

std::string arch_of(int count, const char* const* options) {
    for (int i = 0; i < count; ++i) {
        const std::string option = options[i];
        const std::size_t at = option.find("sm_");
        if (option.find("arch") != std::string::npos && at != std::string::npos) return option.substr(at);
    }
    return "";
}

// The report in the words of ptxas -v.
std::string report(const Program& program) {
    std::string text;
    for (const KernelFact& kernel : program.kernels) {
        const bool is_main = kernel.symbol == program.symbol;
        const std::string spill = std::to_string(is_main ? program.spill_bytes : 0);
        text += "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function '" + kernel.symbol + "' for '" +
                program.arch + "'\nptxas info    : Function properties for " + kernel.symbol + "\n    " + spill +
                " bytes stack frame, " + spill + " bytes spill stores, " + spill + " bytes spill loads\nptxas info    : Used " +
                std::to_string(is_main ? program.registers : 24) + " registers, used 1 barriers, 620 bytes cmem[0]\n";
    }
    return text;
}

// False: the compilation fails.
bool follow(const Rule& rule, Program& program, std::string& log) {
    if (rule.action == "crash") crash(rule.word("how", "segv"));
    if (rule.action == "hang") sleep_s(rule.number("seconds", 60));
    if (rule.action == "report") {
        program.registers = static_cast<int>(rule.number("registers", program.registers));
        program.spill_bytes = static_cast<int>(rule.number("spill", program.spill_bytes));
    }
    if (rule.action == "log") {
        const std::string line = "note: this log has no end\n";
        const auto bytes = static_cast<std::size_t>(rule.number("bytes", 1e6));
        while (log.size() < bytes) log += line;
    }
    if (rule.action != "fail") return true;
    log +=
        program.symbol + ".cu(1): error: " + rule.word("message", "the script refuses this source") + "\n\n1 error detected.\n";
    return false;
}

bool includes(const std::string& source, const std::string& name) {
    return source.find("#include \"" + name + "\"") != std::string::npos;
}

// Appends headers that define kernels to the source that includes them, so that the driver finds these kernels.
std::string with_kernels_of_headers(std::string source, int count, const char* const* texts, const char* const* names) {
    std::string found;
    for (int i = 0; i < count; ++i) {
        const std::string text = texts[i];
        if (text.find("__global__") != std::string::npos && includes(source, names[i])) found += "\n" + text;
    }
    return std::move(source) + found;
}

nvrtcResult compile(_nvrtcProgram& unit, const std::string& arch) {
    Program program = read_program(unit.source, arch);
    log_call("nvrtcCompileProgram " + (program.symbol.empty() ? unit.name : program.symbol) + " " + arch);
    sleep_s(Script::get().number("nvrtc", "delay_ms", 0) / 1e3);
    if (arch.empty()) {
        unit.log = "nvrtc: error: no -arch=sm_... among the options\n";
        return NVRTC_ERROR_INVALID_OPTION;
    }
    if (program.kernels.empty()) {
        unit.log = unit.name + "(1): error: the fake finds no __global__ function in this source\n\n1 error detected.\n";
        return NVRTC_ERROR_COMPILATION;
    }
    if (const Rule* rule = Script::get().fire({"compile", program.symbol, &program.constants}); rule != nullptr) {
        if (!follow(*rule, program, unit.log)) return NVRTC_ERROR_COMPILATION;
    }
    unit.log += report(program);
    unit.cubin = encode_cubin(unit.source, program);
    return NVRTC_SUCCESS;
}

}  // namespace
}  // namespace autotune::fake

extern "C" {

[[gnu::visibility("default")]] nvrtcResult nvrtcVersion(int* major, int* minor) {
    const autotune::fake::Inside inside;
    const std::string version = autotune::fake::Script::get().word("nvrtc", "version", "13.0");
    *major = std::atoi(version.c_str());
    const std::size_t dot = version.find('.');
    *minor = dot == std::string::npos ? 0 : std::atoi(version.c_str() + dot + 1);
    return NVRTC_SUCCESS;
}

[[gnu::visibility("default")]] const char* nvrtcGetErrorString(nvrtcResult result) {
    switch (result) {
        case NVRTC_SUCCESS:
            return "NVRTC_SUCCESS";
        case NVRTC_ERROR_COMPILATION:
            return "NVRTC_ERROR_COMPILATION";
        case NVRTC_ERROR_INVALID_OPTION:
            return "NVRTC_ERROR_INVALID_OPTION";
        default:
            return "NVRTC_ERROR_INTERNAL_ERROR";
    }
}

[[gnu::visibility("default")]] nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                                                              int header_count, const char* const* header_texts,
                                                              const char* const* header_names) {
    const autotune::fake::Inside inside;
    *program = new _nvrtcProgram{autotune::fake::with_kernels_of_headers(source, header_count, header_texts, header_names),
                                 name != nullptr ? name : "default_program",
                                 "",
                                 "",
                                 {}};
    return NVRTC_SUCCESS;
}

[[gnu::visibility("default")]] nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
    delete *program;
    *program = nullptr;
    return NVRTC_SUCCESS;
}

[[gnu::visibility("default")]] nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* expression) {
    program->lowered[expression] = autotune::fake::mangled(expression);
    return NVRTC_SUCCESS;
}

[[gnu::visibility("default")]] nvrtcResult nvrtcGetLoweredName(nvrtcProgram program, const char* expression,
                                                               const char** lowered) {
    const auto found = program->lowered.find(expression);
    if (found == program->lowered.end() || program->cubin.empty()) return NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
    *lowered = found->second.c_str();
    return NVRTC_SUCCESS;
}

[[gnu::visibility("default")]] nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
    const autotune::fake::Inside inside;
    return autotune::fake::compile(*program, autotune::fake::arch_of(count, options));
}

[[gnu::visibility("default")]] nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) {
    *bytes = program->log.size() + 1;
    return NVRTC_SUCCESS;
}

[[gnu::visibility("default")]] nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log) {
    std::memcpy(log, program->log.c_str(), program->log.size() + 1);
    return NVRTC_SUCCESS;
}

[[gnu::visibility("default")]] nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
    *bytes = program->cubin.size();
    return NVRTC_SUCCESS;
}

[[gnu::visibility("default")]] nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin) {
    std::memcpy(cubin, program->cubin.data(), program->cubin.size());
    return NVRTC_SUCCESS;
}

}  // extern "C"
