#include "src/kernel_files/kernel_file.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "src/core/spelling.h"
#include "src/core/system/read_file.h"
#include "src/core/text.h"
#include "src/kernel_files/reader.h"
#include "src/kernel_files/source_text.h"
#include "src/kernel_files/stub_headers.h"

namespace autotune::kernel_files {
namespace {

namespace fs = std::filesystem;

using ArgumentKind = StepDefinition::Argument::Kind;

constexpr std::size_t kMostFileBytes = std::size_t{1} << 20, kMostSourceBytes = std::size_t{16} << 20;
constexpr std::size_t kMostThings = 64, kMostSteps = 32, kMostExtents = 8, kMostArguments = 60, kMostHeaders = 256;
constexpr std::size_t kMostValues = 10'000;
constexpr std::size_t kMostDots = 256;

bool is_word(std::string_view text, bool capitals, std::size_t most) {
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

// The names that an expression may use.
enum class Level : std::uint8_t { problem, device, config };

class Loader {
  public:
    Loader(Loaded& loaded, const std::string& path, const LoadOptions& options)
        : reading_(loaded, path), options_(options), folder_(fs::path(path).parent_path()) {}

    void run() {
        FileContent content = read_regular_file(reading_.path(), kMostFileBytes);
        if (!content.is_read) return reading_.fault({reading_.path()}, "the kernel file cannot be read: " + content.why);
        reading_.file().text = std::move(content.text);
        if (const auto root = parsed()) read(*root);
    }

  private:
    std::optional<toml::table> parsed();
    void read(const toml::table& root);
    void read_op(const toml::table& table);
    void read_attribute(const toml::table& table);
    void read_tensor(const toml::table& table);
    void read_fill(TableReader& table, OpDefinition::Tensor& tensor);
    void read_scalar(const toml::table& table);
    void read_source(const toml::table* table, const toml::table& root);
    void read_headers(const std::string& text, const fs::path& from, const std::vector<fs::path>& folders, const Place& place);
    void read_let(const toml::table& table);
    void read_parameter(const toml::table& table);
    void read_constraint(const toml::table& table);
    void read_workspace(const toml::table& table);
    StepDefinition read_step(const toml::table& table, const std::string& title, Level level);
    void read_loop(TableReader& reader, StepDefinition& step);
    bool read_memory_step(TableReader& reader, StepDefinition& step, Level level);
    std::optional<StepDefinition::Argument> memory_named(const toml::node& node, const std::string& title, Level level);
    StepDefinition::Argument read_pick(const toml::table& table, const std::string& title, Level level);
    void read_prepare(const toml::table& table);
    void read_symbol(TableReader& reader, OpDefinition::Tensor& tensor);
    void read_file_fill(const toml::node& node, OpDefinition::Tensor& tensor);
    void check_symbols();
    StepDefinition::Argument read_argument(const toml::node& node, const std::string& title, Level level);
    void read_check(const toml::table& table);
    void read_config(const toml::table& table);
    void read_examples(const toml::node& node);
    void check_kernel(const StepDefinition& step, const Place& place);
    void check_use();
    void check_names();
    void choose_constants();
    bool is_used(const std::string& name, const Lets& lets) const;
    std::string known_names(Level level) const;

    void use(const std::string& expression, Level level) { uses_.push_back({expression, level, index_}); }
    // One name space: a name means one thing.
    bool take_name(const std::string& name, const std::string& what, const Place& place);
    std::optional<std::string> file_below(const std::string& name, const Place& place);

    Reading reading_;
    const LoadOptions& options_;
    fs::path folder_;
    OpDefinition op_;
    std::map<std::string, std::string> names_;  // what each is: "an extent"
    std::map<std::string, Place> name_places_;
    std::map<std::string, Place> symbol_places_;
    // An expression, the names that it may use, and the index of the loop that it stands in.
    struct Use {
        std::string text;
        Level level;
        std::string index;
    };
    std::vector<Use> uses_;
    std::string index_;  // of the step that is being read
    // Of the user's headers, then of the files, without comments and literals.
    struct Code {
        std::string file;
        std::string text;
    };
    std::vector<Code> codes_;
    std::vector<KernelFound> kernels_;
    std::map<std::string, Place> step_places_;
    std::vector<std::string> workspace_names_;
};

std::optional<toml::table> Loader::parsed() {
    const std::string& text = reading_.file().text;
    std::size_t number = 0;
    for (const std::string& line : split(text, '\n')) {
        ++number;
        // A dotted key makes a table of each of its parts.
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
        reading_.fault(reading_.place_of(error.source()), std::string(error.description()));
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
    reading_.fault(place, known->second == what ? what + " '" + name + "' is there twice"
                                                : what + " '" + name + "' is named like " + known->second);
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
    if (op_.tensors.empty()) top.fault("there is no [[tensor]]");
    if (op_.tensors.size() > kMostThings) top.fault("there are more than 64 tensors");
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
        if (step.action == StepDefinition::Action::launch) step.entry = is_main ? "" : "_" + step.kernel;
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
    top.later({"search", "measure", "facts"});
    top.finish();

    family.name = op_.name + "/main";
    family.about = op_.about;
    family.lets = op_.lets;
    check_names();
    check_symbols();
    choose_constants();
    check_use();
    family.op = std::make_shared<const OpDefinition>(op_);
}

void Loader::read_op(const toml::table& table) {
    TableReader op(reading_, table, "[op]");
    const std::string name = op.needed_text("name");
    if (!name.empty() && !is_word(name, false, 40))
        reading_.fault(reading_.inside(*op.node("name")),
                       "'" + name + "' is no name of an op: small letters, digits and _, at most 40, a letter first");
    if (std::find(options_.taken_names.begin(), options_.taken_names.end(), name) != options_.taken_names.end())
        reading_.fault(reading_.inside(*op.node("name")), "'" + name + "' is a built-in op; choose another name");
    op_.name = "user_" + name;
    op_.about = op.text("about").value_or(name);
    op_.extents = op.texts("extents");
    if (!op.has("extents")) op.fault("'extents' is missing: the names of the numbers that a problem is made of");
    if (op.has("extents") && (op_.extents.empty() || op_.extents.size() > kMostExtents))
        reading_.fault(*op.node("extents"), "there are 1 to 8 extents");
    for (const std::string& extent : op_.extents) {
        if (!is_word(extent, false, 40))
            reading_.fault(*op.node("extents"), "'" + extent + "' is no name of an extent: small letters, digits and _");
        if (extent == "batch")
            reading_.fault(*op.node("extents"), "'batch' has a meaning of its own in shapes; choose another name");
        take_name(extent, "extent", reading_.place_of(*op.node("extents")));
    }
    op_.flops = op.expression("flops", "0");
    if (!op.has("flops"))
        op.fault("'flops' is missing: the floating-point operations of a problem, from which the tolerance follows");
    use(op_.flops, Level::problem);
    op_.bytes = op.expression("bytes", "");
    if (!op_.bytes.empty()) use(op_.bytes, Level::problem);
    for (const toml::table* const each : op.tables("accepts")) {
        TableReader rule(reading_, *each, "accepts");
        const std::string holds = rule.expression("holds", "1");
        if (!rule.has("holds")) rule.fault("'holds' is missing");
        reading_.file().family.accepts.push_back({holds, rule.needed_text("reason")});
        use(holds, Level::device);
        rule.finish();
    }
    // The attributes are not known yet: examples are read in check().
    if (const toml::node* const examples = op.node("examples")) {
        read_examples(*examples);
    } else {
        op.fault("'examples' is missing: shapes that check and verify run; the first is the default");
    }
    op.finish();
}

// "4096x15", "n=4096,k=15", or { shape = "4096", filter = 15 }.
void Loader::read_examples(const toml::node& node) {
    const toml::array* const list = node.as_array();
    if (list == nullptr || list->empty())
        return reading_.fault(node, "'examples' is a list of shapes, such as [\"4096\", \"1000\"]");
    for (const toml::node& each : *list) {
        OpDefinition::Example example;
        std::string shape;
        if (const auto text = each.value_exact<std::string>()) {
            shape = *text;
        } else if (const auto integer = each.value_exact<std::int64_t>()) {
            shape = std::to_string(*integer);
        } else if (const toml::table* const table = each.as_table()) {
            for (const auto& [key, value] : *table) {
                const auto word = value.value_exact<std::string>();
                const auto number = value.value_exact<std::int64_t>();
                if (!word && !number) {
                    reading_.fault(value, "an example's words are texts or integers");
                    continue;
                }
                const std::string said = word ? *word : std::to_string(*number);
                if (key.str() == "shape") {
                    shape = said;
                } else {
                    example.attributes[std::string(key.str())] = said;
                }
            }
        } else {
            reading_.fault(each, "an example is a shape, such as \"4096\" or { shape = \"4096\", filter = 3 }");
            continue;
        }
        std::vector<std::string> parts = split(shape, shape.find('=') == std::string::npos ? 'x' : ',');
        std::vector<std::int64_t> extents(op_.extents.size(), -1);
        bool is_right = parts.size() == op_.extents.size();
        for (std::size_t i = 0; is_right && i < parts.size(); ++i) {
            std::size_t to = i;
            if (const std::size_t equals = parts[i].find('='); equals != std::string::npos) {
                const auto found = std::find(op_.extents.begin(), op_.extents.end(), parts[i].substr(0, equals));
                is_right = found != op_.extents.end();
                to = static_cast<std::size_t>(found - op_.extents.begin());
                parts[i] = parts[i].substr(equals + 1);
            }
            is_right = is_right && !parts[i].empty() && parts[i].size() <= 13 &&
                       parts[i].find_first_not_of("0123456789") == std::string::npos;
            if (is_right) extents[to] = std::stoll(parts[i]);
            is_right = is_right && extents[to] <= std::int64_t{1} << 40;
        }
        if (!is_right || std::find(extents.begin(), extents.end(), -1) != extents.end()) {
            reading_.fault(each, "'" + shape + "' is no shape of the extents " + join(op_.extents) +
                                     "; write numbers of 0 to 2^40 with x between");
            continue;
        }
        example.extents = std::move(extents);
        op_.examples.push_back(std::move(example));
    }
}

void Loader::read_attribute(const toml::table& table) {
    TableReader reader(reading_, table, "[[attribute]]");
    OpDefinition::Attribute attribute;
    attribute.name = reader.needed_text("name");
    if (!attribute.name.empty() && !is_word(attribute.name, false, 40))
        reading_.fault(reading_.inside(*reader.node("name")),
                       "'" + attribute.name + "' is no name of an attribute: small letters, digits and _");
    take_name(attribute.name, "attribute", reader.place());
    if (std::find(options_.taken_options.begin(), options_.taken_options.end(), attribute.name) != options_.taken_options.end())
        reading_.fault(reading_.inside(*reader.node("name")),
                       "--" + attribute.name + " is a flag of the command; choose another name");
    attribute.about = reader.text("about").value_or("");
    const auto value_of = [&](const toml::node& node) -> std::optional<std::string> {
        if (const auto word = node.value_exact<std::string>()) {
            if (is_word(*word, true, 40)) return word;
        } else if (const auto number = node.value_exact<std::int64_t>()) {
            return std::to_string(*number);
        }
        reading_.fault(node, "a value of an attribute is a word or an integer");
        return std::nullopt;
    };
    const toml::node* const values = reader.node("values");
    const toml::array* const list = values == nullptr ? nullptr : values->as_array();
    if (list == nullptr || list->empty()) {
        reader.fault("'values' is missing: a list of words or of integers");
    } else {
        attribute.is_word = (*list)[0].is_string();
        for (const toml::node& each : *list) {
            if (each.is_string() != attribute.is_word)
                reading_.fault(each, "an attribute's values are all words or all integers");
            if (auto value = value_of(each)) attribute.values.push_back(std::move(*value));
        }
    }
    if (!attribute.values.empty()) attribute.otherwise = attribute.values.front();
    if (const toml::node* const otherwise = reader.node("default")) {
        const auto value = value_of(*otherwise);
        if (value && std::find(attribute.values.begin(), attribute.values.end(), *value) == attribute.values.end())
            reading_.fault(*otherwise, "the default of " + attribute.name + " is none of its values");
        if (value) attribute.otherwise = *value;
    }
    reader.later({"free"});
    reader.finish();
    op_.attributes.push_back(std::move(attribute));
}

void Loader::read_tensor(const toml::table& table) {
    TableReader reader(reading_, table, "[[tensor]]");
    OpDefinition::Tensor tensor;
    tensor.name = reader.needed_text("name");
    if (!tensor.name.empty() && !is_word(tensor.name, true, 40))
        reading_.fault(reading_.inside(*reader.node("name")),
                       "'" + tensor.name + "' is no name of a tensor: letters, digits and _, at most 40");
    take_name(tensor.name, "tensor", reader.place());
    tensor.dtype = reader.needed_text("dtype");
    const auto& types = type_words();
    const auto attribute = std::find_if(op_.attributes.begin(), op_.attributes.end(),
                                        [&](const OpDefinition::Attribute& each) { return each.name == tensor.dtype; });
    if (attribute != op_.attributes.end()) {
        for (const std::string& word : attribute->values)
            if (std::find(types.begin(), types.end(), word) == types.end())
                reading_.fault(reading_.inside(*reader.node("dtype")),
                               "attribute '" + tensor.dtype + "' has the value '" + word + "', which is no type of a tensor");
    } else if (!tensor.dtype.empty() && std::find(types.begin(), types.end(), tensor.dtype) == types.end()) {
        reading_.fault(reading_.inside(*reader.node("dtype")), "there is no type '" + tensor.dtype + "'; types are " +
                                                                   join(types) + ", or an attribute whose values are types");
        tensor.dtype = "f32";
    }
    if (tensor.dtype.empty()) tensor.dtype = "f32";
    if (!reader.has("shape")) reader.fault("'shape' is missing; [] is a single element");
    tensor.shape = reader.expressions("shape", autotune::Tensor::kMostDims);
    tensor.strides = reader.expressions("strides", autotune::Tensor::kMostDims);
    for (const auto* const list : {&tensor.shape, &tensor.strides})
        for (const std::string& each : *list) use(each, Level::problem);
    if (reader.has("strides") && tensor.strides.size() != tensor.shape.size())
        reading_.fault(*reader.node("strides"), "tensor " + tensor.name + " has " + std::to_string(tensor.shape.size()) +
                                                    " dimensions and " + std::to_string(tensor.strides.size()) + " strides");
    if (!reader.has("access")) reader.fault("'access' is missing: in, out or inout");
    const std::string access = reader.one_of("access", {"in", "out", "inout"}, "in");
    tensor.access = access == "out" ? Access::out : access == "inout" ? Access::inout : Access::in;
    if (const auto align = reader.integer("align")) {
        const bool is_power = *align == 1 || *align == 2 || *align == 4 || *align == 8 || *align == 16;
        if (!is_power) reading_.fault(*reader.node("align"), "'align' is 1, 2, 4, 8 or 16");
        const auto type = parse_dtype(tensor.dtype);
        if (is_power && type && *align < static_cast<std::int64_t>(size_bytes(*type)))
            reading_.fault(*reader.node("align"), "'align' is less than the size of an element");
        if (is_power) tensor.align = static_cast<int>(*align);
    }
    read_fill(reader, tensor);
    if (reader.has("reset")) {
        const std::string reset = reader.one_of("reset", {"none", "fill", "zero"}, "fill");
        if (reset == "zero" && tensor.access == Access::inout) tensor.fill = {"constant", {{"value", "0"}}};
        if (reset != "none" && tensor.access != Access::inout)
            reading_.fault(*reader.node("reset"), "only a tensor that is inout is reset");
        tensor.is_reset = reset != "none";
    }
    if (const auto is_checked = reader.boolean("check")) {
        tensor.is_checked = *is_checked;
        if (tensor.access == Access::in)
            reading_.fault(*reader.node("check"),
                           "a tensor that is in must not change; make it inout if kernels may leave anything in it");
    }
    read_symbol(reader, tensor);
    reader.later({"optional", "rotate"});
    reader.finish();
    op_.tensors.push_back(std::move(tensor));
}

void Loader::read_fill(TableReader& reader, OpDefinition::Tensor& tensor) {
    static const auto& plain = *new std::vector<std::string>{"normal", "uniform", "integers"};
    static const auto& keys = *new std::map<std::string, std::vector<std::string>>{{"normal", {"mean", "deviation"}},
                                                                                   {"uniform", {"low", "high"}},
                                                                                   {"integers", {"low", "high"}},
                                                                                   {"offsets", {"total", "longest"}}};
    const toml::node* const fill = reader.node("fill");
    if (fill == nullptr) {
        const auto type = parse_dtype(tensor.dtype);
        if (type && traits_of(*type).kind == NumberKind::integer && tensor.access != Access::out)
            reader.fault("tensor " + tensor.name +
                         " holds integers: say its 'fill', such as \"integers\" or { indices = \"n\" }");
        return;
    }
    if (tensor.access == Access::out) return reading_.fault(*fill, "a tensor that is only written has no fill");
    if (const auto word = fill->value_exact<std::string>()) {
        if (std::find(plain.begin(), plain.end(), *word) == plain.end())
            return reading_.fault(reading_.inside(*fill),
                                  "there is no fill '" + *word + "'; fills are " + join(plain) +
                                      ", { indices = ... }, { constant = ... }, { offsets = ... } and { npy = ... }");
        tensor.fill.kind = *word;
        return;
    }
    const toml::table* const table = fill->as_table();
    if (table == nullptr || table->size() != 1)
        return reading_.fault(*fill, "'fill' is a word, or a table of one fill, such as { constant = 0 }");
    const std::string kind(table->begin()->first.str());
    const toml::node& inside = table->begin()->second;
    tensor.fill.kind = kind;
    if (kind == "npy") return read_file_fill(inside, tensor);
    if (kind == "indices" || kind == "constant") {
        const std::string text = reader.expression_of(inside, kind);
        tensor.fill.values[kind == "indices" ? "count" : "value"] = text;
        return use(text, Level::problem);
    }
    const auto known = keys.find(kind);
    if (known == keys.end()) {
        static const auto& coming =
            *new std::vector<std::string>{"permutation", "sorted", "bits", "iota", "mask", "raw", "one_hot", "quantised"};
        const bool comes = std::find(coming.begin(), coming.end(), kind) != coming.end();
        return reading_.fault(
            *fill, "fill '" + kind + "' " +
                       (comes ? "is part of the format, and this version does not do it yet"
                              : "is not known; fills are normal, uniform, integers, indices, constant, offsets and npy"));
    }
    const toml::table* const values = inside.as_table();
    if (values == nullptr)
        return reading_.fault(inside, "fill '" + kind + "' takes a table with " + join(known->second, " and "));
    TableReader more(reading_, *values, "fill " + kind);
    for (const std::string& key : known->second) {
        if (!more.has(key)) continue;
        tensor.fill.values[key] = more.expression(key, "0");
        use(tensor.fill.values[key], Level::problem);
    }
    if (kind == "offsets" && !more.has("total")) more.fault("'total' is missing");
    if (kind == "offsets") more.later({"power", "parts"});
    more.finish();
}

// A file of numpy beside the kernel file, which the worker reads.
void Loader::read_file_fill(const toml::node& node, OpDefinition::Tensor& tensor) {
    const auto name = node.value_exact<std::string>();
    if (!name) return reading_.fault(node, "'npy' is the name of a file, in quotes");
    const auto path = file_below(*name, reading_.inside(node));
    if (!path) return;
    if (!tensor.strides.empty()) reading_.fault(node, "a tensor from a file is dense: leave 'strides' out");
    std::error_code ignored;
    if (options_.needs_data && !fs::is_regular_file(*path, ignored))
        reading_.fault(reading_.inside(node), "there is no file " + *name + " beside the kernel file");
    tensor.fill.file = *name;
    tensor.fill.path = fs::absolute(*path, ignored).string();
}

// A __constant__ or __device__ array of the source that gets the tensor's content.
void Loader::read_symbol(TableReader& reader, OpDefinition::Tensor& tensor) {
    const auto symbol = reader.text("symbol");
    if (!symbol) return;
    const Place place = reading_.inside(*reader.node("symbol"));
    if (tensor.access != Access::in) reading_.fault(place, "only a tensor that is in has a symbol");
    if (!tensor.strides.empty()) reading_.fault(place, "a tensor with a symbol is dense: leave 'strides' out");
    if (!is_word(*symbol, true, 64))
        reading_.fault(place, "'" + *symbol + "' is no name of an array of the source: letters, digits and _");
    tensor.symbol = *symbol;
    symbol_places_[*symbol] = place;
}

void Loader::check_symbols() {
    if (op_.source.files.empty()) return;  // told already
    for (const auto& [symbol, place] : symbol_places_) {
        const bool is_there =
            std::any_of(codes_.begin(), codes_.end(), [&](const Code& code) { return has_device_array(code.text, symbol); });
        if (!is_there) reading_.fault(place, "the source has no __constant__ or __device__ array '" + symbol + "'");
    }
}

void Loader::read_scalar(const toml::table& table) {
    TableReader reader(reading_, table, "[[scalar]]");
    OpDefinition::Scalar scalar;
    scalar.name = reader.needed_text("name");
    take_name(scalar.name, "scalar", reader.place());
    scalar.type = reader.one_of("type", {"f32", "i32", "u64"}, "f32");
    scalar.value = reader.expression("value", "1");
    if (!reader.has("value")) reader.fault("'value' is missing: what tuning passes");
    use(scalar.value, Level::problem);
    reader.later({"also"});
    reader.finish();
    op_.scalars.push_back(std::move(scalar));
}

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
        if (!is_allowed_option(option))
            reading_.fault(
                *reader.node("options"),
                "option '" + option +
                    "' is not allowed; allowed are --use_fast_math and its parts, -lineinfo, --restrict, --maxrregcount=N, "
                    "--extra-device-vectorization, -diag-suppress=N, -Xptxas=-O0 to -O3 and -Xptxas=-dlcm=");
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

// Headers that a text reaches. The compiler is given them by the names in the text, and no path.
void Loader::read_headers(const std::string& text, const fs::path& from, const std::vector<fs::path>& folders,
                          const Place& place) {
    for (const IncludeFound& include : includes_in(text)) {
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
        bool is_in_toolkit = false;
        for (const std::string& folder : options_.toolkit.folders)
            is_in_toolkit = is_in_toolkit || fs::exists(fs::path(folder) / include.name, ignored);
        if (is_in_toolkit) {
            op_.source.toolkit_folders = options_.toolkit.folders;
            op_.source.toolkit_version = options_.toolkit.version;
        } else {
            reading_.fault(here,
                           "<" + include.name +
                               "> needs the toolkit's headers, which are not here: install the CUDA toolkit, or set CUDA_PATH");
        }
    }
}

void Loader::read_let(const toml::table& table) {
    TableReader reader(reading_, table, "[let]");
    for (const auto& [key, value] : table) {
        const std::string name(key.str());
        if (!is_word(name, true, 64)) {
            reading_.fault(reading_.place_of(key.source(), name.size()), "'" + name + "' is no name: letters, digits and _");
            continue;
        }
        take_name(name, "[let]", reading_.place_of(key.source(), name.size()));
        op_.lets.push_back({name, reader.expression_of(value, name)});
    }
    try {
        const Lets lets(op_.lets);
    } catch (const Error& error) {
        const std::string what = error.what();
        const std::string name = what.substr(1, what.find('\'', 1) - 1);
        const auto place = name_places_.find(name);
        reading_.fault(place == name_places_.end() ? reader.place() : place->second, what);
        op_.lets.clear();
    }
}

void Loader::read_parameter(const toml::table& table) {
    TableReader reader(reading_, table, "[[parameter]]");
    FamilyDefinition& family = reading_.file().family;
    Parameter parameter;
    parameter.name = reader.needed_text("name");
    if (!parameter.name.empty() && !is_word(parameter.name, true, 64))
        reading_.fault(reading_.inside(*reader.node("name")),
                       "'" + parameter.name + "' is no name of a parameter: letters, digits and _, at most 64");
    const bool is_new = take_name(parameter.name, "parameter", reader.place());
    parameter.about = reader.text("about").value_or("");
    const std::string type = reader.one_of("type", {"int", "bool", "word", "type"}, "int");
    const bool has_words = type == "word" || type == "type";
    parameter.kind =
        reader.one_of("kind", {"compile", "launch"}, "compile") == "launch" ? ParameterKind::launch : ParameterKind::compile;
    std::vector<std::string> words;
    const auto position = [&](const std::string& word) {
        return static_cast<std::int64_t>(std::find(words.begin(), words.end(), word) - words.begin());
    };
    if (const toml::node* const values = reader.node("values")) {
        const toml::array* const list = values->as_array();
        if (list == nullptr) reading_.fault(*values, "'values' is a list");
        for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
            const toml::node& each = (*list)[i];
            if (has_words) {
                const auto word = each.value_exact<std::string>();
                const bool is_plain =
                    word && !word->empty() && word->size() <= 64 &&
                    word->find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:<>, *") ==
                        std::string::npos;
                if (!is_plain) reading_.fault(each, "a value of " + parameter.name + " is a word of the source, in quotes");
                if (is_plain && position(*word) < static_cast<std::int64_t>(words.size()))
                    reading_.fault(each, "value '" + *word + "' of " + parameter.name + " is there twice");
                if (is_plain) words.push_back(*word);
            } else if (const auto number = each.value_exact<std::int64_t>()) {
                parameter.values.push_back(*number);
            } else if (const auto truth = each.value_exact<bool>(); truth && type == "bool") {
                parameter.values.push_back(*truth ? 1 : 0);
            } else {
                reading_.fault(each, "a value of " + parameter.name + " is an integer; words need type = \"word\"");
            }
        }
        if (list != nullptr && list->empty()) reading_.fault(*values, "parameter " + parameter.name + " has no values");
        if (parameter.values.size() + words.size() > kMostValues)
            reading_.fault(*values, "parameter " + parameter.name + " has more than 10,000 values");
    }
    const auto bounds = [&](std::string_view key, std::size_t count) -> std::vector<std::int64_t> {
        const toml::node* const node = reader.node(key);
        std::vector<std::int64_t> all;
        if (node == nullptr) return all;
        if (const toml::array* const list = node->as_array())
            for (const toml::node& each : *list)
                if (const auto number = each.value_exact<std::int64_t>()) all.push_back(*number);
        const bool is_right = all.size() == count && all[0] <= all[1] && (count < 3 || all[2] > 0);
        if (is_right) return all;
        reading_.fault(*node, key == "range" ? "'range' is [first, last, step] with a step above 0"
                                             : "'powers' is [first, last], two powers of two");
        return {};
    };
    if (const auto range = bounds("range", 3); !range.empty()) {
        if ((range[1] - range[0]) / range[2] >= static_cast<std::int64_t>(kMostValues)) {
            reading_.fault(*reader.node("range"), "parameter " + parameter.name + " has more than 10,000 values");
        } else {
            for (std::int64_t value = range[0]; value <= range[1]; value += range[2]) parameter.values.push_back(value);
        }
    }
    if (const auto powers = bounds("powers", 2); !powers.empty()) {
        if (powers[0] < 1 || (powers[0] & (powers[0] - 1)) != 0 || powers[1] > std::int64_t{1} << 60) {
            reading_.fault(*reader.node("powers"), "'powers' is [first, last], two powers of two");
        } else {
            for (std::int64_t value = powers[0]; value <= powers[1]; value *= 2) parameter.values.push_back(value);
        }
    }
    if (type == "bool" && parameter.values.empty()) parameter.values = {0, 1};
    if (has_words) {
        parameter.values.resize(words.size());
        std::iota(parameter.values.begin(), parameter.values.end(), 0);
    }
    std::sort(parameter.values.begin(), parameter.values.end());
    if (std::adjacent_find(parameter.values.begin(), parameter.values.end()) != parameter.values.end())
        reader.fault("a value of " + parameter.name + " is there twice");
    if (parameter.values.empty() && !reader.has("values") && !reader.has("range") && !reader.has("powers"))
        reader.fault("parameter " + parameter.name + " has no values; give 'values', 'range' or 'powers'");
    std::int64_t otherwise = parameter.values.empty() ? 0 : parameter.values.front();
    if (const toml::node* const given = reader.node("default")) {
        std::optional<std::int64_t> value = given->value_exact<std::int64_t>();
        if (const auto truth = given->value_exact<bool>(); truth && type == "bool") value = *truth ? 1 : 0;
        if (const auto word = given->value_exact<std::string>(); word && has_words) value = position(*word);
        if (!value || !std::binary_search(parameter.values.begin(), parameter.values.end(), *value)) {
            reading_.fault(*given, "the default of " + parameter.name + " is none of its values");
        } else {
            otherwise = *value;
        }
    }
    reader.finish();
    if (!is_new) return;
    family.default_config.set(parameter.name, otherwise);
    if (has_words) family.words[parameter.name] = words;
    family.parameters.push_back(std::move(parameter));
}

void Loader::read_constraint(const toml::table& table) {
    TableReader reader(reading_, table, "[[constraint]]");
    const std::string holds = reader.expression("holds", "1");
    if (!reader.has("holds")) reader.fault("'holds' is missing");
    reading_.file().family.constraints.push_back({holds, reader.needed_text("reason")});
    use(holds, Level::config);
    reader.finish();
}

void Loader::read_workspace(const toml::table& table) {
    TableReader reader(reading_, table, "[[workspace]]");
    FamilyDefinition::Workspace workspace;
    workspace.name = reader.needed_text("name");
    take_name(workspace.name, "workspace", reader.place());
    workspace.bytes = reader.expression("bytes", "");
    const std::string elements = reader.expression("elements", "");
    const std::string dtype = reader.one_of("dtype", type_words(), "f32");
    if (workspace.bytes.empty() == elements.empty()) reader.fault("give 'elements' with 'dtype', or 'bytes'");
    for (const std::string& each : {workspace.bytes, elements})
        if (!each.empty()) use(each, Level::config);
    if (workspace.bytes.empty()) {
        workspace.bytes = elements.empty() ? "0" : "(" + elements + ") * " + std::to_string(size_bytes(*parse_dtype(dtype)));
    }
    const std::string zero = reader.one_of("zero", {"no", "once", "each"}, "no");
    workspace.is_zero_once = zero == "once";
    workspace.is_zero_each = zero == "each";
    reader.finish();
    workspace_names_.push_back(workspace.name);
    reading_.file().family.workspaces.push_back(std::move(workspace));
}

StepDefinition::Argument Loader::read_argument(const toml::node& node, const std::string& title, Level level) {
    const auto text = node.value_exact<std::string>();
    if (!text) {
        const toml::table* const table = node.as_table();
        if (table != nullptr && table->contains("pick")) return read_pick(*table, title, level);
        reading_.fault(node,
                       table != nullptr
                           ? title + ": arguments of this kind are part of the format, and this version does not do them yet"
                           : title + ": an argument is a name, or a type and an expression, such as \"i32: n\"");
        return {};
    }
    const auto is_named = [&](const auto& all) {
        return std::any_of(all.begin(), all.end(), [&](const auto& each) { return each.name == *text; });
    };
    if (is_named(op_.tensors)) return {ArgumentKind::tensor, *text};
    if (is_named(op_.scalars)) return {ArgumentKind::scalar, *text};
    if (std::find(workspace_names_.begin(), workspace_names_.end(), *text) != workspace_names_.end()) {
        if (level == Level::config) return {ArgumentKind::named_workspace, *text};
        reading_.fault(node, "the reference has no workspace");
        return {};
    }
    const std::map<std::string, ArgumentKind>& kinds = computed_argument_types();
    std::vector<std::string> known;
    for (const auto& [word, kind] : kinds) known.push_back(word);
    const std::size_t colon = text->find(':');
    Place place = reading_.inside(node);
    if (colon == std::string::npos) {
        std::vector<std::string> names;
        for (const auto& each : op_.tensors) names.push_back(each.name);
        for (const auto& each : op_.scalars) names.push_back(each.name);
        names.insert(names.end(), workspace_names_.begin(), workspace_names_.end());
        place.length = text->size();
        reading_.fault(place, "there is no tensor, scalar or workspace '" + *text + "'" + did_you_mean(*text, names) +
                                  "; a number needs its type, such as \"i32: " + *text + "\"");
        return {};
    }
    const std::string word(trimmed(std::string_view(*text).substr(0, colon)));
    const auto kind = kinds.find(word);
    if (kind == kinds.end()) {
        place.length = word.size();
        reading_.fault(place, "there is no type '" + word + "' of an argument; types are " + join(known));
        return {};
    }
    std::size_t begin = colon + 1;
    while (begin < text->size() && (*text)[begin] == ' ') ++begin;
    const std::string expression = text->substr(begin);
    if (place.column > 0) place.column += begin;
    if (!reading_.take_expression(expression, place)) return {kind->second, "0"};
    // With its type it is found again among equal expressions.
    reading_.file().expressions.emplace(word + ": " + expression, place);
    use(expression, level);
    return {kind->second, expression};
}

// One of several arguments, chosen by a number.
StepDefinition::Argument Loader::read_pick(const toml::table& table, const std::string& title, Level level) {
    TableReader reader(reading_, table, title + ", pick");
    StepDefinition::Argument argument{ArgumentKind::pick, reader.expression("pick", "0")};
    use(argument.value, level);
    const toml::node* const of = reader.node("of");
    const toml::array* const list = of == nullptr ? nullptr : of->as_array();
    if (list == nullptr || list->empty()) {
        reader.fault("'of' is missing: the list of arguments from which one is chosen");
    } else {
        for (const toml::node& each : *list) {
            if (each.is_table()) {
                reading_.fault(each, title + ": an argument in 'of' is a name, or a type and an expression");
                continue;
            }
            argument.of.push_back(read_argument(each, title, level));
        }
    }
    reader.finish();
    if (argument.of.empty()) argument.of.push_back({});
    return argument;
}

// Steps that follow each other with the same repeat and index are one loop.
void Loader::read_loop(TableReader& reader, StepDefinition& step) {
    index_ = reader.text("index").value_or("");
    step.index = index_;
    if (!index_.empty()) {
        const Place place = reading_.inside(*reader.node("index"));
        const auto known = names_.find(index_);
        if (!is_word(index_, true, 64)) {
            reading_.fault(place, "'" + index_ + "' is no name: letters, digits and _");
        } else if (known == names_.end()) {
            take_name(index_, "index", place);
        } else if (known->second != "index") {
            reading_.fault(place, "index '" + index_ + "' is named like " + known->second);
        }
        if (!reader.has("repeat")) reader.fault("'index' needs 'repeat', the number of rounds");
    }
    const std::string index = std::exchange(index_, "");
    step.repeat = reader.expression("repeat", "1");
    use(step.repeat, Level::config);
    index_ = index;
}

// The memory of a tensor or workspace, for steps that write zeros or copy.
std::optional<StepDefinition::Argument> Loader::memory_named(const toml::node& node, const std::string& title, Level level) {
    const auto name = node.value_exact<std::string>();
    const auto tensor = std::find_if(op_.tensors.begin(), op_.tensors.end(),
                                     [&](const OpDefinition::Tensor& each) { return name && each.name == *name; });
    if (tensor != op_.tensors.end()) {
        if (!tensor->strides.empty())
            reading_.fault(node,
                           title + ": tensor " + *name + " has strides of its own, and only dense tensors are copied or zeroed");
        return StepDefinition::Argument{ArgumentKind::tensor, *name};
    }
    const bool is_workspace =
        name && std::find(workspace_names_.begin(), workspace_names_.end(), *name) != workspace_names_.end();
    if (is_workspace && level == Level::config) return StepDefinition::Argument{ArgumentKind::named_workspace, *name};
    reading_.fault(node, title + ": there is no tensor or workspace '" + name.value_or("") + "'");
    return std::nullopt;
}

// Whether the step is one that writes zeros or copies.
bool Loader::read_memory_step(TableReader& reader, StepDefinition& step, Level level) {
    const toml::node* const zero = reader.node("zero");
    const toml::node* const copy = reader.node("copy");
    if (zero == nullptr && copy == nullptr) return false;
    step.action = zero != nullptr ? StepDefinition::Action::zero : StepDefinition::Action::copy;
    step.when = reader.expression("when", "1");
    use(step.when, level);
    index_.clear();
    const auto add = [&](const toml::node& node) {
        if (auto memory = memory_named(node, reader.title(), level)) step.arguments.push_back(std::move(*memory));
    };
    if (zero != nullptr) add(*zero);
    if (copy != nullptr) {
        const toml::table* const both = copy->as_table();
        const toml::node* const from = both == nullptr ? nullptr : both->get("from");
        const toml::node* const to = both == nullptr ? nullptr : both->get("to");
        if (from == nullptr || to == nullptr || zero != nullptr) {
            reading_.fault(*copy, "'copy' is { from = \"...\", to = \"...\" }, two tensors or workspaces");
        } else {
            add(*from), add(*to);
        }
    }
    if (reader.has("kernel")) reader.fault("a step has a kernel, 'zero' or 'copy'");
    const std::string target = step.arguments.empty() ? "" : step.arguments.back().value;
    for (const OpDefinition::Tensor& tensor : op_.tensors)
        if (tensor.name == target && tensor.access == Access::in && level == Level::config)
            reader.fault("tensor " + target + " is in, and this step writes it");
    reader.finish();
    return true;
}

// Launches of the reference's unit that write tensors before anything is run on them.
void Loader::read_prepare(const toml::table& table) {
    if (op_.prepare.size() == kMostSteps) return reading_.fault(table, "there are more than 32 steps of preparation");
    StepDefinition step = read_step(table, "[[prepare]]", Level::problem);
    if (step.action == StepDefinition::Action::launch) step.entry = "_" + step.kernel;
    op_.prepare.push_back(std::move(step));
}

StepDefinition Loader::read_step(const toml::table& table, const std::string& title, Level level) {
    TableReader reader(reading_, table, title);
    StepDefinition step;
    if (reader.later({"cooperative", "cluster"})) return step;
    read_loop(reader, step);
    if (read_memory_step(reader, step, level)) return step;
    step.kernel = reader.needed_text("kernel");
    const auto three = [&](std::string_view key, std::array<std::string, 3>& to, bool is_needed) {
        if (!reader.has(key) && is_needed) reader.fault("'" + std::string(key) + "' is missing");
        const std::vector<std::string> given = reader.expressions(key, 3);
        std::copy(given.begin(), given.end(), to.begin());
        for (const std::string& each : given) use(each, level);
    };
    three("grid", step.grid, true);
    three("block", step.block, true);
    step.dynamic_smem_bytes = reader.expression("smem", "0");
    step.when = reader.expression("when", "1");
    step.programmatic_dependent = reader.expression("pdl", "0");
    for (const std::string* const each : {&step.dynamic_smem_bytes, &step.when, &step.programmatic_dependent}) use(*each, level);
    const toml::node* const arguments = reader.node("args");
    if (arguments == nullptr) {
        reader.fault("'args' is missing: the kernel's arguments in order");
    } else if (const toml::array* const list = arguments->as_array()) {
        if (list->size() > kMostArguments) reading_.fault(*arguments, "a kernel takes at most 60 arguments");
        for (const toml::node& each : *list)
            if (step.arguments.size() < kMostArguments) step.arguments.push_back(read_argument(each, title, level));
    } else {
        reading_.fault(*arguments, "'args' is a list");
    }
    if (!step.kernel.empty()) check_kernel(step, reading_.inside(*reader.node("kernel")));
    if (level == Level::problem) reader.node("inputs");  // read_check() reads it
    index_.clear();
    reader.finish();
    return step;
}

void Loader::check_kernel(const StepDefinition& step, const Place& at) {
    Place place = at;
    place.length = step.kernel.size();
    if (op_.source.files.empty()) return;  // told already
    std::vector<std::string> names;
    for (const KernelFound& kernel : kernels_) names.push_back(kernel.name);
    const auto found =
        std::find_if(kernels_.begin(), kernels_.end(), [&](const KernelFound& each) { return each.name == step.kernel; });
    if (found == kernels_.end()) {
        const bool is_expression = step.kernel.find_first_of("<:") != std::string::npos;
        reading_.fault(place, is_expression ? "kernels named by an expression are part of the format, and this version does not "
                                              "do them yet; write an extern \"C\" kernel that calls the template"
                                            : "there is no kernel '" + step.kernel + "' in " + op_.source.files.front().name +
                                                  did_you_mean(step.kernel, names) +
                                                  (names.empty() ? "; it has none" : "; it has " + join(names)));
        return;
    }
    if (found->is_template)
        reading_.fault(place, "kernel '" + step.kernel + "' is a template; write an extern \"C\" kernel that calls it");
    if (found->parameters != step.arguments.size())
        reading_.fault(place, "kernel '" + step.kernel + "' takes " + std::to_string(found->parameters) +
                                  " arguments, and 'args' has " + std::to_string(step.arguments.size()));
}

void Loader::read_check(const toml::table& table) {
    TableReader reader(reading_, table, "[check]");
    if (const toml::table* const reference = reader.table("reference")) {
        TableReader inputs(reading_, *reference, "[check.reference]");
        op_.widens_inputs = inputs.one_of("inputs", {"f64", "as_is"}, "f64") == "f64";
        StepDefinition step = read_step(*reference, "[check.reference]", Level::problem);
        step.entry = "_" + step.kernel;
        for (const OpDefinition::Tensor& tensor : op_.tensors) {
            const bool is_there = std::any_of(step.arguments.begin(), step.arguments.end(), [&](const auto& argument) {
                return argument.kind == ArgumentKind::tensor && argument.value == tensor.name;
            });
            if (tensor.access != Access::in && tensor.is_checked && !is_there)
                reading_.fault(inputs.place(),
                               "the reference does not write tensor " + tensor.name + ": it is none of its arguments");
        }
        op_.reference = {std::move(step)};
    } else if (!reader.has("reference")) {
        const bool comes = reader.has("program") || reader.has("expected") || reader.has("none");
        if (!comes) reader.fault("'reference' is missing: a kernel of the same source that computes the right answer in double");
    }
    reader.later({"program", "expected", "none", "compare"});
    if (const toml::node* const exact = reader.node("exact")) {
        const auto truth = exact->value_exact<bool>();
        const auto word = exact->value_exact<std::string>();
        if (!truth && !(word && *word == "auto")) reading_.fault(*exact, "'exact' is \"auto\" or false");
        if (truth) op_.has_exact_test = *truth;
    }
    if (reader.has("deterministic")) {
        reading_.file().family.deterministic = reader.expression("deterministic", "1");
        use(reading_.file().family.deterministic, Level::config);
    }
    if (const toml::table* const tolerances = reader.table("tolerance")) {
        for (const auto& [key, value] : *tolerances) {
            const std::string name(key.str());
            const auto tensor =
                std::find_if(op_.tensors.begin(), op_.tensors.end(), [&](const auto& each) { return each.name == name; });
            const toml::table* const numbers = value.as_table();
            if (tensor == op_.tensors.end() || tensor->access == Access::in) {
                reading_.fault(reading_.place_of(key.source(), name.size()), "'" + name + "' is no tensor that is written");
            } else if (numbers == nullptr) {
                reading_.fault(value, "a tolerance is a table, such as { rtol = 1e-5 }");
            } else {
                TableReader one(reading_, *numbers, "tolerance");
                const double rtol = one.number("rtol").value_or(0), atol = one.number("atol").value_or(0);
                if (rtol < 0 || atol < 0 || rtol > 1) one.fault("'rtol' is 0 to 1, 'atol' 0 and more");
                one.later({"norm"});
                one.finish();
                op_.tolerances.push_back({name, rtol, atol});
            }
        }
    }
    reader.finish();
}

void Loader::read_config(const toml::table& table) {
    TableReader reader(reading_, table, "[[config]]");
    FamilyDefinition& family = reading_.file().family;
    NamedConfig named{reader.needed_text("name"), family.default_config};
    if (!named.name.empty() && !is_word(named.name, false, 64))
        reading_.fault(reading_.inside(*reader.node("name")),
                       "'" + named.name + "' is no name of a config: small letters, digits and _");
    const toml::node* const node = reader.node("values");
    const toml::table* const values = node == nullptr ? nullptr : node->as_table();
    if (values == nullptr) {
        reader.fault("'values' is missing: a table of parameters");
    } else {
        for (const auto& [key, value] : *values) {
            const std::string name(key.str());
            std::vector<std::string> known;
            for (const Parameter& parameter : family.parameters) known.push_back(parameter.name);
            const auto parameter = std::find_if(family.parameters.begin(), family.parameters.end(),
                                                [&](const Parameter& each) { return each.name == name; });
            if (parameter == family.parameters.end()) {
                reading_.fault(reading_.place_of(key.source(), name.size()),
                               "there is no parameter '" + name + "'" + did_you_mean(name, known));
                continue;
            }
            std::optional<std::int64_t> number = value.value_exact<std::int64_t>();
            if (const auto truth = value.value_exact<bool>()) number = *truth ? 1 : 0;
            if (const auto word = value.value_exact<std::string>())
                if (const auto words = family.words.find(name); words != family.words.end())
                    number = std::find(words->second.begin(), words->second.end(), *word) - words->second.begin();
            if (!number || !std::binary_search(parameter->values.begin(), parameter->values.end(), *number)) {
                reading_.fault(value, "config " + named.name + " sets " + name + " to none of its values");
            } else {
                named.config.set(name, *number);
            }
        }
    }
    reader.finish();
    family.named.push_back(std::move(named));
}

std::string Loader::known_names(Level level) const {
    std::string text;
    const auto list = [&](const char* what, const std::vector<std::string>& names) {
        if (names.empty()) return;
        constexpr std::size_t kMostTold = 12;
        const std::vector<std::string> told(names.begin(),
                                            names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostTold)));
        text += std::string(text.empty() ? "" : "; ") + what + " " + join(told) + (names.size() > kMostTold ? ", ..." : "");
    };
    const auto names_of = [](const auto& all) {
        std::vector<std::string> names;
        for (const auto& each : all) names.push_back(each.name);
        return names;
    };
    if (level == Level::config) list("parameters", names_of(reading_.file().family.parameters));
    list("extents", op_.extents);
    list("attributes", names_of(op_.attributes));
    list("[let]", names_of(op_.lets));
    if (level != Level::problem) list("device", device_names());
    return text;
}

void Loader::check_names() {
    const FamilyDefinition& family = reading_.file().family;
    std::vector<std::string> problem(op_.extents), device(device_names()), config, words(type_words());
    for (const auto& attribute : op_.attributes) {
        problem.push_back(attribute.name);
        if (!attribute.is_word) continue;
        words.insert(words.end(), attribute.values.begin(), attribute.values.end());
        for (const std::string& word : attribute.values) problem.push_back(attribute.name + "." + word);
    }
    for (const auto& tensor : op_.tensors)
        for (const std::string& property : tensor_properties()) {
            const char last = property.back();
            const bool is_dimension = last >= '0' && last <= '4';
            if (!is_dimension || static_cast<std::size_t>(last - '0') < tensor.shape.size())
                problem.push_back(tensor.name + "." + property);
        }
    for (const Parameter& parameter : family.parameters) config.push_back(parameter.name);
    for (const auto& [parameter, spelled] : family.words) words.insert(words.end(), spelled.begin(), spelled.end());
    const auto has = [](const std::vector<std::string>& all, const std::string& name) {
        return std::find(all.begin(), all.end(), name) != all.end();
    };

    std::optional<Lets> lets;
    try {
        lets.emplace(op_.lets);
    } catch (const Error&) {
        return;  // told already
    }
    for (const Let& let : op_.lets) use(let.value, Level::config);
    for (const auto& [text, level, index] : uses_) {
        const Expression expression(text);
        for (const std::string& name : lets->names_of(expression)) {
            if (!index.empty() && name == index) continue;
            if (has(problem, name) || (level != Level::problem && has(device, name)) ||
                (level == Level::config && has(config, name)))
                continue;
            const bool is_own = std::find(expression.names().begin(), expression.names().end(), name) != expression.names().end();
            if (is_own && expression.may_be_word(name) && has(words, name)) continue;
            const bool is_word_of_let = !is_own && has(words, name);
            if (is_word_of_let) continue;
            std::vector<std::string> known = problem;
            if (level != Level::problem) known.insert(known.end(), device.begin(), device.end());
            if (level == Level::config) known.insert(known.end(), config.begin(), config.end());
            for (const Let& let : op_.lets) known.push_back(let.name);
            std::string what = "there is no '" + name + "'" + did_you_mean(name, known);
            if (has(config, name))
                what = "parameter '" + name + "' has no value here, where only the problem" +
                       (level == Level::device ? " and the device are" : " is") + " known";
            if (!has(config, name) && has(device, name))
                what = "'" + name + "' is a number of the device, and only the problem is known here";
            if (!is_own) what = "by a [let]: " + what;
            const auto known_place = reading_.file().expressions.find(text);
            Place place = known_place == reading_.file().expressions.end() ? Place{reading_.path()} : known_place->second;
            if (place.column > 0 && is_own) {
                place.column += expression.offset_of(name);
                place.length = name.size();
            }
            reading_.fault(place, what + "; known here are " + known_names(level));
        }
    }
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
    // "hotspot.cu:12", where the source defines a macro of this name itself; empty: nowhere.
    const auto definition = [&](const std::string& name) -> std::string {
        for (std::size_t i = 0; i < seen.size(); ++i)
            for (const SourceSeen::Define& define : seen[i].defines)
                if (define.name == name) return codes_[i].file + ":" + std::to_string(define.line);
        return "";
    };
    for (const Let& let : op_.lets) {
        if (!is_mentioned(let.name)) continue;
        if (const std::string defined = definition(let.name); !defined.empty()) {
            reading_.fault(name_places_[let.name],
                           "[let] " + let.name + ": the source defines '" + let.name + "' itself at " + defined +
                               ", so this one stays out of the source; put that line into `#ifndef " + let.name + "`",
                           true);
            continue;
        }
        // A variable of the source. Where it is not declared the compiler says so.
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
    for (const Parameter& parameter : family.parameters) {
        if (parameter.kind == ParameterKind::launch || op_.source.files.empty()) continue;
        if (const std::string defined = definition(parameter.name); !defined.empty()) {
            reading_.fault(name_places_[parameter.name],
                           "the source defines parameter " + parameter.name + " itself at " + defined +
                               ", so its values never reach the kernel; put that line into `#ifndef " + parameter.name +
                               "` or `#ifndef AUTOTUNE`");
        } else if (!is_mentioned(parameter.name)) {
            reading_.file().unseen_parameters.push_back(parameter.name);
            reading_.fault(
                name_places_[parameter.name],
                "the source does not use parameter " + parameter.name +
                    (is_used(parameter.name, *lets) ? "; add kind = \"launch\", which says that it changes the launch alone"
                                                    : ", and neither does a step"),
                true);
        }
    }
}

// Tensors that no step is given.
void Loader::check_use() {
    const FamilyDefinition& family = reading_.file().family;
    if (family.steps.empty()) return;
    const auto uses = [](const StepDefinition& step, const std::string& name) {
        const auto is_it = [&](const StepDefinition::Argument& argument) {
            return argument.kind == ArgumentKind::tensor && argument.value == name;
        };
        return std::any_of(step.arguments.begin(), step.arguments.end(), [&](const StepDefinition::Argument& argument) {
            return is_it(argument) || std::any_of(argument.of.begin(), argument.of.end(), is_it);
        });
    };
    bool is_any_checked = false;
    for (const OpDefinition::Tensor& tensor : op_.tensors) {
        is_any_checked = is_any_checked || (tensor.access != Access::in && tensor.is_checked);
        bool is_used = !tensor.symbol.empty();
        for (const StepDefinition& step : family.steps) is_used = is_used || uses(step, tensor.name);
        if (tensor.access == Access::in)
            for (const StepDefinition& step : op_.prepare) is_used = is_used || uses(step, tensor.name);
        if (!is_used)
            reading_.fault(name_places_[tensor.name], tensor.access == Access::in ? "no step reads tensor " + tensor.name
                                                                                  : "no step writes tensor " + tensor.name);
    }
    if (!is_any_checked && !op_.tensors.empty())
        reading_.fault({reading_.path()}, "no tensor is written and checked, so there is nothing to verify");
    // The driver finds kernels by their C names.
    std::vector<std::string> kernels;
    for (const StepDefinition& step : family.steps) kernels.push_back(step.kernel);
    for (const StepDefinition& step : op_.reference) kernels.push_back(step.kernel);
    for (const StepDefinition& step : op_.prepare) kernels.push_back(step.kernel);
    for (KernelText& file : op_.source.files) file.text = with_c_names(file.text, kernels);
}

}  // namespace

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
    Loaded loaded = load(path, options);
    if (loaded.is_whole()) return std::move(loaded.file.family);
    const auto first =
        std::find_if(loaded.findings.begin(), loaded.findings.end(), [](const Finding& each) { return !each.is_warning; });
    const auto faults =
        std::count_if(loaded.findings.begin(), loaded.findings.end(), [](const Finding& each) { return !each.is_warning; });
    std::string text = first->place.text() + ": " + first->text;
    if (faults > 1) text += " (`autotune check " + path + "` tells this and " + std::to_string(faults - 1) + " more)";
    throw Error(ErrorCode::usage, text);
}

}  // namespace autotune::kernel_files
