#pragma once

#include <string>
#include <vector>

namespace autotune::cli {

// The words of a command on one product.
inline std::vector<std::string> on_shape(const std::string& shape, const std::string& command,
                                         const std::vector<std::string>& more) {
    std::vector<std::string> words = {"--op", "hgemm", "--shape", shape};
    if (!command.empty()) words.insert(words.begin(), command);
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

inline std::vector<std::string> on(const std::string& command, const std::vector<std::string>& more = {}) {
    return on_shape("512x512x512", command, more);
}

// Words for a command that looks at every config. A small problem has a fifth of them.
inline std::vector<std::string> on_small(const std::string& command, const std::vector<std::string>& more = {}) {
    return on_shape("8x8x8", command, more);
}

}  // namespace autotune::cli
