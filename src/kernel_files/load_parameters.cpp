// [let], [[parameter]], [[constraint]] and [[config]].
#include <algorithm>
#include <numeric>

#include "src/core/spelling.h"
#include "src/kernel_files/loader.h"

namespace autotune::kernel_files {
namespace {

constexpr std::size_t kMostValues = 10'000;

}  // namespace

void Loader::read_let(const toml::table& table) {
    TableReader reader(reading_, table, "[let]");
    for (const auto& [key, value] : table) {
        const std::string name(key.str());
        if (!is_name(name, true, 64)) {
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
    if (!parameter.name.empty() && !is_name(parameter.name, true, 64))
        reading_.fault(reading_.inside(*reader.node("name")),
                       "'" + parameter.name + "' is no name of a parameter: letters, digits and _, at most 64");
    const std::size_t faults_before = reading_.faults();
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
        const auto is_power = [](std::int64_t value) { return value > 0 && (value & (value - 1)) == 0; };
        if (!is_power(powers[0]) || !is_power(powers[1]) || powers[1] > std::int64_t{1} << 60) {
            const std::int64_t wrong = is_power(powers[0]) ? powers[1] : powers[0];
            reading_.fault(*reader.node("powers"),
                           "'powers' is [first, last], two powers of two, and " + std::to_string(wrong) + " is none");
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
    const bool is_twice = std::adjacent_find(parameter.values.begin(), parameter.values.end()) != parameter.values.end();
    if (is_twice && !(reader.has("values") && (reader.has("range") || reader.has("powers"))))
        reader.fault("a value of " + parameter.name + " is there twice");
    if (parameter.values.empty() && !reader.has("values") && !reader.has("range") && !reader.has("powers"))
        reader.fault("parameter " + parameter.name + " has no values; give 'values', 'range' or 'powers'");
    const int kinds = (reader.has("values") ? 1 : 0) + (reader.has("range") ? 1 : 0) + (reader.has("powers") ? 1 : 0);
    if (kinds > 1) reader.fault("parameter " + parameter.name + ": give one of 'values', 'range' and 'powers'");
    // Then a default and configs cannot be compared with them.
    const bool are_unread = reading_.faults() > faults_before;
    if (are_unread) unread_parameters_.push_back(parameter.name);
    std::int64_t otherwise = parameter.values.empty() ? 0 : parameter.values.front();
    if (const toml::node* const given = reader.node("default")) {
        std::optional<std::int64_t> value = given->value_exact<std::int64_t>();
        if (const auto truth = given->value_exact<bool>(); truth && type == "bool") value = *truth ? 1 : 0;
        if (const auto word = given->value_exact<std::string>(); word && has_words) value = position(*word);
        if (!value || !std::binary_search(parameter.values.begin(), parameter.values.end(), *value)) {
            if (!are_unread) reading_.fault(*given, "the default of " + parameter.name + " is none of its values");
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

void Loader::read_config(const toml::table& table) {
    TableReader reader(reading_, table, "[[config]]");
    FamilyDefinition& family = reading_.file().family;
    NamedConfig named{reader.needed_text("name"), family.default_config};
    if (!named.name.empty() && !is_name(named.name, false, 64))
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
                if (std::find(unread_parameters_.begin(), unread_parameters_.end(), name) == unread_parameters_.end())
                    reading_.fault(value, "config " + named.name + " sets " + name + " to none of its values");
            } else {
                named.config.set(name, *number);
            }
        }
    }
    reader.finish();
    family.named.push_back(std::move(named));
}

}  // namespace autotune::kernel_files
