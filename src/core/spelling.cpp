#include "src/core/spelling.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <numeric>

#include "src/core/text.h"

namespace autotune {
namespace {

// A no-break space in UTF-8.
constexpr std::string_view kNoBreakSpace = "\xc2\xa0";

// ASCII letters only, independent of the locale.
char lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

std::size_t blank_at(std::string_view text) {
    if (text.empty()) return 0;
    if (text.front() == ' ' || (text.front() >= '\t' && text.front() <= '\r')) return 1;
    return text.starts_with(kNoBreakSpace) ? kNoBreakSpace.size() : 0;
}

struct OtherNames {
    std::string_view word;
    std::array<std::string_view, 6> names;
};

// Other names of element types, without a prefix, in lower case and with '_'.
constexpr std::array<OtherNames, 10> kElementTypes = {{
    {"f16", {"fp16", "half", "float16"}},
    {"bf16", {"bfloat16", "bfloat", "brain16"}},
    {"f32", {"fp32", "float", "float32", "single"}},
    {"f64", {"fp64", "double", "float64"}},
    {"tf32", {"tfloat32", "tensorfloat32"}},
    {"e4m3", {"fp8", "f8", "float8", "e4m3fn"}},
    {"e5m2", {}},
    {"i32", {"int32", "s32", "int"}},
    {"i8", {"int8", "s8"}},
    {"fp8", {"e4m3", "f8", "float8", "e4m3fn"}},  // compute type of both
}};

std::string folded(std::string_view text) {
    std::string word(trimmed(text));
    for (char& letter : word) letter = letter == '-' ? '_' : lower(letter);
    return word;
}

// "torch.float8_e4m3fn" becomes "e4m3fn", "sm90a" becomes "sm_90a".
std::string without_prefix(std::string word) {
    if (word.size() > 2 && word.starts_with("sm") && word[2] >= '0' && word[2] <= '9') word.insert(2, "_");
    for (const std::string_view module : {"torch.", "np.", "numpy.", "jnp.", "__nv_", "__", "cuda_r_"}) {
        if (word.starts_with(module)) word.erase(0, module.size());
    }
    for (const std::string_view of_fp8 : {"float8_", "fp8_", "float8", "fp8", "f8_", "f8"}) {
        const std::string_view rest = std::string_view(word).substr(std::min(of_fp8.size(), word.size()));
        if (word.starts_with(of_fp8) && rest.starts_with("e")) return std::string(rest);
    }
    return word;
}

bool is_name_of(std::string_view name, std::string_view word) {
    const auto row = std::find_if(kElementTypes.begin(), kElementTypes.end(), [&](const auto& one) { return one.word == word; });
    return row != kElementTypes.end() && !name.empty() &&
           (name == word || std::find(row->names.begin(), row->names.end(), name) != row->names.end());
}

bool is_number(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    return failure == std::errc() && end == text.data() + text.size();
}

// The length in bytes of a sign for "times" at the beginning of `text`, or 0 if there is none.
std::size_t times_at(std::string_view text) {
    if (text.starts_with("x") || text.starts_with("X")) return 1;
    for (const std::string_view sign : {"×", "✕", "⨯", "х", "Х"})  // the last two are Cyrillic
        if (text.starts_with(sign)) return sign.size();
    return 0;
}

bool joins_numbers(char letter) {
    return letter == 'x' || letter == ',' || letter == ':' || letter == '*';
}

// Optimal string alignment.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before(b.size() + 1), row(b.size() + 1), next(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        next[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            next[j] = std::min({row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (exchanged) next[j] = std::min(next[j], before[j - 2] + 1);
        }
        before.swap(row);
        row.swap(next);
    }
    return row[b.size()];
}

// Words with different digits are different choices and not typing errors: f17 is not f16, sm_70 is not sm_80.
std::string digits_of(std::string_view text) {
    std::string digits;
    std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
                 [](char letter) { return letter >= '0' && letter <= '9'; });
    return digits;
}

std::size_t edits_allowed(std::size_t letters) {
    return letters <= 4 ? 1 : letters <= 8 ? 2 : 3;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
    while (const std::size_t blank = blank_at(text)) text.remove_prefix(blank);
    while (!text.empty()) {
        if (blank_at(text.substr(text.size() - 1)) == 1) {
            text.remove_suffix(1);
        } else if (text.ends_with(kNoBreakSpace)) {
            text.remove_suffix(kNoBreakSpace.size());
        } else {
            break;
        }
    }
    return text;
}

std::string known_word(std::string_view text, const std::vector<std::string>& allowed) {
    const std::string plain(trimmed(text));
    if (std::find(allowed.begin(), allowed.end(), plain) != allowed.end()) return plain;
    const std::string word = folded(text);
    for (const std::string& one : allowed)
        if (folded(one) == word) return one;
    const std::string name = without_prefix(word);
    for (const std::string& one : allowed)
        if (name == one || is_name_of(name, one)) return one;
    return plain;
}

std::string plain_shape(std::string_view text) {
    std::string shape;
    text = trimmed(text);
    while (!text.empty()) {
        std::string_view rest = text;
        while (const std::size_t blank = blank_at(rest)) rest.remove_prefix(blank);
        const std::size_t times = times_at(rest);
        const bool blanks_join = rest.size() != text.size() &&
                                 (times > 0 || joins_numbers(rest.front()) || (!shape.empty() && joins_numbers(shape.back())));
        if (rest.size() == text.size() || blanks_join) text = rest;
        const std::size_t taken = std::max<std::size_t>(times_at(text), 1);
        shape += times_at(text) > 0 ? std::string_view("x") : text.substr(0, 1);
        text.remove_prefix(taken);
    }
    return shape;
}

std::optional<std::string> shape_with_x(std::string_view text, std::size_t extents) {
    if (text.find('x') != std::string_view::npos) return std::nullopt;
    std::string spaced(trimmed(text));
    for (char& letter : spaced)
        if (std::string_view(",;*/|_()[]{} \t").find(letter) != std::string_view::npos) letter = ' ';
    std::vector<std::string> numbers;
    for (const std::string& part : split(spaced, ' '))
        if (!part.empty()) numbers.push_back(part);
    if (numbers.size() != extents || !std::all_of(numbers.begin(), numbers.end(), is_number)) return std::nullopt;
    return join(numbers, "x");
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
    const std::string typed = folded(word);
    const std::size_t letters = typed.size() - std::min(typed.size(), typed.find_first_not_of('_'));  // "--op" has two
    for (const std::string& one : known)
        if (folded(one) == typed) return one;
    if (letters < 3) return "";
    const auto begins = [&](const std::string& one) { return folded(one).starts_with(typed); };
    if (std::count_if(known.begin(), known.end(), begins) == 1) return *std::find_if(known.begin(), known.end(), begins);
    std::string best;
    std::size_t best_distance = edits_allowed(letters) + 1;
    for (const std::string& one : known) {
        const std::size_t longer = std::max(one.size(), typed.size()), shorter = std::min(one.size(), typed.size());
        if (longer - shorter >= best_distance || digits_of(typed) != digits_of(one)) continue;
        const std::size_t distance = edit_distance(typed, folded(one));
        if (distance < best_distance && distance < shorter) {
            best = one;
            best_distance = distance;
        }
    }
    return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
    const std::string close = nearest(word, known);
    return close.empty() ? "" : " (did you mean " + close + "?)";
}

}  // namespace autotune
