#pragma once

#include "src/catalogue/catalogue.h"

namespace autotune::test {

// The embedded catalogue, made once per process: under a sanitizer that takes a seventh of a second, and most tests use it.
inline const Catalogue& embedded_catalogue() {
    static const Catalogue catalogue = Catalogue::embedded();
    return catalogue;
}

}  // namespace autotune::test
