#include "src/records/measuring_method.h"

namespace autotune {
namespace {

constexpr std::string_view kScheme = "stream-2";
constexpr std::string_view kWarm = "l2=warm", kCold = "l2=cold", kTwoStreams = "streams=2";

}  // namespace

std::string MeasuringMethod::text() const {
    std::string words(kScheme);
    words.append(" ").append(l2_warm ? kWarm : kCold).append(" data=normal");
    if (streams > 1) words.append(" ").append(kTwoStreams);
    return words;
}

MeasuringMethod MeasuringMethod::of(std::string_view text) {
    const auto says = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
    return {.l2_warm = says(kWarm), .streams = says(kTwoStreams) ? 2 : 1};
}

std::string measuring_scheme(std::string_view text) {
    return std::string(text.substr(0, text.find(' ')));
}

}  // namespace autotune
