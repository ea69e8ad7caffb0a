#pragma once

#include <string>
#include <vector>

#include "tools/cli/plot/svg.h"

namespace autotune::cli {

// Parts of a page. Every text is escaped; widths adapt to the reader's window.

std::string page_style();

// A paragraph; nothing for an empty text.
std::string html_paragraph(const std::string& text, const std::string& classes = "");

// Drawings in rows, as many per row as fit. In a narrow window a wide drawing scrolls on its own.
std::string html_charts(const std::vector<plot::Svg>& drawings);

// A table; columns whose title begins with '#' hold numbers. In a narrow window each row becomes a block of titled lines.
class HtmlTable {
  public:
    explicit HtmlTable(std::vector<std::string> titles);
    // `href`: the link of the first cell; empty: none.
    void add(const std::vector<std::string>& cells, const std::string& href = "");
    std::string html() const;

  private:
    bool is_number(std::size_t column) const { return numbers_[column]; }
    std::string number_class(std::size_t column) const { return is_number(column) ? " class=\"n\"" : ""; }

    std::vector<std::string> titles_;
    std::vector<bool> numbers_;
    std::string rows_;
};

}  // namespace autotune::cli
