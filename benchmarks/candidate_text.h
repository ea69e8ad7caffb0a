#pragma once

#include <cstdlib>
#include <sstream>
#include <string>

#include "src/core/statistics/trial.h"

namespace autotune {

// The candidate of a text such as "gemm/wgmma block_m=64 ...", which is the form in which a plan gives its candidate. REQUIRES:
// the text has this form.
inline Candidate candidate_of(const std::string& text) {
    std::istringstream words(text);
    Candidate candidate;
    words >> candidate.family;
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        candidate.config.set(word.substr(0, equals), std::strtoll(word.c_str() + equals + 1, nullptr, 10));
    }
    return candidate;
}

}  // namespace autotune
