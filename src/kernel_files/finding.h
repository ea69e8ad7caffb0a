#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace autotune::kernel_files {

// A place in a file, counted from 1; 0: the file as a whole.
struct Place {
    std::string file;
    std::size_t line = 0, column = 0, length = 0;

    std::string text() const;  // "conv2d.toml:113:41"
};

// A fault in a kernel file, or a warning, as text for a person.
struct Finding {
    Place place;
    std::string text;
    bool is_warning = false;
    std::string line = {};  // the line of the file, to show it

    // "FILE:LINE:COLUMN: TEXT", then the line with a mark below the place, if there is one.
    std::string told() const;
};

}  // namespace autotune::kernel_files
