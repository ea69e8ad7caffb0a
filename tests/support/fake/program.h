#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake/script.h"

namespace autotune::fake {

// The type of a kernel's parameter, from its declaration: how to read the bytes behind cuLaunchKernelEx's pointer.
enum class ParameterType { pointer, f32, f64, i32, i64, tensor_map };

struct ParameterFact {
    std::string name;
    ParameterType type = ParameterType::i32;
    bool is_const = false;  // a pointer through which nothing is written
};

struct KernelFact {
    std::string symbol;
    std::vector<ParameterFact> parameters;
    int index_of(std::string_view name) const;  // -1: no such parameter
};

// The facts that the scripted libraries know about a rendered source: its first block's constants and its kernels. The text is
// scanned, never compiled.
struct Program {
    std::string arch;    // "sm_90a"
    std::string symbol;  // the symbol of the main kernel, or of the first kernel if the text defines no AUTOTUNE_KERNEL
    Words constants;     // "block_m" -> "128", "in_type" -> "f16", "trans_a" -> "0"
    std::vector<KernelFact> kernels;
    std::map<std::string, std::size_t> variables;  // __constant__ and __device__ arrays and their bytes, of 4 an element
    int registers = 0;  // a plausible number, the same in the compiler's report and the driver's attribute
    int spill_bytes = 0;

    const KernelFact* find(const std::string& name) const;
    long integer(const std::string& name, long otherwise) const;
    std::string word(const std::string& name, const std::string& otherwise) const;
};

Program read_program(const std::string& source, const std::string& arch);

// A name such as a compiler gives an instance of a template: of "ns::gemm<128, float>" it has "gemm" behind its length.
std::string mangled(const std::string& expression);
// Whether the name is a kernel's, or that of an instance of it.
bool names_kernel(const std::string& name, const KernelFact& kernel);

// The simulated cubin: a line of magic, facts, and the source itself. It contains its own size, because cuLibraryLoadData gets
// none.
std::string encode_cubin(const std::string& source, const Program& program);
// nullopt if `bytes` is not one.
std::optional<Program> decode_cubin(const void* bytes);

}  // namespace autotune::fake
