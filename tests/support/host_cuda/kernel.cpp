#include "tests/support/host_cuda/kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <set>

#include "src/core/error.h"
#include "tests/support/host_cuda/scratch_folder.h"
#include "tests/support/host_cuda/translate.h"

namespace autotune::test::host_cuda {
namespace {

constexpr std::size_t kSharedBytes = 256 << 10;  // as in device/cuda.h
constexpr unsigned char kPoison = 0xFF;          // is NaN in every type, so that unwritten data shows
constexpr std::size_t kSharedMargin = 4096;      // follows the dynamic part, and is checked for writes

// Allows the processor's fused multiplications, if it has them, in place of calls of fmaf.
const char* processor_option() {
#ifdef __x86_64__
    if (__builtin_cpu_supports("fma") != 0) return " -mfma";
#endif
    return "";
}

// The kernels of a preprocessed text, which are C functions whose names begin with the symbol.
std::set<std::string> kernels_in(const std::string& text, const std::string& symbol) {
    std::set<std::string> names;
    const std::string linkage = "extern \"C\"";
    for (std::size_t at = text.find(linkage); at != std::string::npos; at = text.find(linkage, at + 1)) {
        const std::string declaration = text.substr(at, text.find('(', at) - at);
        const std::string name = declaration.substr(declaration.find_last_of(" \n*") + 1);
        if (name.starts_with(symbol)) names.insert(name);
    }
    return names;
}

// Names in the folder are always the same, so that a compiler cache recognises the text.
void build(const jit::Rendered& rendered, const ScratchFolder& folder) {
    for (const auto& [name, text] : rendered.headers) folder.write(name, text);
    folder.write("kernel.cu", "#include \"cuda.h\"\n" + rendered.source);
    const std::string arch = rendered.arch == kLaterArch ? "900" : "800";
    folder.run(HOST_CUDA_COMPILER " -E -P -x c++ -std=c++17 -D__CUDACC__ -D__CUDA_ARCH__=" + arch +
               " -I. -I'" HOST_CUDA_DEVICE_FOLDER "' kernel.cu -o kernel.ii");
    const std::string text = folder.read("kernel.ii");
    std::string source = translated(text);
    for (const std::string& name : kernels_in(text, rendered.symbol)) {
        source += "extern \"C\" int " + name + "_count() { return decltype(host_cuda::call(" + name + "))::count; }\n";
        source += "extern \"C\" void " + name + "_call(unsigned long long* words) { host_cuda::call(" + name + ")(words); }\n";
    }
    folder.write("kernel.cpp", source);
    // The options compile quickly, because compiling takes more than half of a test's time. Aliasing is as in nvcc, unaligned
    // accesses trap, and uninitialised variables hold large numbers. There are no warnings, because the text is written for
    // another compiler.
    folder.run(std::string(HOST_CUDA_LAUNCHER " " HOST_CUDA_COMPILER " -c -std=c++17 -Og -fPIC -w -fno-strict-aliasing") +
               " -ffp-contract=off -fsanitize=alignment -fsanitize-undefined-trap-on-error -ftrivial-auto-var-init=pattern" +
               processor_option() + " kernel.cpp -o kernel.o");
    folder.run(HOST_CUDA_COMPILER " -shared kernel.o -lm -o kernel.so");
}

}  // namespace

HostKernel::HostKernel(const jit::Rendered& rendered) : symbol_(rendered.symbol) {
    const ScratchFolder folder;
    build(rendered, folder);
    library_ = ::dlopen(folder.file("kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    check(library_ != nullptr, "a kernel's library cannot be loaded: " + std::string(library_ == nullptr ? ::dlerror() : ""));
}

HostKernel::~HostKernel() {
    if (library_ != nullptr) ::dlclose(library_);
}

void* HostKernel::find(const std::string& name) const {
    void* const found = ::dlsym(library_, name.c_str());
    check(found != nullptr, "a kernel's library has no " + name);
    return found;
}

void HostKernel::poison_shared(const LaunchStep& step) const {
    auto* const shared = static_cast<unsigned char*>(find("host_cuda_shared"));
    std::fill_n(shared, std::min(step.dynamic_smem_bytes + kSharedMargin, kSharedBytes), kPoison);
    const auto place = [&](const char* name) { return reinterpret_cast<unsigned char* (*)()>(find(name))(); };
    std::fill(place("host_cuda_static_begin"), place("host_cuda_static_end"), kPoison);
}

void HostKernel::launch(const LaunchStep& step, std::vector<u64> words, Schedule schedule) {
    const std::string name = symbol_ + step.entry;
    const int count = reinterpret_cast<int (*)()>(find(name + "_count"))();
    if (static_cast<int>(words.size()) != count)
        throw KernelFault("the plan gives " + std::to_string(words.size()) + " words of parameters to a kernel of " +
                          std::to_string(count));
    const auto call = reinterpret_cast<void (*)(u64*)>(find(name + "_call"));
    auto* const shared = static_cast<unsigned char*>(find("host_cuda_shared"));
    *static_cast<::host_cuda::Machine**>(find("host_cuda_machine")) = &machine_;
    machine_.block_extent = {step.block.x, step.block.y, step.block.z};
    machine_.grid_extent = {step.grid.x, step.grid.y, step.grid.z};
    for (u32 number = 0; number < step.grid.x * step.grid.y * step.grid.z; ++number) {
        machine_.block = {number % step.grid.x, number / step.grid.x % step.grid.y, number / step.grid.x / step.grid.y};
        poison_shared(step);
        try {
            machine_.run(schedule, shared, [&] { call(words.data()); });
        } catch (const KernelFault& fault) {
            throw KernelFault("block " + std::to_string(number) + " of " + name + ": " + fault.what(), fault.address);
        }
        const unsigned char* const end = shared + std::min(step.dynamic_smem_bytes + kSharedMargin, kSharedBytes);
        if (std::any_of<const unsigned char*>(shared + step.dynamic_smem_bytes, end,
                                              [](unsigned char each) { return each != kPoison; }))
            throw KernelFault("block " + std::to_string(number) + " of " + name + " writes behind its dynamic shared memory");
    }
}

}  // namespace autotune::test::host_cuda
