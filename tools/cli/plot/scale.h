#pragma once

#include <string>
#include <vector>

namespace autotune::plot {

// Maps values to a range of the drawing, linearly or by their logarithm.
class Scale {
  public:
    // REQUIRES: low < high, both finite; positive if logarithmic.
    Scale(double low, double high, bool logarithmic);
    Scale onto(double from, double to) const;

    double at(double value) const;
    // Round values within the range, about five; a logarithmic range of less than two decades gets 1, 2 and 5.
    std::vector<double> ticks() const;
    double low() const { return low_; }
    double high() const { return high_; }

  private:
    double low_, high_;
    bool logarithmic_;
    double from_ = 0, to_ = 1;
};

// A range that contains all values: round ends, and 0 if it is near; for a logarithmic range some space at both ends.
Scale scale_for(const std::vector<double>& values, bool logarithmic);

// A tick or a value in few characters: "0.5", "1200", "16k".
std::string short_text(double value);

}  // namespace autotune::plot
