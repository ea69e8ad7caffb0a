#include "src/core/family/names.h"

#include <algorithm>
#include <functional>
#include <set>

namespace autotune {
namespace {

void add_tensor(const Tensor& tensor, std::map<std::string, std::int64_t, std::less<>>& values) {
    values[tensor.name + ".align"] = tensor.alignment_bytes;
    values[tensor.name + ".type_bytes"] = static_cast<std::int64_t>(size_bytes(tensor.dtype));
    values[tensor.name + ".elements"] = tensor.elements();
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
        values[tensor.name + ".extent" + std::to_string(i)] = tensor.dims[i].extent;
        values[tensor.name + ".stride" + std::to_string(i)] = tensor.dims[i].stride;
    }
}

// `attribute.word`, for attributes whose values are words: 1 if it is the attribute's value.
std::optional<std::int64_t> compared_word(const std::vector<Attribute>& attributes, std::string_view name) {
    const std::size_t point = name.find('.');
    if (point == std::string_view::npos) return std::nullopt;
    for (const Attribute& attribute : attributes) {
        const auto* const word = std::get_if<std::string>(&attribute.value);
        if (word != nullptr && attribute.name == name.substr(0, point)) return *word == name.substr(point + 1) ? 1 : 0;
    }
    return std::nullopt;
}

}  // namespace

Lets::Lets(const std::vector<Let>& lets) {
    std::map<std::string, Expression, std::less<>> all;
    for (const Let& let : lets) all.emplace(let.name, Expression(let.value));
    enum class Mark : std::uint8_t { open, done };
    std::map<std::string, Mark, std::less<>> marks;
    const std::function<void(const std::string&)> visit = [&](const std::string& name) {
        const auto found = all.find(name);
        if (found == all.end()) return;
        const auto mark = marks.find(name);
        if (mark != marks.end()) {
            if (mark->second == Mark::done) return;
            throw Error(ErrorCode::usage, "'" + name + "' is defined by itself");
        }
        marks[name] = Mark::open;
        for (const std::string& used : found->second.names()) visit(used);
        marks[name] = Mark::done;
    };
    for (const Let& let : lets) visit(let.name);
    lets_ = std::make_shared<const std::map<std::string, Expression, std::less<>>>(std::move(all));
}

const Expression* Lets::find(std::string_view name) const {
    if (lets_ == nullptr) return nullptr;
    const auto found = lets_->find(name);
    return found == lets_->end() ? nullptr : &found->second;
}

std::vector<std::string> Lets::names_of(const Expression& expression) const {
    std::vector<std::string> names, todo(expression.names().rbegin(), expression.names().rend());
    std::set<std::string> seen;
    while (!todo.empty()) {
        const std::string name = todo.back();
        todo.pop_back();
        if (!seen.insert(name).second) continue;
        if (const Expression* const let = find(name)) {
            todo.insert(todo.end(), let->names().rbegin(), let->names().rend());
        } else {
            names.push_back(name);
        }
    }
    return names;
}

Names::Names(const Problem& problem, Lets lets) : attributes_(problem.attributes), lets_(std::move(lets)) {
    for (const Extent& extent : problem.extents) values_[extent.name] = extent.value;
    for (const Attribute& attribute : problem.attributes) {
        if (const auto* integer = std::get_if<std::int64_t>(&attribute.value)) values_[attribute.name] = *integer;
    }
    for (const Tensor& tensor : problem.tensors) add_tensor(tensor, values_);
}

Names::Names(const Problem& problem, const Device& device, Lets lets, ParameterWords words) : Names(problem, std::move(lets)) {
    words_ = std::move(words);
    values_["cc"] = device.identity.cc();
    values_["sms"] = device.identity.sm_count;
    values_["l2_bytes"] = std::int64_t{device.identity.l2_mib} << 20;
    values_["smem_per_block"] = device.limits.smem_per_block_bytes;
    values_["smem_per_sm"] = device.limits.smem_per_sm_bytes;
    values_["registers_per_sm"] = device.limits.registers_per_sm;
    values_["threads_per_block"] = device.limits.threads_per_block;
    values_["threads_per_sm"] = device.limits.threads_per_sm;
    values_["warp"] = 32;
}

std::optional<ExpressionValue> Names::find(std::string_view name, const Config* config,
                                           const std::shared_ptr<Known>& lets) const {
    if (config != nullptr) {
        if (const auto parameter = config->find(name)) {
            const auto words = words_.find(name);
            if (words == words_.end()) return *parameter;
            const auto position = static_cast<std::size_t>(*parameter);
            if (position < words->second.size()) return words->second[position];
        }
    }
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    for (const Attribute& attribute : attributes_) {
        const auto* const word = std::get_if<std::string>(&attribute.value);
        if (word != nullptr && attribute.name == name) return *word;
    }
    if (const auto word = compared_word(attributes_, name)) return *word;
    const Expression* const let = lets_.find(name);
    if (let == nullptr) return std::nullopt;
    if (const auto known = lets->find(name); known != lets->end()) return known->second;
    ExpressionValue value = let->evaluate_value([&](std::string_view inner) { return find(inner, config, lets); });
    lets->emplace(std::string(name), value);
    return value;
}

Expression::Scope Names::scope(const Config* config) const {
    const auto lets = std::make_shared<Known>();
    return [this, config, lets](std::string_view name) { return find(name, config, lets); };
}

const std::vector<std::string>& device_names() {
    static const auto& names = *new std::vector<std::string>{
        "cc",  "sms", "l2_bytes", "smem_per_block", "smem_per_sm", "registers_per_sm", "threads_per_block", "threads_per_sm",
        "warp"};
    return names;
}

const std::vector<std::string>& tensor_properties() {
    static const auto& names =
        *new std::vector<std::string>{"align",   "type_bytes", "elements", "extent0", "extent1", "extent2", "extent3",
                                      "extent4", "stride0",    "stride1",  "stride2", "stride3", "stride4"};
    return names;
}

}  // namespace autotune
