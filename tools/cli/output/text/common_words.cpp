#include "tools/cli/output/text/common_words.h"

#include <algorithm>

#include "tools/cli/input/arguments.h"
#include "tools/cli/output/terminal/wrap.h"

namespace autotune::cli {
namespace {

bool contains(const std::vector<std::string>& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

void CommonWords::add(const std::string& text) {
    const std::vector<std::string> words = split(text, ' ');
    Group& group = groups_[words.front()];
    if (group.rows++ == 0) {
        group.common.assign(words.begin() + 1, words.end());
    } else {
        std::erase_if(group.common, [&](const std::string& word) { return !contains(words, word); });
    }
}

std::string CommonWords::name(const std::string& text) const {
    if (full_) return text;
    const std::vector<std::string> words = split(text, ' ');
    const std::vector<std::string>& common = groups_.at(words.front()).common;
    std::string name = words.front();
    for (std::size_t i = 1; i < words.size(); ++i) {
        if (!contains(common, words[i])) name += " " + words[i];
    }
    return name;
}

std::string CommonWords::legend() const {
    if (full_) return "";
    std::string text;
    for (const auto& [name, group] : groups_) {
        if (!group.common.empty()) text += wrapped((group.rows > 1 ? "every " : "the ") + name + ":  ", join(group.common, " "));
    }
    return text.empty() ? "" : text + "\n";
}

}  // namespace autotune::cli
