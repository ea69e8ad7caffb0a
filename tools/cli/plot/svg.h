#pragma once

#include <string>
#include <string_view>
#include <vector>

// Converts values to SVG text. Pure: nothing here reads or writes files, or knows what is drawn.
namespace autotune::plot {

struct Point {
    double x = 0;
    double y = 0;
};

struct Box {
    double x = 0, y = 0, width = 0, height = 0;
};

enum class Anchor { start, middle, end };

// Colours of data series, repeated after this many; legible on white and on black.
constexpr std::size_t kSeriesColours = 8;

// A drawing under construction. Elements have classes of stylesheet(), so that one text reads well in light and dark. Words are
// escaped; coordinates are finite numbers (throws Error{internal} otherwise).
class Svg {
  public:
    Svg(double width, double height) : width_(width), height_(height) {}

    double width() const { return width_; }
    double height() const { return height_; }

    void line(Point from, Point to, std::string_view classes);
    void path(const std::vector<Point>& points, std::string_view classes);
    // `title`: shown when the pointer rests on it; empty: nothing.
    void rect(const Box& box, std::string_view classes, const std::string& title = "");
    void circle(Point centre, double radius, std::string_view classes, const std::string& title = "");
    // `degrees`: rotation about its anchor.
    void text(Point at, const std::string& words, std::string_view classes, Anchor anchor = Anchor::start, double degrees = 0);
    void place(const Svg& inner, Point at);

    // An element for a page that contains stylesheet() once.
    std::string element() const;
    // A complete file, with styles and background, that fetches nothing.
    std::string document() const;

  private:
    double width_, height_;
    std::string body_;
};

// Puts drawings one below the other, all as wide as the widest.
Svg stacked(const std::vector<Svg>& drawings);

// Styles of every class that drawings use, for light and dark.
std::string stylesheet();
// The classes of a series' colour, such as "series-3".
std::string series_class(std::size_t series);

// Escapes text between tags and in attributes. Control characters become spaces.
std::string escaped(std::string_view text);

}  // namespace autotune::plot
