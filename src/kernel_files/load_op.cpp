// [op], [[attribute]] and [[scalar]].
#include <algorithm>

#include "src/core/text.h"
#include "src/kernel_files/loader.h"

namespace autotune::kernel_files {
namespace {

constexpr std::size_t kMostExtents = 8;

}  // namespace

void Loader::read_op(const toml::table& table) {
    TableReader op(reading_, table, "[op]");
    const std::string name = op.needed_text("name");
    if (!name.empty() && !is_name(name, false, 40))
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
        if (!is_name(extent, false, 40))
            reading_.fault(*op.node("extents"), "'" + extent + "' is no name of an extent: small letters, digits and _");
        if (extent == "batch")
            reading_.fault(*op.node("extents"), "'batch' has a meaning of its own in shapes; choose another name");
        take_name(extent, "extent", reading_.place_of(*op.node("extents")));
    }
    op_.flops = op.expression("flops", "0");
    if (!op.has("flops")) flops_missing_ = op.place();
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
    // The attributes are not known yet, so check() reads the examples later.
    if (const toml::node* const examples = op.node("examples")) {
        read_examples(*examples);
    } else {
        op.fault("'examples' is missing: shapes that check and verify run; the first is the default");
    }
    op.finish();
}

// The tolerance of floating-point outputs follows from the FLOPs. Integers have none.
void Loader::check_flops() {
    const bool needs_them = std::any_of(op_.tensors.begin(), op_.tensors.end(), [](const OpDefinition::Tensor& each) {
        const auto type = parse_dtype(each.dtype);
        return each.access != Access::in && each.is_checked && (!type || traits_of(*type).kind != NumberKind::integer);
    });
    if (flops_missing_ && needs_them)
        reading_.fault(*flops_missing_,
                       "[op]: 'flops' is missing: the floating-point operations of a problem, from which the tolerance follows");
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
    if (!attribute.name.empty() && !is_name(attribute.name, false, 40))
        reading_.fault(reading_.inside(*reader.node("name")),
                       "'" + attribute.name + "' is no name of an attribute: small letters, digits and _");
    take_name(attribute.name, "attribute", reader.place());
    if (std::find(options_.taken_options.begin(), options_.taken_options.end(), attribute.name) != options_.taken_options.end())
        reading_.fault(reading_.inside(*reader.node("name")),
                       "--" + attribute.name + " is a flag of the command; choose another name");
    attribute.about = reader.text("about").value_or("");
    const auto value_of = [&](const toml::node& node) -> std::optional<std::string> {
        if (const auto word = node.value_exact<std::string>()) {
            if (is_name(*word, true, 40)) return word;
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

}  // namespace autotune::kernel_files
