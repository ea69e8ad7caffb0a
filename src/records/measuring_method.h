#pragma once

#include <string>
#include <string_view>

namespace autotune {

// What of measuring a caller may choose; records say it in their method.
struct MeasuringMethod {
    bool l2_warm = false;  // operands in L2 instead of rotating buffers
    int streams = 1;       // 2: in a context in which kernels have run on two streams, which makes launches slower

    // "stream-2 l2=cold data=normal": the scheme, which is raised when measuring changes, and what was chosen.
    std::string text() const;
    // Of a record: what its text does not say is as by default.
    static MeasuringMethod of(std::string_view text);
};

// "stream-2" of such a text.
std::string measuring_scheme(std::string_view text);

}  // namespace autotune
