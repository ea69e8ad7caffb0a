// [[tensor]].
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "src/core/text.h"
#include "src/kernel_files/loader.h"

namespace autotune::kernel_files {
namespace {

namespace fs = std::filesystem;

// A sum of a file's bytes in 16 digits, which changes with them; empty if the file cannot be read.
std::string content_sum(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return "";
    constexpr std::uint64_t kStart = 0xcbf29ce484222325, kFactor = 0x100000001b3;
    std::uint64_t sum = kStart;
    std::vector<char> bytes(std::size_t{1} << 20);
    while (in) {
        in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        const auto count = static_cast<std::size_t>(in.gcount());
        for (std::size_t i = 0; i < count; i += 8) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes.data() + i, std::min<std::size_t>(8, count - i));
            sum = (sum ^ word) * kFactor;
            sum ^= sum >> 32;
        }
    }
    constexpr int kDigits = 16;
    std::string text(kDigits, '0');
    for (int i = kDigits - 1; i >= 0; --i, sum >>= 4) text[static_cast<std::size_t>(i)] = "0123456789abcdef"[sum & 15];
    return text;
}

}  // namespace

void Loader::read_tensor(const toml::table& table) {
    TableReader reader(reading_, table, "[[tensor]]");
    OpDefinition::Tensor tensor;
    tensor.name = reader.needed_text("name");
    if (!tensor.name.empty() && !is_name(tensor.name, true, 40))
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
        const bool is_zeroed = tensor.access == Access::inout && reader.text("reset").value_or("") == "zero";
        if (type && traits_of(*type).kind == NumberKind::integer && tensor.access != Access::out && !is_zeroed)
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
    if (table != nullptr && table->contains("npy")) {
        TableReader file(reading_, *table, "fill npy");
        read_file_fill(*file.node("npy"), tensor, file.text("sum"));
        return file.finish();
    }
    if (table == nullptr || table->size() != 1)
        return reading_.fault(*fill, "'fill' is a word, or a table of one fill, such as { constant = 0 }");
    const std::string kind(table->begin()->first.str());
    const toml::node& inside = table->begin()->second;
    tensor.fill.kind = kind;
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
void Loader::read_file_fill(const toml::node& node, OpDefinition::Tensor& tensor, const std::optional<std::string>& sum) {
    tensor.fill.kind = "npy";
    const auto name = node.value_exact<std::string>();
    if (!name) return reading_.fault(node, "'npy' is the name of a file, in quotes");
    const auto path = file_below(*name, reading_.inside(node));
    if (!path) return;
    if (!tensor.strides.empty()) reading_.fault(node, "a tensor from a file is dense: leave 'strides' out");
    std::error_code ignored;
    if (options_.needs_data && !fs::is_regular_file(*path, ignored))
        reading_.fault(reading_.inside(node), "there is no file " + *name + " beside the kernel file");
    // Winners are stored for a content: the sum is part of the op's rules. A caller's own data need not be this file.
    if (sum) tensor.fill.values["sum"] = *sum;
    const std::string found = options_.needs_data && fs::is_regular_file(*path, ignored) ? content_sum(*path) : "";
    if (!found.empty() && !sum)
        reading_.fault(reading_.inside(node),
                       *name + " may change, and winners stay: write { npy = \"" + *name + "\", sum = \"" + found +
                           "\" }, and another content is refused",
                       true);
    if (!found.empty() && sum && found != *sum)
        reading_.fault(reading_.inside(node), *name + " has changed: its sum is \"" + found + "\", not \"" + *sum +
                                                  "\". With the new sum the kernel is tuned again");
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
    if (!is_name(*symbol, true, 64))
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

}  // namespace autotune::kernel_files
