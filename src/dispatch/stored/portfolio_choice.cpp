#include "src/dispatch/stored/portfolio_choice.h"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "src/core/text.h"

namespace autotune::dispatch {
namespace {

std::vector<std::string> words_of(std::string_view text) {
    std::istringstream stream{std::string(text)};
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

// The accumulator's word, such as "acc=f32", or "". Times of classes with different accumulators cannot be compared.
std::string accumulator_of(const std::vector<std::string>& words) {
    const auto found = std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with("acc="); });
    return found == words.end() ? "" : *found;
}

// How similar two words at the same position of two class keys are. Layouts decide which kernels are fast; which of two types of
// the same size is used hardly matters. For alignments it matters which tensors have rows of 16 bytes.
std::size_t shared_by(const std::string& a, const std::string& b) {
    if (a.starts_with("align=") && b.starts_with("align=")) {
        const std::vector<std::string> of_a = split(a.substr(6), ','), of_b = split(b.substr(6), ',');
        std::size_t shared = a == b ? 1 : 0;
        for (std::size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i)
            shared += (of_a[i] == "16") == (of_b[i] == "16") ? 2 : 0;
        return shared;
    }
    if (a != b) return 0;
    return a.starts_with("layout=") ? 6 : 1;
}

}  // namespace

const db::Portfolio* portfolio_for(std::span<const db::Portfolio> portfolios, std::string_view class_key, std::string_view arch) {
    const std::vector<std::string> wanted = words_of(class_key);
    const db::Portfolio* best = nullptr;
    std::size_t most_shared = 0;
    for (const db::Portfolio& each : portfolios) {
        const std::vector<std::string> words = words_of(each.class_key);
        if (wanted.empty() || each.op != wanted.front() || each.arch != arch) continue;
        if (accumulator_of(words) != accumulator_of(wanted)) continue;
        std::size_t shared = 0;
        for (std::size_t i = 0; i < std::min(words.size(), wanted.size()); ++i) shared += shared_by(words[i], wanted[i]);
        if (best == nullptr || shared > most_shared) best = &each, most_shared = shared;
    }
    return best;
}

}  // namespace autotune::dispatch
