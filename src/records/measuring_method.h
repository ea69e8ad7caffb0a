#pragma once

#include <string>
#include <string_view>

namespace autotune {

// The measuring options that a caller may choose. Records keep them in their method.
struct MeasuringMethod {
    bool l2_warm = false;  // operands stay in L2 instead of rotating buffers
    int streams = 1;       // 2 means in a context in which kernels have run on two streams, which slows down launches

    // The scheme, whose number rises when measuring changes, and the options: "stream-2 l2=cold data=normal".
    std::string text() const;
    // Parses a record's method; options that the text lacks have their defaults.
    static MeasuringMethod of(std::string_view text);
};

// "stream-2" from such a text.
std::string measuring_scheme(std::string_view text);

}  // namespace autotune
