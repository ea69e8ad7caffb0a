#include "tools/cli/plot/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/core/error.h"

namespace autotune::plot {
namespace {

constexpr double kTicks = 5;

// The smallest number that is 1, 2 or 5 times a power of ten and at least `least`.
double round_step(double least) {
    const double power = std::pow(10, std::floor(std::log10(least)));
    for (const double factor : {1.0, 2.0, 5.0}) {
        if (factor * power >= least * (1 - 1e-9)) return factor * power;
    }
    return 10 * power;
}

std::vector<double> linear_ticks(double low, double high) {
    const double step = round_step((high - low) / kTicks);
    std::vector<double> ticks;
    for (double index = std::ceil(low / step - 1e-9); index * step <= high + step * 1e-9; ++index)
        ticks.push_back(index * step + 0.0);  // no negative zero
    return ticks;
}

std::vector<double> logarithmic_ticks(double low, double high) {
    const bool few = std::log10(high / low) < 2;
    std::vector<double> ticks;
    for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10) {
        for (const double factor : {1.0, 2.0, 5.0}) {
            const double tick = factor * power;
            if ((factor == 1 || few) && tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push_back(tick);
        }
    }
    return ticks;
}

}  // namespace

Scale::Scale(double low, double high, bool logarithmic) : low_(low), high_(high), logarithmic_(logarithmic) {
    check(std::isfinite(low) && std::isfinite(high) && low < high && (!logarithmic || low > 0), "a scale without a range");
}

Scale Scale::onto(double from, double to) const {
    Scale placed = *this;
    placed.from_ = from;
    placed.to_ = to;
    return placed;
}

double Scale::at(double value) const {
    const double part =
        logarithmic_ ? std::log(std::max(value, low_ * 1e-9) / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_ + std::clamp(part, -0.02, 1.02) * (to_ - from_);
}

std::vector<double> Scale::ticks() const {
    return logarithmic_ ? logarithmic_ticks(low_, high_) : linear_ticks(low_, high_);
}

Scale scale_for(const std::vector<double>& values, bool logarithmic) {
    std::vector<double> known;
    for (const double value : values) {
        if (std::isfinite(value) && (!logarithmic || value > 0)) known.push_back(value);
    }
    if (known.empty()) return Scale(logarithmic ? 1 : 0, logarithmic ? 10 : 1, logarithmic);
    const auto [least, most] = std::minmax_element(known.begin(), known.end());
    double low = *least, high = *most;
    if (logarithmic) return Scale(low / 1.15, high * 1.15, true);
    if (low == high) high = low + std::max(std::abs(low), 1.0);
    if (low > 0 && low < 0.6 * high) low = 0;
    const double step = round_step((high - low) / kTicks);
    return Scale(std::floor(low / step + 1e-9) * step, std::ceil(high / step - 1e-9) * step, false);
}

std::string short_text(double value) {
    const double size = std::abs(value);
    if (size >= 1e12) return fmt::format("{:.4g}T", value / 1e12);
    if (size >= 1e9) return fmt::format("{:.4g}G", value / 1e9);
    if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
    if (size >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
    return fmt::format("{:.4g}", value);
}

}  // namespace autotune::plot
