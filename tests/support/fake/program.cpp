#include "tests/support/fake/program.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

namespace autotune::fake {
namespace {

constexpr std::string_view kMagic = "AUTOTUNE FAKE CUBIN 1\n";
constexpr std::string_view kUsersSource = "#include \"autotune_prelude.h\"";
constexpr std::string_view kEndOfParameters = "// ---- end of parameters ----";

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string without_comments(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.compare(i, 2, "//") == 0) {
            i = std::min(text.find('\n', i), text.size());
            out += '\n';
        } else if (text.compare(i, 2, "/*") == 0) {
            const std::size_t end = text.find("*/", i + 2);
            i = end == std::string::npos ? text.size() : end + 1;
        } else {
            out += text[i];
        }
    }
    return out;
}

// Splits a text into words and single punctuation marks.
std::vector<std::string> lex(const std::string& text) {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < text.size();) {
        if (std::isspace(static_cast<unsigned char>(text[i])) != 0) {
            ++i;
        } else if (is_word(text[i])) {
            std::size_t end = i;
            while (end < text.size() && is_word(text[end])) ++end;
            out.push_back(text.substr(i, end - i));
            i = end;
        } else {
            out.emplace_back(1, text[i++]);
        }
    }
    return out;
}

// Reads `#define NAME VALUE` above the end of the parameters, which is how a user's source gets them.
Words read_macros(const std::vector<std::string>& words) {
    Words macros;
    for (std::size_t i = 1; i + 2 < words.size(); ++i) {
        if (words[i - 1] == "#" && words[i] == "define") macros[words[i + 1]] = words[i + 2];
    }
    return macros;
}

// Reads `NAME = VALUE` of constexpr lines, and `using In = f16` as in_type.
Words read_constants(const std::vector<std::string>& words) {
    Words constants;
    for (std::size_t i = 1; i + 1 < words.size(); ++i) {
        if (words[i] != "=" || words[i - 1].empty() || !is_word(words[i - 1][0])) continue;
        std::string name = words[i - 1];
        const std::string& value = words[i + 1] == "-" && i + 2 < words.size() ? words[i + 2] : words[i + 1];
        if (i >= 2 && words[i - 2] == "using") {
            std::transform(name.begin(), name.end(), name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            name += "_type";
        }
        constants[name] = value == "true" ? "1" : value == "false" ? "0" : value;
    }
    return constants;
}

// The position after the bracket that closes the one at `open`.
std::size_t after_closing(const std::vector<std::string>& words, std::size_t open) {
    int depth = 0;
    for (std::size_t i = open; i < words.size(); ++i) {
        if (words[i] == "(") ++depth;
        if (words[i] == ")" && --depth == 0) return i + 1;
    }
    return words.size();
}

ParameterFact read_parameter(const std::vector<std::string>& words) {
    ParameterFact fact;
    fact.name = words.back();
    const auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
    fact.is_const = has("*") && std::find(words.begin(), std::find(words.begin(), words.end(), "*"), "const") !=
                                    std::find(words.begin(), words.end(), "*");
    if (has("*"))
        fact.type = ParameterType::pointer;
    else if (has("TensorMap") || has("CUtensorMap") || has("__grid_constant__"))
        fact.type = ParameterType::tensor_map;
    else if (has("float") || has("f32"))
        fact.type = ParameterType::f32;
    else if (has("double") || has("f64"))
        fact.type = ParameterType::f64;
    else if (has("long") || has("i64") || has("u64") || has("int64_t") || has("uint64_t") || has("size_t"))
        fact.type = ParameterType::i64;
    else
        fact.type = ParameterType::i32;
    return fact;
}

std::vector<ParameterFact> read_parameters(const std::vector<std::string>& words, std::size_t begin, std::size_t end) {
    std::vector<ParameterFact> parameters;
    std::vector<std::string> one;
    int angle = 0;
    for (std::size_t i = begin; i < end; ++i) {
        if (words[i] == "<") ++angle;
        if (words[i] == ">") --angle;
        if (words[i] == "," && angle == 0) {
            if (!one.empty()) parameters.push_back(read_parameter(one));
            one.clear();
        } else {
            one.push_back(words[i]);
        }
    }
    if (!one.empty()) parameters.push_back(read_parameter(one));
    return parameters;
}

// The name at words[at]: a literal, AUTOTUNE_KERNEL, or AUTOTUNE_ENTRY(suffix); `at` moves to the bracket of the parameter list.
std::string read_name(const std::vector<std::string>& words, const std::string& symbol, std::size_t& at) {
    const std::string word = words[at];
    if (word == "AUTOTUNE_KERNEL") return ++at, symbol;
    if (word != "AUTOTUNE_ENTRY") return ++at, word;
    const std::size_t end = after_closing(words, at + 1);
    const std::string suffix = end >= at + 4 ? words[at + 2] : "";
    at = end;
    return symbol + suffix;
}

// A macro may give a kernel another name.
std::vector<KernelFact> read_kernels(const std::vector<std::string>& words, const std::string& symbol, const Words& macros) {
    std::vector<KernelFact> kernels;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] != "__global__") continue;
        while (i < words.size() && words[i] != "void") i = words[i] == "(" ? after_closing(words, i) : i + 1;
        ++i;
        while (i + 1 < words.size() && words[i].rfind("__", 0) == 0)
            i = words[i + 1] == "(" ? after_closing(words, i + 1) : i + 1;
        if (i + 1 >= words.size()) break;
        KernelFact kernel;
        kernel.symbol = read_name(words, symbol, i);
        if (const auto macro = macros.find(kernel.symbol); macro != macros.end()) kernel.symbol = macro->second;
        const std::size_t end = after_closing(words, i);
        if (end > i + 1) kernel.parameters = read_parameters(words, i + 1, end - 1);
        kernels.push_back(std::move(kernel));
        i = end - 1;
    }
    return kernels;
}

// Arrays in constant and global memory. A size that is no plain number is taken for a large one.
std::map<std::string, std::size_t> read_variables(const std::vector<std::string>& words) {
    constexpr std::size_t kLarge = std::size_t{1} << 20, kElement = 4;
    std::map<std::string, std::size_t> variables;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (words[i] != "__constant__" && words[i] != "__device__") continue;
        std::size_t at = i + 1;
        while (at < words.size() && at < i + 6 && words[at] != "[" && words[at] != "(" && words[at] != ";") ++at;
        if (at >= words.size() || words[at] != "[") continue;
        const std::string& size = at + 2 < words.size() && words[at + 2] == "]" ? words[at + 1] : "";
        const bool is_number = !size.empty() && size.find_first_not_of("0123456789") == std::string::npos;
        variables[words[at - 1]] = is_number ? std::stoul(size) * kElement : kLarge;
    }
    return variables;
}

// Registers for the accumulators and fragments of a tiled kernel. Larger tiles per thread need more registers, and the largest
// spill.
int plausible_registers(const Program& program) {
    const long threads = 32 * program.integer("warps_m", 1) * program.integer("warps_n", 1);
    const long groups = program.integer("consumer_warpgroups", 0);
    const long workers = groups > 0 ? groups * 128 : threads;
    const long tile = program.integer("block_m", 0) * program.integer("block_n", 0);
    if (tile == 0 || workers == 0) return 40;
    return static_cast<int>(48 + tile / workers + 8 * program.integer("reg_buffers", 1));
}

// Registers for a kernel whose block's size the compiler knows. A thread may have as many as in a block with a producer
// warpgroup.
int registers_for_its_block(const Program& program) {
    const long groups = program.integer("consumer_warpgroups", 0);
    return groups > 0 ? static_cast<int>(65536 / (128 * (groups + 1)) / 8 * 8) : 255;
}

}  // namespace

int KernelFact::index_of(std::string_view name) const {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        if (parameters[i].name == name) return static_cast<int>(i);
    }
    return -1;
}

const KernelFact* Program::find(const std::string& name) const {
    for (const KernelFact& kernel : kernels) {
        if (kernel.symbol == name) return &kernel;
    }
    return nullptr;
}

long Program::integer(const std::string& name, long otherwise) const {
    const auto found = constants.find(name);
    return found == constants.end() ? otherwise : std::atol(found->second.c_str());
}

std::string Program::word(const std::string& name, const std::string& otherwise) const {
    const auto found = constants.find(name);
    return found == constants.end() ? otherwise : found->second;
}

std::string mangled(const std::string& expression) {
    std::string base = expression.substr(0, expression.find('<'));
    std::string arguments = expression.substr(base.size());
    if (const std::size_t colon = base.rfind(':'); colon != std::string::npos) base = base.substr(colon + 1);
    std::replace_if(
        arguments.begin(), arguments.end(), [](char c) { return !is_word(c); }, '_');
    return "_Z" + std::to_string(base.size()) + base + "I" + arguments;
}

bool names_kernel(const std::string& name, const KernelFact& kernel) {
    return name == kernel.symbol || name.starts_with("_Z" + std::to_string(kernel.symbol.size()) + kernel.symbol + "I");
}

Program read_program(const std::string& source, const std::string& arch) {
    constexpr int kMostRegisters = 255;
    Program program;
    program.arch = arch;
    const std::size_t end = source.find(kEndOfParameters);
    const std::vector<std::string> first_block = lex(without_comments(source.substr(0, end == std::string::npos ? 0 : end)));
    program.constants = read_constants(first_block);
    Words macros;
    if (source.starts_with(kUsersSource)) {
        macros = read_macros(first_block);
        for (const auto& [name, value] : macros)
            if (value.find("user_") != 0) program.constants[name] = value;
    }
    const std::vector<std::string> words = lex(without_comments(source));
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
        if (words[i] == "define" && words[i + 1] == "AUTOTUNE_KERNEL") program.symbol = words[i + 2];
    }
    program.kernels = read_kernels(words, program.symbol, macros);
    program.variables = read_variables(words);
    for (const KernelFact& kernel : program.kernels)
        if (program.symbol.empty() && kernel.symbol.rfind("user_", 0) == 0) program.symbol = kernel.symbol;
    if (program.symbol.empty() && !program.kernels.empty()) program.symbol = program.kernels.front().symbol;
    const int wanted = plausible_registers(program);
    program.registers = std::min({wanted, kMostRegisters, registers_for_its_block(program)});
    program.spill_bytes = std::max(0, wanted - kMostRegisters) * 4;
    return program;
}

std::string encode_cubin(const std::string& source, const Program& program) {
    return std::string(kMagic) + program.arch + " " + std::to_string(program.registers) + " " +
           std::to_string(program.spill_bytes) + " " + std::to_string(source.size()) + "\n" + source;
}

std::optional<Program> decode_cubin(const void* bytes) {
    const char* text = static_cast<const char*>(bytes);
    if (std::strncmp(text, kMagic.data(), kMagic.size()) != 0) return std::nullopt;
    text += kMagic.size();
    const char* end = std::strchr(text, '\n');
    if (end == nullptr) return std::nullopt;
    const std::vector<std::string> head = lex(std::string(text, end));
    if (head.size() != 4) return std::nullopt;
    Program program = read_program(std::string(end + 1, std::stoul(head[3])), head[0]);
    program.registers = std::stoi(head[1]);
    program.spill_bytes = std::stoi(head[2]);
    return program;
}

}  // namespace autotune::fake
