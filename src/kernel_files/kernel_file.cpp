#include "src/kernel_files/kernel_file.h"

#include <algorithm>

#include "src/core/system/read_file.h"
#include "src/core/text.h"
#include "src/kernel_files/loader.h"

namespace autotune::kernel_files {
namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;
constexpr std::size_t kMostDots = 256;

}  // namespace

bool is_name(std::string_view text, bool capitals, std::size_t most) {
    if (text.empty() || text.size() > most) return false;
    const auto is_letter = [&](char c) { return (c >= 'a' && c <= 'z') || (capitals && ((c >= 'A' && c <= 'Z') || c == '_')); };
    return is_letter(text[0]) &&
           std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

bool is_utf8(std::string_view text) {
    for (std::size_t i = 0; i < text.size();) {
        const auto first = static_cast<unsigned char>(text[i]);
        const std::size_t length = first < 0x80                    ? 1
                                   : first >= 0xC2 && first < 0xE0 ? 2
                                   : first >= 0xE0 && first < 0xF0 ? 3
                                   : first >= 0xF0 && first < 0xF5 ? 4
                                                                   : 0;
        if (length == 0 || i + length > text.size()) return false;
        for (std::size_t k = 1; k < length; ++k)
            if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
        i += length;
    }
    return true;
}

const std::vector<std::string>& type_words() {
    static const auto& words = *new std::vector<std::string>{"f16", "bf16", "f32", "f64", "e4m3", "e5m2", "i8",
                                                             "u8",  "i16",  "u16", "i32", "u32",  "i64",  "u64"};
    return words;
}

void Loader::run() {
    const std::string& path = reading_.path();
    for (const char* const ending : {".cu", ".cuh", ".cpp", ".cc", ".h", ".py"}) {
        if (!path.ends_with(ending)) continue;
        std::error_code ignored;
        const std::filesystem::path beside = std::filesystem::path(path).replace_extension(".toml");
        const bool is_there = std::filesystem::exists(beside, ignored);
        return reading_.fault(
            {path}, "this is a source, and a kernel file is the .toml that describes it; " +
                        (is_there ? beside.filename().string() + " is beside it" : "`autotune new NAME` writes a pair"));
    }
    FileContent content = read_regular_file(reading_.path(), kMostFileBytes);
    if (!content.is_read) return reading_.fault({reading_.path()}, "the kernel file cannot be read: " + content.why);
    reading_.file().text = std::move(content.text);
    if (const auto root = parsed()) read(*root);
}

std::optional<toml::table> Loader::parsed() {
    const std::string& text = reading_.file().text;
    std::size_t number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        // Limits the dots in keys, because the parser makes a table for each part of a dotted key.
        if (static_cast<std::size_t>(std::count(line.begin(), line.end(), '.')) > kMostDots) {
            reading_.fault({reading_.path(), number}, "the line has more than 256 dots");
            return std::nullopt;
        }
    }
    if (!is_utf8(text)) {
        reading_.fault({reading_.path()}, "the file is not UTF-8");
        return std::nullopt;
    }
    try {
        return toml::parse(text, reading_.path());
    } catch (const toml::parse_error& error) {
        std::string what(error.description());
        if (what.find("control characters") != std::string::npos) what = "a text in quotes does not end on its line";
        reading_.fault(reading_.place_of(error.source()), what);
    } catch (const std::logic_error&) {
        reading_.fault({reading_.path()}, "the file is not TOML");
    }
    return std::nullopt;
}

bool Loader::take_name(const std::string& name, const std::string& what, const Place& place) {
    if (name.empty()) return false;
    const auto& of_device = device_names();
    if (std::find(of_device.begin(), of_device.end(), name) != of_device.end()) {
        reading_.fault(place, what + " is named '" + name + "' like a number of the device; choose another name");
        return false;
    }
    const auto [known, is_new] = names_.emplace(name, what);
    if (is_new) {
        name_places_[name] = place;
        return true;
    }
    const bool has_vowel = std::string_view("aeio").find(known->second.front()) != std::string_view::npos;
    reading_.fault(place, known->second == what ? what + " '" + name + "' is there twice"
                                                : what + " '" + name + "' has the name of " + (has_vowel ? "an " : "a ") +
                                                      known->second + ": rename one");
    return false;
}

void Loader::read(const toml::table& root) {
    TableReader top(reading_, root, "the file");
    const auto format = top.integer("format");
    if (!top.has("format")) {
        top.fault("'format = 1' is missing");
    } else if (format && *format > 1) {
        return reading_.fault(*top.node("format"),
                              "format " + std::to_string(*format) + " is newer than this autotune, which reads format 1");
    } else if (format && *format != 1) {
        reading_.fault(*top.node("format"), "'format' is 1");
    }
    if (const toml::table* const op = top.table("op")) {
        read_op(*op);
    } else if (!top.has("op")) {
        top.fault("the table [op] is missing");
    }
    for (const toml::table* const each : top.tables("attribute")) read_attribute(*each);
    for (const toml::table* const each : top.tables("tensor")) read_tensor(*each);
    for (const toml::table* const each : top.tables("scalar")) read_scalar(*each);
    check_flops();
    if (op_.tensors.empty()) top.fault("there is no [[tensor]]");
    if (op_.tensors.size() > kMostThings) top.fault("there are more than 64 tensors");
    macros_ = macro_names(root);
    read_source(top.table("source"), root);
    for (const toml::table* const each : top.tables("parameter")) read_parameter(*each);
    FamilyDefinition& family = reading_.file().family;
    if (family.parameters.size() > kMostThings) top.fault("there are more than 64 parameters");
    if (const toml::table* const let = top.table("let")) read_let(*let);
    for (const toml::table* const each : top.tables("constraint")) read_constraint(*each);
    for (const toml::table* const each : top.tables("workspace")) read_workspace(*each);
    for (const toml::table* const each : top.tables("step")) {
        if (family.steps.size() == kMostSteps) {
            reading_.fault(*each, "there are more than 32 steps");
            break;
        }
        StepDefinition step = read_step(*each, "[[step]]", Level::config);
        // The first kernel has the instance's own name.
        const auto first = std::find_if(family.steps.begin(), family.steps.end(),
                                        [](const StepDefinition& one) { return one.action == StepDefinition::Action::launch; });
        const bool is_main = first == family.steps.end() || step.kernel == first->kernel;
        if (step.action == StepDefinition::Action::launch) step.entry = is_main ? "" : suffix_of(step.kernel);
        family.steps.push_back(std::move(step));
    }
    if (family.steps.empty()) top.fault("there is no [[step]]; it says how the kernel is launched");
    for (const toml::table* const each : top.tables("prepare")) read_prepare(*each);
    if (const toml::table* const check = top.table("check")) {
        read_check(*check);
    } else if (!top.has("check")) {
        top.fault("the table [check] is missing; it says what computes the right answer");
    }
    for (const toml::table* const each : top.tables("config")) read_config(*each);
    read_defaults(top, "search", {"budget", "trials", "strategy"});
    read_defaults(top, "measure", {"l2", "streams"});
    top.later({"facts"});
    top.finish();

    family.name = op_.name + "/main";
    family.about = op_.about;
    family.lets = op_.lets;
    check_names();
    check_symbols();
    choose_constants();
    check_use();
    check_arguments();
    family.op = std::make_shared<const OpDefinition>(op_);
}

// [search] and [measure]: what the command takes where its line says nothing.
void Loader::read_defaults(TableReader& top, const std::string& name, const std::vector<std::string>& keys) {
    const toml::table* const table = top.table(name);
    if (table == nullptr) return;
    TableReader reader(reading_, *table, "[" + name + "]");
    for (const std::string& key : keys) {
        const toml::node* const node = reader.node(key);
        if (node == nullptr) continue;
        if (const auto word = node->value_exact<std::string>()) {
            reading_.file().defaults[key] = *word;
        } else if (const auto number = node->value_exact<std::int64_t>()) {
            reading_.file().defaults[key] = std::to_string(*number);
        } else {
            reading_.fault(*node,
                           "[" + name + "]: '" + key + "' is what --" + key + " of `autotune tune` takes, in quotes or a number");
        }
    }
    reader.finish();
}

bool Loaded::is_whole() const {
    return std::all_of(findings.begin(), findings.end(), [](const Finding& each) { return each.is_warning; }) &&
           file.family.op != nullptr;
}

std::string KernelFile::line(std::size_t number) const {
    if (number == 0) return {};
    std::size_t begin = 0;
    for (std::size_t i = 1; i < number; ++i) {
        begin = text.find('\n', begin);
        if (begin == std::string::npos) return {};
        ++begin;
    }
    std::string found = text.substr(begin, text.find('\n', begin) - begin);
    if (found.ends_with('\r')) found.pop_back();
    return found;
}

Finding KernelFile::finding_of(const ExpressionError& error) const {
    Finding finding{{path}, error.reason};
    const auto place = expressions.find(error.expression);
    if (place == expressions.end()) {
        finding.text = error.what();
        return finding;
    }
    finding.place = place->second;
    if (finding.place.column > 0 && error.expression.find('\n') == std::string::npos) {
        finding.place.column += error.offset;
        finding.place.length = std::max<std::size_t>(error.length, 1);
    }
    finding.line = line(finding.place.line);
    return finding;
}

const std::map<std::string, StepDefinition::Argument::Kind>& computed_argument_types() {
    static const auto& types = *new std::map<std::string, ArgumentKind>{
        {"i32", ArgumentKind::i32}, {"u32", ArgumentKind::u32}, {"i64", ArgumentKind::i64},     {"u64", ArgumentKind::u64},
        {"f32", ArgumentKind::f32}, {"f64", ArgumentKind::f64}, {"bool", ArgumentKind::boolean}};
    return types;
}

Loaded load(const std::string& path, const LoadOptions& options) {
    Loaded loaded;
    loaded.file.path = path;
    Loader(loaded, path, options).run();
    std::stable_sort(loaded.findings.begin(), loaded.findings.end(), [](const Finding& a, const Finding& b) {
        return std::pair(a.place.file, a.place.line) < std::pair(b.place.file, b.place.line);
    });
    return loaded;
}

FamilyDefinition load_or_throw(const std::string& path, const LoadOptions& options) {
    return std::move(load_file_or_throw(path, options).family);
}

KernelFile load_file_or_throw(const std::string& path, const LoadOptions& options) {
    Loaded loaded = load(path, options);
    if (loaded.is_whole()) return std::move(loaded.file);
    const auto first =
        std::find_if(loaded.findings.begin(), loaded.findings.end(), [](const Finding& each) { return !each.is_warning; });
    const auto faults =
        std::count_if(loaded.findings.begin(), loaded.findings.end(), [](const Finding& each) { return !each.is_warning; });
    std::string text = first->place.text() + ": " + first->text;
    if (faults > 1) text += " (`autotune check " + path + "` tells this and " + std::to_string(faults - 1) + " more)";
    throw Error(ErrorCode::usage, text);
}

}  // namespace autotune::kernel_files
