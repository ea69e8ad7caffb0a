#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autotune::kernel_files {

// The text with comments replaced by blanks, and with `no_literals` strings and characters too. Lengths and line ends are kept.
std::string blanked(std::string_view text, bool no_literals);

// A parameter of a template.
struct TemplateParameter {
    std::string name;
    bool is_type = false;      // it stands behind `typename` or `class`
    bool is_optional = false;  // it has a default, or is a pack
    std::size_t line = 0;
};

// A __global__ function that a text defines.
struct KernelFound {
    std::string name;
    std::size_t global_at = 0;  // offset of the word __global__
    bool is_extern_c = false;
    bool is_template = false;
    std::vector<std::string> parameters = {};  // their declarations, as "const float* x"
    std::vector<TemplateParameter> template_parameters = {};
};
std::vector<KernelFound> kernels_in(std::string_view text);

// The parts of a list between commas that are in no brackets.
std::vector<std::string> parts_of_list(std::string_view inside);
// The parameters of all templates that the code declares. REQUIRES: the code has no comments and no directives.
std::vector<TemplateParameter> template_parameters_in(std::string_view code);

// Whether a parameter declared so is a pointer through which nothing can be written, such as "const float* __restrict__ x".
bool is_pointer_to_const(std::string_view declaration);
// The type that a parameter points to, without const: "float" of "const float* x". Empty if it is no pointer.
std::string pointed_type(std::string_view declaration);

// The text with `extern "C"` in front of those of the named kernels that lack it, so that the driver finds them. Line numbers are
// kept.
std::string with_c_names(const std::string& text, const std::vector<std::string>& names);

// Whether the code uses the word as an identifier, and not only as the name of a member.
bool mentions(std::string_view code, std::string_view word);

// Whether the code declares this name itself: as a word after another one, or by assigning to it. Then it must not become a
// macro. REQUIRES: the code has no directives.
bool declares(std::string_view code, std::string_view word);

// Whether the code declares an array of this name in constant or global memory. REQUIRES: the code has no comments.
bool has_device_array(std::string_view code, std::string_view name);

// Names of macros at one place of a source.
struct MacroNames {
    std::set<std::string> defined;
    std::set<std::string> perhaps = {};  // names whose definition depends on conditions that are not understood
};

// The part of a source that autotune's compiler may see. Both texts keep the line ends of the whole.
struct SourceSeen {
    std::string text;        // without directives
    std::string directives;  // nothing else
    struct Define {
        std::string name;
        std::size_t line = 0;
    };
    std::vector<Define> defines = {};  // the definitions that it certainly sees
};
// Follows #ifdef, #ifndef and #if defined(...); for other conditions both branches count. `names`: the macros before the source;
// on return, those after it. REQUIRES: the code has no comments.
SourceSeen seen_by_compiler(std::string_view code, MacroNames& names);

struct IncludeFound {
    std::string name;
    bool is_quoted = false;
    std::size_t line = 0;
};
std::vector<IncludeFound> includes_in(std::string_view text);

std::size_t line_of(std::string_view text, std::size_t at);

}  // namespace autotune::kernel_files
