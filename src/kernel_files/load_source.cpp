// [source]: the files, the headers that they include, and the macros that they get.
#include <algorithm>
#include <filesystem>

#include "src/core/system/read_file.h"
#include "src/kernel_files/loader.h"
#include "src/kernel_files/stub_headers.h"

namespace autotune::kernel_files {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostSourceBytes = std::size_t{16} << 20, kMostHeaders = 256;

bool is_allowed_option(const std::string& option) {
    static const auto& whole = *new std::vector<std::string>{"--use_fast_math",
                                                             "-use_fast_math",
                                                             "--ftz=true",
                                                             "--ftz=false",
                                                             "--prec-div=true",
                                                             "--prec-div=false",
                                                             "--prec-sqrt=true",
                                                             "--prec-sqrt=false",
                                                             "--fmad=true",
                                                             "--fmad=false",
                                                             "-lineinfo",
                                                             "--restrict",
                                                             "--extra-device-vectorization",
                                                             "-Xptxas=-O0",
                                                             "-Xptxas=-O1",
                                                             "-Xptxas=-O2",
                                                             "-Xptxas=-O3",
                                                             "-Xptxas=-dlcm=ca",
                                                             "-Xptxas=-dlcm=cg",
                                                             "-Xptxas=-dlcm=cv"};
    if (std::find(whole.begin(), whole.end(), option) != whole.end()) return true;
    for (const std::string_view begin : {"--maxrregcount=", "-diag-suppress="}) {
        if (!option.starts_with(begin)) continue;
        const std::string digits = option.substr(begin.size());
        return !digits.empty() && digits.size() <= 6 && digits.find_first_not_of("0123456789") == std::string::npos;
    }
    return false;
}

// Headers that need a host compiler, wherever they lie. Our stand-ins are found before.
bool is_for_hosts(const std::string& name) {
    static const auto& known = *new std::vector<std::string>{"array",
                                                             "atomic",
                                                             "chrono",
                                                             "complex",
                                                             "condition_variable",
                                                             "deque",
                                                             "exception",
                                                             "filesystem",
                                                             "fstream",
                                                             "functional",
                                                             "future",
                                                             "iomanip",
                                                             "iterator",
                                                             "list",
                                                             "map",
                                                             "memory",
                                                             "mutex",
                                                             "numeric",
                                                             "optional",
                                                             "queue",
                                                             "random",
                                                             "regex",
                                                             "set",
                                                             "span",
                                                             "sstream",
                                                             "stack",
                                                             "stdexcept",
                                                             "string",
                                                             "string_view",
                                                             "thread",
                                                             "tuple",
                                                             "unordered_map",
                                                             "unordered_set",
                                                             "variant",
                                                             "vector",
                                                             "cub/cub.cuh",
                                                             "omp.h",
                                                             "mpi.h",
                                                             "unistd.h",
                                                             "sys/time.h",
                                                             "torch/extension.h",
                                                             "torch/types.h",
                                                             "thrust/device_vector.h",
                                                             "thrust/host_vector.h",
                                                             "thrust/sort.h",
                                                             "thrust/reduce.h",
                                                             "thrust/scan.h",
                                                             "thrust/transform.h",
                                                             "thrust/copy.h"};
    return std::find(known.begin(), known.end(), name) != known.end() || name.starts_with("cub/device/");
}

}  // namespace

// The path of a file of the user, which must lie below the kernel file's folder.
std::optional<std::string> Loader::file_below(const std::string& name, const Place& place) {
    const fs::path given(name);
    if (given.is_absolute()) {
        reading_.fault(place, "'" + name + "' is an absolute path; name a file below the kernel file");
        return std::nullopt;
    }
    std::error_code ignored;
    const fs::path root = fs::weakly_canonical(folder_.empty() ? fs::path(".") : folder_, ignored);
    const fs::path whole = fs::weakly_canonical(root / given, ignored);
    const auto [end, rest] = std::mismatch(root.begin(), root.end(), whole.begin(), whole.end());
    if (end != root.end()) {
        reading_.fault(place, "'" + name + "' lies outside the kernel file's folder");
        return std::nullopt;
    }
    return (folder_ / given).string();
}

void Loader::read_source(const toml::table* table, const toml::table& root) {
    static const auto& none = *new toml::table;
    TableReader reader(reading_, table == nullptr ? none : *table, "[source]");
    const Place place = table == nullptr ? reading_.place_of(root) : reader.place();
    std::vector<std::string> files = reader.texts("files");
    if (const auto file = reader.text("file")) {
        if (!files.empty()) reader.fault("give 'file' or 'files', not both");
        files = {*file};
    }
    if (files.empty()) files = {fs::path(reading_.path()).stem().string() + ".cu"};
    KernelSource& source = op_.source;
    source.standard = reader.one_of("std", {"c++11", "c++14", "c++17", "c++20"}, "c++17");
    source.only_marked_functions = reader.one_of("host_functions", {"device", "error"}, "device") == "error";
    source.options = reader.texts("options");
    for (const std::string& option : source.options)
        if (option.starts_with("-D") || option.starts_with("--define-macro")) {
            reading_.fault(*reader.node("options"),
                           "option '" + option + "': write a macro as a [let], or as a [[parameter]] if it is tuned");
        } else if (option.starts_with("-I") || option.starts_with("--include-path")) {
            reading_.fault(*reader.node("options"),
                           "option '" + option + "': write include = [\"...\"], folders below this file");
        } else if (!is_allowed_option(option)) {
            reading_.fault(
                *reader.node("options"),
                "option '" + option +
                    "' is not allowed; allowed are --use_fast_math and its parts, -lineinfo, --restrict, --maxrregcount=N, "
                    "--extra-device-vectorization, -diag-suppress=N, -Xptxas=-O0 to -O3 and -Xptxas=-dlcm=");
        }
    const std::string toolkit = reader.one_of("toolkit", {"auto", "never", "need"}, "auto");
    std::vector<fs::path> folders;
    for (const std::string& folder : reader.texts("include"))
        if (const auto path = file_below(folder, reading_.place_of(*reader.node("include")))) folders.emplace_back(*path);
    reader.finish();

    source.headers.push_back({std::string(kPreludeName), std::string(prelude())});
    std::size_t bytes = 0;
    std::vector<std::string> system;
    for (const std::string& name : files) {
        const auto path = file_below(name, place);
        if (!path) continue;
        FileContent content = read_regular_file(*path, kMostSourceBytes);
        if (!content.is_read) {
            reading_.fault(place, "the source " + name + " cannot be read: " + content.why);
            continue;
        }
        if (!is_utf8(content.text)) {
            reading_.fault({*path}, "the source is not UTF-8");
            continue;
        }
        bytes += content.text.size();
        read_headers(content.text, fs::path(*path).parent_path(), folders, {*path});
        for (KernelFound& kernel : kernels_in(content.text)) kernels_.push_back(std::move(kernel));
        source.files.push_back({name, std::move(content.text)});
    }
    // Headers of the toolkit include these too, and no file of the user may name them.
    if (!source.toolkit_folders.empty())
        for (const std::string_view name :
             {"stdint.h", "stddef.h", "stdlib.h", "string.h", "stdio.h", "math.h", "assert.h", "limits.h"})
            if (std::none_of(source.headers.begin(), source.headers.end(),
                             [&](const KernelText& each) { return each.name == name; }))
                source.headers.push_back({std::string(name), std::string(stub_header(name))});
    for (const KernelText& header : source.headers) {
        bytes += header.text.size();
        if (header.name != kPreludeName && stub_header(header.name).empty())
            codes_.push_back({header.name, blanked(header.text, true)});
    }
    for (const KernelText& file : source.files) codes_.push_back({file.name, blanked(file.text, true)});
    if (bytes > kMostSourceBytes) reading_.fault(place, "source and headers have more than 16 MiB");
    if (toolkit == "never" && !source.toolkit_folders.empty())
        reading_.fault(place, "the source includes headers of the toolkit, and 'toolkit' says never");
}

// Reads the headers that a text includes, directly or not. The compiler gets them under the names in the text, without a path.
void Loader::read_headers(const std::string& text, const fs::path& from, const std::vector<fs::path>& folders,
                          const Place& place) {
    MacroNames names = macros_;
    for (const IncludeFound& include : includes_in(seen_by_compiler(blanked(text, false), names).directives)) {
        const Place here{place.file, include.line};
        std::vector<KernelText>& headers = op_.source.headers;
        const auto known =
            std::find_if(headers.begin(), headers.end(), [&](const KernelText& each) { return each.name == include.name; });
        if (fs::path(include.name).is_absolute()) {
            reading_.fault(here, "#include \"" + include.name + "\" is an absolute path; name a header below the kernel file");
            continue;
        }
        std::optional<fs::path> found;
        std::vector<fs::path> places = folders;
        if (include.is_quoted) places.insert(places.begin(), from);
        std::error_code ignored;
        for (const fs::path& folder : places)
            if (!found && fs::exists(folder / include.name, ignored)) found = folder / include.name;
        if (found) {
            const fs::path relative = folder_.empty() ? *found : found->lexically_relative(folder_);
            const auto path = file_below(relative.string(), here);
            if (!path) continue;
            FileContent content = read_regular_file(*path, kMostSourceBytes);
            if (!content.is_read || !is_utf8(content.text)) {
                reading_.fault(here, "the header " + include.name +
                                         " cannot be read: " + (content.is_read ? "it is not UTF-8" : content.why));
                continue;
            }
            if (known != headers.end()) {
                if (known->text != content.text)
                    reading_.fault(here, "two headers are both included as \"" + include.name + "\"");
                continue;
            }
            if (headers.size() > kMostHeaders) return reading_.fault(here, "more than 256 headers are included");
            headers.push_back({include.name, content.text});
            read_headers(content.text, found->parent_path(), folders, {*path});
            continue;
        }
        if (known != headers.end()) continue;
        if (const std::string_view stub = stub_header(include.name); !stub.empty()) {
            headers.push_back({include.name, std::string(stub)});
            continue;
        }
        if (include.is_quoted) {
            reading_.fault(here, "there is no header \"" + include.name + "\" beside the file or in 'include'");
            continue;
        }
        const bool is_in_toolkit =
            std::any_of(options_.toolkit.folders.begin(), options_.toolkit.folders.end(),
                        [&](const std::string& folder) { return fs::exists(fs::path(folder) / include.name, ignored); });
        if (!is_in_toolkit || is_for_hosts(include.name)) {
            refuse_missing_header(include, here);
            continue;
        }
        op_.source.toolkit_folders = options_.toolkit.folders;
        op_.source.toolkit_version = options_.toolkit.version;
    }
}

void Loader::refuse_missing_header(const IncludeFound& include, const Place& place) {
    const std::string name = "<" + include.name + ">";
    const std::string guard = "put host code, and the headers that it needs, between `#ifndef __CUDACC_RTC__` and `#endif`";
    if (include.name == "cub/cub.cuh")
        return reading_.fault(
            place, name +
                       " has functions of the host, which NVRTC refuses: include the headers of the parts that the kernel "
                       "uses, such as <cub/block/block_reduce.cuh>");
    if (is_for_hosts(include.name))
        return reading_.fault(place, name + " is a header of the host, and a kernel is compiled by NVRTC: " + guard);
    if (options_.toolkit.folders.empty())
        return reading_.fault(
            place, name + " needs the toolkit's headers, which are not here: install the CUDA toolkit, or set CUDA_PATH");
    reading_.fault(place, "there is no header " + name + " in 'include' or in the toolkit (" + options_.toolkit.folders.front() +
                              "). If it belongs to host code, " + guard);
}

// The macros that stand before the source. Parameters of launches are among them: a header that only they ask for is not missed.
MacroNames Loader::macro_names(const toml::table& root) const {
    MacroNames names{{"AUTOTUNE"}};
    if (const toml::array* const parameters = root["parameter"].as_array())
        for (const toml::node& each : *parameters)
            if (const toml::table* const table = each.as_table())
                if (const auto name = (*table)["name"].value_exact<std::string>()) names.defined.insert(*name);
    if (const toml::table* const lets = root["let"].as_table())
        for (const auto& [key, value] : *lets) names.defined.insert(std::string(key.str()));
    return names;
}

// Whether an expression of the file uses a name, also by way of a [let].
bool Loader::is_used(const std::string& name, const Lets& lets) const {
    return std::any_of(uses_.begin(), uses_.end(), [&](const auto& use) {
        const std::vector<std::string> names = lets.names_of(Expression(use.text));
        return std::find(names.begin(), names.end(), name) != names.end();
    });
}

// Lets that the source uses become macros. Their value may depend on problem and compile parameters.
void Loader::choose_constants() {
    FamilyDefinition& family = reading_.file().family;
    std::optional<Lets> lets;
    try {
        lets.emplace(op_.lets);
    } catch (const Error&) {
        return;
    }
    MacroNames names{{"AUTOTUNE"}};
    for (const Parameter& parameter : family.parameters)
        if (parameter.kind == ParameterKind::compile) names.defined.insert(parameter.name);
    for (const Let& let : op_.lets) names.defined.insert(let.name);
    std::vector<SourceSeen> seen;
    for (const Code& code : codes_) seen.push_back(seen_by_compiler(code.text, names));
    const auto is_mentioned = [&](const std::string& name) {
        return std::any_of(seen.begin(), seen.end(),
                           [&](const SourceSeen& each) { return mentions(each.text, name) || mentions(each.directives, name); });
    };
    for (const Let& let : op_.lets) {
        if (!is_mentioned(let.name)) continue;
        if (const std::string defined = definition_of(let.name, seen); !defined.empty()) {
            reading_.fault(name_places_[let.name],
                           "[let] " + let.name + ": the source defines '" + let.name + "' itself at " + defined +
                               ", so this one stays out of the source; put that line into `#ifndef " + let.name + "`",
                           true);
            continue;
        }
        // The source may use the name for a variable. If it does not declare one, the compiler reports that.
        const bool is_declared =
            std::any_of(seen.begin(), seen.end(), [&](const SourceSeen& each) { return declares(each.text, let.name); });
        if (is_declared) continue;
        bool is_constant = true;
        for (const std::string& name : lets->names_of(Expression(let.value))) {
            const auto& of_device = device_names();
            const bool is_device = std::find(of_device.begin(), of_device.end(), name) != of_device.end();
            const auto parameter = std::find_if(family.parameters.begin(), family.parameters.end(),
                                                [&](const Parameter& each) { return each.name == name; });
            const bool is_launch = parameter != family.parameters.end() && parameter->kind == ParameterKind::launch;
            if (!is_device && !is_launch) continue;
            reading_.fault(name_places_[let.name],
                           "the source uses '" + let.name + "', and a constant of the source cannot depend on " +
                               (is_device ? "the device's " : "the launch parameter ") + name + "; rename one of them");
            is_constant = false;
        }
        if (is_constant) family.constants.push_back(let.name);
    }
    choose_parameters(seen, *lets);
}

std::string Loader::definition_of(const std::string& name, const std::vector<SourceSeen>& seen) const {
    for (std::size_t i = 0; i < seen.size(); ++i)
        for (const SourceSeen::Define& define : seen[i].defines)
            if (define.name == name) return codes_[i].file + ":" + std::to_string(define.line);
    return "";
}

// Compile parameters become macros, except those that are a template's own: they reach it by the kernel's name.
void Loader::choose_parameters(const std::vector<SourceSeen>& seen, const Lets& lets) {
    FamilyDefinition& family = reading_.file().family;
    // Where a template has a parameter of this name.
    const auto template_of = [&](const std::string& name) -> std::string {
        for (std::size_t i = 0; i < seen.size(); ++i)
            for (const TemplateParameter& each : template_parameters_in(seen[i].text))
                if (each.name == name) return codes_[i].file + ":" + std::to_string(each.line);
        return "";
    };
    for (const Parameter& parameter : family.parameters) {
        if (parameter.kind == ParameterKind::launch || op_.source.files.empty()) continue;
        const Place place = name_places_[parameter.name];
        const bool is_mentioned = std::any_of(seen.begin(), seen.end(), [&](const SourceSeen& each) {
            return mentions(each.text, parameter.name) || mentions(each.directives, parameter.name);
        });
        const bool is_in_name =
            std::find(names_in_kernels_.begin(), names_in_kernels_.end(), parameter.name) != names_in_kernels_.end();
        const std::string in_template = template_of(parameter.name);
        if (is_in_name && (!in_template.empty() || !is_mentioned)) {
            family.template_parameters.push_back(parameter.name);
        } else if (!in_template.empty()) {
            reading_.fault(
                place,
                "'" + parameter.name + "' is the name of a template's parameter at " + in_template +
                    ", and a macro of that name would break the template: name the kernel with its arguments, as in \"gemm<" +
                    parameter.name + ">\", or give this parameter another name");
        } else if (const std::string defined = definition_of(parameter.name, seen); !defined.empty()) {
            reading_.fault(place, "the source defines parameter " + parameter.name + " itself at " + defined +
                                      ", so its values never reach the kernel; put that line into `#ifndef " + parameter.name +
                                      "` or `#ifndef AUTOTUNE`");
        } else if (!is_mentioned) {
            reading_.file().unseen_parameters.push_back(parameter.name);
            reading_.fault(
                place,
                "the source does not use parameter " + parameter.name +
                    (is_used(parameter.name, lets) ? "; add kind = \"launch\", which says that it changes the launch alone"
                                                   : ", and neither does a step"),
                true);
        }
    }
}

}  // namespace autotune::kernel_files
