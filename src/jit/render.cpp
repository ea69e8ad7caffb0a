#include "src/jit/render.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "src/catalogue/code_of.h"
#include "src/catalogue/hash.h"
#include "src/core/error.h"
#include "src/jit/user_source.h"

namespace autotune::jit {
namespace {

constexpr std::string_view kEndOfParameters = "// ---- end of parameters ----";

[[noreturn]] void fail(const std::string& file, std::size_t line, const std::string& what) {
    throw Error(ErrorCode::internal, "template " + file + ":" + std::to_string(line) + ": " + what);
}

bool is_name(std::string_view text) {
    if (text.empty() || text[0] < 'a' || text[0] > 'z') return false;
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

// The values by name. Remembers which of them the text has used.
class Values {
  public:
    Values(const std::vector<Binding>& bindings, const std::string& symbol, const std::string& file) {
        values_["symbol"] = {symbol, false};
        for (const Binding& binding : bindings) {
            if (!is_name(binding.name)) fail(file, 1, "'" + binding.name + "' is no name for a placeholder");
            if (!values_.emplace(binding.name, Value{binding.spelled(), false}).second)
                fail(file, 1, "'" + binding.name + "' is bound twice");
        }
    }

    const std::string* use(const std::string& name) {
        const auto found = values_.find(name);
        if (found == values_.end()) return nullptr;
        found->second.used = true;
        return &found->second.text;
    }

    // Names that the text did not use, in order.
    std::string unused() const {
        std::string names;
        for (const auto& [name, value] : values_)
            if (!value.used) names += (names.empty() ? "" : ", ") + name;
        return names;
    }

  private:
    struct Value {
        std::string text;
        bool used = false;
    };
    std::map<std::string, Value> values_;
};

void fill_line(std::string_view line, const std::string& file, std::size_t number, Values& values, std::string& out) {
    while (true) {
        const std::size_t open = line.find("${");
        out += line.substr(0, open);
        if (open == std::string_view::npos) return;
        const std::size_t close = line.find('}', open);
        if (close == std::string_view::npos) fail(file, number, "'${' without '}'");
        const std::string name(line.substr(open + 2, close - open - 2));
        const std::string* text = is_name(name) ? values.use(name) : nullptr;
        if (text == nullptr) fail(file, number, "nothing is bound to ${" + name + "}");
        out += *text;
        line.remove_prefix(close + 1);
    }
}

std::string_view trimmed(std::string_view line) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    return line;
}

// Calls visit(line without its line end, number) for each line, until it returns false.
template <typename Visit>
void for_each_line(std::string_view text, Visit visit) {
    std::size_t number = 0;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        if (!visit(text.substr(0, end), ++number) || end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

// The name in `#include "name"`; empty for any other line. Headers shared with the host include <...> in branches that the device
// compiler never takes; those are left to the compiler, which has no folder to find them in.
std::string included_name(std::string_view line, const std::string& file, std::size_t number) {
    line = trimmed(line);
    if (line.empty() || line.front() != '#') return "";
    line = trimmed(line.substr(1));
    if (!line.starts_with("include")) return "";
    line = trimmed(line.substr(7));
    if (line.starts_with('<')) return "";
    const std::size_t close = line.find('"', 1);
    if (!line.starts_with('"') || close == std::string_view::npos) fail(file, number, "#include without a \"name\"");
    return std::string(line.substr(1, close - 1));
}

using Headers = std::map<std::string, const TemplateHeader*>;  // by name

// Collects the headers that `text` includes, directly or not. The compiler gets no others, so a change of an unrelated header
// leaves the identity as it was, and no #include can reach a file of the machine.
void collect_headers(const Catalogue& catalogue, std::string_view text, const std::string& file, Headers& reached) {
    for_each_line(text, [&](std::string_view line, std::size_t number) {
        const std::string name = included_name(line, file, number);
        if (name.empty() || reached.contains(name)) return true;
        const auto& headers = catalogue.headers();
        const auto found = std::find_if(headers.begin(), headers.end(), [&](const auto& header) { return header.name == name; });
        if (found == headers.end()) fail(file, number, "there is no header \"" + name + "\"");
        reached.emplace(name, &*found);
        collect_headers(catalogue, found->text(), name, reached);
        return true;
    });
}

// NVRTC 12.9 introduced a disk cache and the option that turns it off. Older versions refuse the option.
bool knows_no_cache(const std::string& nvrtc_version) {
    int major = 0;
    int minor = 0;
    const char* end = nvrtc_version.data() + nvrtc_version.size();
    const auto parsed = std::from_chars(nvrtc_version.data(), end, major);
    if (parsed.ptr != end && *parsed.ptr == '.') std::from_chars(parsed.ptr + 1, end, minor);
    return major > 12 || (major == 12 && minor >= 9);
}

std::vector<std::string> options_for(const Target& target) {
    const std::string_view digits = std::string_view(target.arch).substr(std::min<std::size_t>(3, target.arch.size()));
    const bool well_formed =
        target.arch.starts_with("sm_") && !digits.empty() && digits.size() <= 4 &&
        std::all_of(digits.begin(), digits.end(), [](char c) { return (c >= '0' && c <= '9') || c == 'a' || c == 'f'; });
    if (!well_formed) throw Error(ErrorCode::usage, "unknown architecture '" + target.arch + "'; expected one like sm_90a");
    // -Xptxas takes one option per entry: "-v,..." joined is refused.
    std::vector<std::string> options = {"--std=c++17", "-arch=" + target.arch, "-Xptxas=-v"};
    if (knows_no_cache(target.nvrtc_version)) options.emplace_back("--no-cache");
    return options;
}

// The input of a rendering: a text, its name for messages, its values, and the prefix of its symbol.
struct Draft {
    const DeviceText& text;
    std::string file;
    std::vector<Binding> bindings;
    std::string prefix;
};

// Combines the hashes of each text's code, which are computed once per text (code_of.h). Values are hashed separately, not as
// parts of the text.
std::string identity_of(const Draft& draft, const Headers& headers, const std::vector<std::string>& options,
                        const Target& target) {
    const bool shows_spelling = draft.text.shows_spelling() || std::any_of(headers.begin(), headers.end(), [](const auto& named) {
                                    return named.second->device_text.shows_spelling();
                                });
    Hash hash;
    hash.field("autotune instance 2");
    hash.field(draft.prefix);
    hash.field(draft.text.hash_among(shows_spelling));
    for (const Binding& binding : draft.bindings) {
        hash.field(binding.name);
        hash.field(binding.spelled());
    }
    hash.field("headers");
    std::vector<std::pair<std::string_view, std::string>> by_base_name;
    for (const auto& [name, header] : headers)
        by_base_name.emplace_back(base_name(name), header->device_text.hash_among(shows_spelling));
    std::sort(by_base_name.begin(), by_base_name.end());
    for (const auto& [name, code_hash] : by_base_name) {
        hash.field(name);
        hash.field(code_hash);
    }
    hash.field("options");
    for (const std::string& option : options) hash.field(option);
    hash.field(target.nvrtc_version);
    hash.field(target.arch);
    return to_hex(hash.digest());
}

// Fills in all members but the source and the symbol.
Rendered begin(const Catalogue& catalogue, const Draft& draft, const Target& target) {
    Rendered rendered;
    rendered.arch = target.arch;
    rendered.options = options_for(target);
    Headers reached;
    collect_headers(catalogue, draft.text.text(), draft.file, reached);
    for (const auto& [name, header] : reached) rendered.headers.emplace_back(name, header->text());
    rendered.identity = identity_of(draft, reached, rendered.options, target);
    return rendered;
}

// Renders a user's source, which gets macros in place of placeholders. Its identity and options are made as for templates.
Rendered render_source(const DefinedFamily& family, const UserUnit& unit, const std::string& prefix, const DeviceText& text,
                       const Target& target) {
    const KernelSource& source = family.definition().op->source;
    Rendered rendered;
    rendered.arch = target.arch;
    rendered.options = options_for(target);
    rendered.options.front() = "--std=" + source.standard;
    if (!source.only_marked_functions) rendered.options.emplace_back("-default-device");
    rendered.options.insert(rendered.options.end(), source.options.begin(), source.options.end());

    Hash hash;
    hash.field("autotune user instance 1");
    hash.field(prefix);
    hash.field(text.hash_among(true));  // The hash includes the path, because compiler messages name the user's own files.
    for (const auto& [name, value] : unit.macros) hash.field(name), hash.field(value);
    for (const auto& [entry, expression] : unit.expressions) hash.field("kernel"), hash.field(entry), hash.field(expression);
    hash.field("headers");
    for (const KernelText& header : source.headers) hash.field(header.name), hash.field(header.text);
    hash.field("options");
    for (const std::string& option : rendered.options) hash.field(option);
    hash.field(source.toolkit_version);
    hash.field(target.nvrtc_version);
    hash.field(target.arch);
    rendered.identity = to_hex(hash.digest());
    rendered.symbol = prefix + "_" + rendered.identity.substr(0, 16);
    for (const std::string& folder : source.toolkit_folders) rendered.options.push_back("-I" + folder);
    for (const KernelText& header : source.headers) rendered.headers.emplace_back(header.name, header.text);
    rendered.source = user_source(source, unit, rendered.symbol);
    rendered.kernel_names = kernel_names(unit, rendered.symbol);
    return rendered;
}

// The family that belongs to a user's op.
const DefinedFamily& family_of(const Catalogue& catalogue, const DefinedOp& op) {
    for (const Family* family : catalogue.families_of(op.name()))
        if (const auto* const defined = dynamic_cast<const DefinedFamily*>(family)) return *defined;
    internal_error("a user's op without its family");
}

Rendered finish(const Catalogue& catalogue, const Draft& draft, const Target& target) {
    Rendered rendered = begin(catalogue, draft, target);
    rendered.symbol = draft.prefix + "_" + rendered.identity.substr(0, 16);
    rendered.source = fill(draft.text.text(), draft.file, draft.bindings, rendered.symbol);
    return rendered;
}

// Collects the suffixes in AUTOTUNE_ENTRY(...), except in its definition and in comments.
void collect_entries(const std::string& text, std::set<std::string>& suffixes) {
    constexpr std::string_view kEntry = "AUTOTUNE_ENTRY(";
    for_each_line(text, [&](std::string_view line, std::size_t) {
        const std::size_t at = line.find(kEntry);
        if (at == std::string_view::npos || trimmed(line).starts_with("//") || trimmed(line).starts_with("#")) return true;
        const std::string_view rest = line.substr(at + kEntry.size());
        if (const std::size_t end = rest.find(')'); end != 0 && end != std::string_view::npos)
            suffixes.emplace(rest.substr(0, end));
        return true;
    });
}

std::string identifier(std::string_view name) {
    std::string text(name);
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '/' || c == '-'; }, '_');
    return text;
}

}  // namespace

std::string fill(const std::string& text, const std::string& file, const std::vector<Binding>& bindings,
                 const std::string& symbol) {
    Values values(bindings, symbol, file);
    std::string out;
    out.reserve(text.size() + 256);
    std::size_t end_line = 0;
    for_each_line(text, [&](std::string_view line, std::size_t number) {
        if (number > 1) out += '\n';
        if (end_line == 0 && trimmed(line) == kEndOfParameters) end_line = number;
        if (end_line == 0) {
            fill_line(line, file, number, values, out);
        } else {
            if (line.find("${") != std::string_view::npos)
                fail(file, number,
                     "a placeholder stands below the end of the parameters (line " + std::to_string(end_line) + ")");
            out += line;
        }
        return true;
    });
    if (text.ends_with('\n')) out += '\n';
    if (end_line == 0) fail(file, 1, "the line '" + std::string(kEndOfParameters) + "' is missing");
    if (const std::string unused = values.unused(); !unused.empty())
        fail(file, end_line, "bound, but no placeholder asks for it: " + unused);
    return out;
}

Rendered render(const Catalogue& catalogue, const Family& family, const Problem& problem, const SearchSpace& space,
                const Config& config, const Target& target) {
    if (const auto reason = space.why_not(config))
        throw Error(ErrorCode::internal,
                    std::string(family.name()) + ": " + config.to_string() + " is not in the space: " + *reason);
    if (const auto* const user = dynamic_cast<const DefinedFamily*>(&family);
        user != nullptr && user->definition().op != nullptr) {
        UserUnit unit = user_unit(user->macros(problem, config), user->definition().steps,
                                  [&](const std::string& kernel) { return user->kernel_name(kernel, problem, config); });
        if (user->definition().needs_helpers()) unit.appended = step_helpers;
        return render_source(*user, unit, identifier(family.name()), catalogue.device_text(family), target);
    }
    Draft draft{catalogue.device_text(family), std::string(family.name()) + "/kernel.cuh", family.facts(problem),
                identifier(family.name())};
    const Config compiled_in = space.compile_part(config);
    for (const auto& [name, value] : compiled_in.values()) draft.bindings.push_back({name, value});
    return finish(catalogue, draft, target);
}

Rendered render_reference(const Catalogue& catalogue, const Op& op, const Problem& problem, const Target& target) {
    const std::string name(op.name());
    if (const auto* const user = dynamic_cast<const DefinedOp*>(&op)) {
        const DefinedFamily& family = family_of(catalogue, *user);
        std::vector<StepDefinition> steps = user->definition().reference;
        steps.insert(steps.end(), user->definition().prepare.begin(), user->definition().prepare.end());
        const auto appended = [needs_helpers = needs_helpers(steps)](const std::string& symbol) {
            return reference_helpers(symbol) + (needs_helpers ? step_helpers(symbol) : "");
        };
        const Config& usual = family.definition().default_config;
        UserUnit unit = user_unit(family.macros(problem, usual), steps,
                                  [&](const std::string& kernel) { return family.kernel_name(kernel, problem, usual); });
        unit.appended = appended;
        return render_source(family, unit, identifier(name) + "_reference", catalogue.device_text_of_reference(op), target);
    }
    return finish(catalogue,
                  {catalogue.device_text_of_reference(op), name + "/reference.cuh", op.reference_facts(problem),
                   identifier(name) + "_reference"},
                  target);
}

std::vector<std::string> second_entries(const Rendered& rendered) {
    std::set<std::string> suffixes;
    collect_entries(rendered.source, suffixes);
    for (const auto& [name, text] : rendered.headers) collect_entries(text, suffixes);
    return {suffixes.begin(), suffixes.end()};
}

Rendered render_harness(const Catalogue& catalogue, const Target& target) {
    const Draft draft{catalogue.device_text_of_harness(), "common/harness.cuh", {}, "autotune"};
    const std::string& text = draft.text.text();
    Rendered rendered = begin(catalogue, draft, target);
    rendered.symbol = draft.prefix;
    rendered.source = text.find(kEndOfParameters) == std::string::npos ? text : fill(text, draft.file, {}, rendered.symbol);
    return rendered;
}

}  // namespace autotune::jit
