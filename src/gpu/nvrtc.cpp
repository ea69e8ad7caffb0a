#include "src/gpu/nvrtc.h"

#include <nvrtc.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <new>
#include <optional>

#include "src/core/error.h"
#include "src/gpu/kernel_names.h"
#include "src/gpu/shared_library.h"

namespace autotune::gpu {

struct Nvrtc::Api {
    std::string path;
    int major = 0;
    int minor = 0;
    decltype(&nvrtcVersion) version = nullptr;
    decltype(&nvrtcGetErrorString) error_string = nullptr;
    decltype(&nvrtcCreateProgram) create = nullptr;
    decltype(&nvrtcDestroyProgram) destroy = nullptr;
    decltype(&nvrtcCompileProgram) compile = nullptr;
    decltype(&nvrtcGetProgramLogSize) log_size = nullptr;
    decltype(&nvrtcGetProgramLog) log = nullptr;
    decltype(&nvrtcGetCUBINSize) cubin_size = nullptr;
    decltype(&nvrtcGetCUBIN) cubin = nullptr;
    decltype(&nvrtcAddNameExpression) add_name = nullptr;
    decltype(&nvrtcGetLoweredName) lowered_name = nullptr;

    // Why this library cannot be used; empty if it can.
    std::string bind(const SharedLibrary& library) {
        const bool complete = library.find("nvrtcVersion", version) && library.find("nvrtcGetErrorString", error_string) &&
                              library.find("nvrtcCreateProgram", create) && library.find("nvrtcDestroyProgram", destroy) &&
                              library.find("nvrtcCompileProgram", compile) && library.find("nvrtcGetProgramLogSize", log_size) &&
                              library.find("nvrtcGetProgramLog", log) && library.find("nvrtcGetCUBINSize", cubin_size) &&
                              library.find("nvrtcGetCUBIN", cubin) && library.find("nvrtcAddNameExpression", add_name) &&
                              library.find("nvrtcGetLoweredName", lowered_name);
        path = library.path();
        if (!complete) return "is not an NVRTC that makes cubins";
        if (version(&major, &minor) != NVRTC_SUCCESS) return "does not tell its version";
        return {};
    }
};

namespace {

constexpr std::array kMajors{13, 12};

// The pip package that has NVRTC for a driver of this major version (0: any driver).
std::string package_for(int driver_major) {
    return driver_major == 0 || driver_major >= 13 ? "nvidia-cuda-nvrtc" : "nvidia-cuda-nvrtc-cu" + std::to_string(driver_major);
}

std::string file_name(int major) {
    return "libnvrtc.so." + std::to_string(major);
}

// The names to try for one major version, in this order: the loader's own search, then the files that exist.
std::vector<std::string> candidates(int major, const std::vector<std::string>& folders) {
    std::vector<std::string> names{file_name(major)};
    std::error_code ignored;
    for (const std::string& folder : folders) {
        const std::string name = folder + "/" + file_name(major);
        if (std::filesystem::exists(name, ignored)) names.push_back(name);
    }
    return names;
}

// Opens the builtins library next to `library` (or next to the file that it links to), so that NVRTC's own dlopen of that name
// finds it loaded. Returns why that failed; empty if it succeeded, or if there is none, because the loader may know others.
std::string open_builtins(const std::string& library, const std::string& version) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    for (const fs::path& file : {fs::path(library), fs::canonical(library, ignored)}) {
        const fs::path builtins = file.parent_path() / ("libnvrtc-builtins.so." + version);
        if (!fs::exists(builtins, ignored)) continue;
        std::string why;
        return SharedLibrary::open(builtins.string(), &why) ? "" : "its builtins cannot be opened: " + why;
    }
    return {};
}

// An NVRTC that works but is newer than this driver.
struct TooNew {
    std::string version, path;
    int major = 0;
};

// Advice for the user, as text: which driver and which package fit together.
std::string remedy(int driver_major, int found_major) {
    const std::string driver = found_major == 13 ? "a driver of release 580 or newer, which supports CUDA 13"
                                                 : "a driver that supports CUDA " + std::to_string(found_major);
    return "install NVRTC " + std::to_string(driver_major) + " with `pip install " + package_for(driver_major) + "`, or " +
           driver;
}

std::string refusal(const TooNew& found, int driver_major) {
    return "NVRTC " + found.version + " (" + found.path + ") was found, but the driver supports CUDA " +
           std::to_string(driver_major) + " and cannot load kernels of a newer compiler: " + remedy(driver_major, found.major);
}

// An nvrtcProgram that destroys itself.
class Program {
  public:
    Program(nvrtcProgram raw, decltype(&nvrtcDestroyProgram) destroy) : raw_(raw), destroy_(destroy) {}
    ~Program() { destroy_(&raw_); }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    nvrtcProgram get() const { return raw_; }

  private:
    nvrtcProgram raw_;
    decltype(&nvrtcDestroyProgram) destroy_;
};

// ptxas reports a lack of memory as a program that it cannot compile.
bool speaks_of_memory(const std::string& log) {
    return log.find("emory allocation failure") != std::string::npos || log.find("out of memory") != std::string::npos;
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
    std::vector<const char*> out;
    out.reserve(texts.size());
    for (const std::string& text : texts) out.push_back(text.c_str());
    return out;
}

}  // namespace

Nvrtc::Nvrtc() : api_(std::make_unique<Api>()) {}
Nvrtc::~Nvrtc() = default;

std::shared_ptr<const Nvrtc> Nvrtc::load(const Search& search) {
    std::shared_ptr<Nvrtc> nvrtc(new Nvrtc);
    std::string looked_for;
    std::optional<TooNew> too_new;
    const auto try_one = [&](const std::string& name) {
        std::string why;
        const auto library = SharedLibrary::open(name, &why);
        if (library) why = nvrtc->api_->bind(*library);
        if (why.empty() && search.driver_major > 0 && nvrtc->api_->major > search.driver_major) {
            if (!too_new) too_new = TooNew{nvrtc->version(), nvrtc->path(), nvrtc->api_->major};
            why = "is NVRTC " + nvrtc->version() + ", newer than the driver (CUDA " + std::to_string(search.driver_major) + ")";
        }
        if (why.empty()) why = open_builtins(nvrtc->path(), nvrtc->version());
        looked_for += "\n  " + name + ": " + why;
        return why.empty();
    };

    if (!search.explicit_path.empty()) {
        if (try_one(search.explicit_path)) return nvrtc;
        if (too_new) throw Error(ErrorCode::no_compiler, "AUTOTUNE_NVRTC: " + refusal(*too_new, search.driver_major));
        throw Error(
            ErrorCode::no_compiler,
            "the NVRTC that was named (AUTOTUNE_NVRTC) cannot be used; name another, or none to have one searched:" + looked_for);
    }
    // Opens the libraries that the driver can use first, newest first. The others are opened only for the error message, which
    // says what was found and why it does not fit.
    for (const bool is_usable : {true, false}) {
        for (const int major : kMajors) {
            if ((search.driver_major == 0 || major <= search.driver_major) != is_usable) continue;
            for (const std::string& name : candidates(major, search.folders)) {
                if (try_one(name)) return nvrtc;
            }
        }
    }
    if (too_new) throw Error(ErrorCode::no_compiler, refusal(*too_new, search.driver_major) + "; looked for:" + looked_for);
    throw Error(ErrorCode::no_compiler, "no NVRTC, the compiler that kernels need: install the CUDA toolkit or the pip package " +
                                            package_for(search.driver_major) +
                                            " (found in an active virtual environment and for the python3 on PATH), or name a "
                                            "libnvrtc.so in AUTOTUNE_NVRTC; looked for:" +
                                            looked_for);
}

std::string Nvrtc::version() const {
    return std::to_string(api_->major) + "." + std::to_string(api_->minor);
}

std::string Nvrtc::path() const {
    return api_->path;
}

bool Nvrtc::has_own_cache() const {
    return api_->major > 12 || (api_->major == 12 && api_->minor >= 9);
}

Nvrtc::Output Nvrtc::compile(const Source& source) const {
    const auto start = std::chrono::steady_clock::now();
    std::vector<const char*> header_texts;
    std::vector<const char*> header_names;
    for (const auto& [name, text] : source.headers) {
        header_names.push_back(name.c_str());
        header_texts.push_back(text.c_str());
    }
    Output output;
    nvrtcProgram raw = nullptr;
    nvrtcResult result = api_->create(&raw, source.text.c_str(), source.name.c_str(), static_cast<int>(header_names.size()),
                                      header_texts.data(), header_names.data());
    if (result == NVRTC_ERROR_OUT_OF_MEMORY) throw std::bad_alloc();
    if (result != NVRTC_SUCCESS) {
        output.log = std::string("NVRTC refused the program: ") + api_->error_string(result);
        return output;
    }
    const Program program(raw, api_->destroy);
    for (const auto& [name, expression] : source.kernel_names) {
        result = api_->add_name(program.get(), expression.c_str());
        if (result == NVRTC_SUCCESS) continue;
        output.log = "NVRTC refused the name '" + expression + "': " + api_->error_string(result);
        return output;
    }
    const std::vector<const char*> options = pointers(source.options);
    result = api_->compile(program.get(), static_cast<int>(options.size()), options.data());
    if (result == NVRTC_ERROR_OUT_OF_MEMORY) throw std::bad_alloc();

    std::size_t log_bytes = 0;
    if (api_->log_size(program.get(), &log_bytes) == NVRTC_SUCCESS && log_bytes > 1) {
        output.log.resize(log_bytes);
        if (api_->log(program.get(), output.log.data()) != NVRTC_SUCCESS) output.log.clear();
        output.log.resize(output.log.find('\0') == std::string::npos ? output.log.size() : output.log.find('\0'));
    }
    std::size_t cubin_bytes = 0;
    if (result == NVRTC_SUCCESS && api_->cubin_size(program.get(), &cubin_bytes) == NVRTC_SUCCESS && cubin_bytes > 0) {
        output.cubin.resize(cubin_bytes);
        output.ok = api_->cubin(program.get(), reinterpret_cast<char*>(output.cubin.data())) == NVRTC_SUCCESS;
    }
    std::vector<std::pair<std::string, std::string>> names;
    for (const auto& [name, expression] : source.kernel_names) {
        const char* lowered = nullptr;
        if (!output.ok || api_->lowered_name(program.get(), expression.c_str(), &lowered) != NVRTC_SUCCESS) continue;
        names.emplace_back(name, lowered);
        replace_all(output.log, lowered, name);  // the report tells kernels apart by the names by which they are loaded
    }
    if (output.ok && names.size() < source.kernel_names.size()) {
        output.ok = false;
        output.log += "\nerror: NVRTC does not say what the kernels are named in its code";
    }
    output.cubin = with_kernel_names(std::move(output.cubin), names);
    if (!output.ok && output.log.empty()) output.log = api_->error_string(result);
    output.is_verdict = output.ok || (result == NVRTC_ERROR_COMPILATION && !speaks_of_memory(output.log));
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
    output.milliseconds = spent.count();
    return output;
}

}  // namespace autotune::gpu
