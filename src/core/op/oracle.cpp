#include "src/core/op/oracle.h"

#include <algorithm>

#include "src/core/error.h"

namespace autotune {

const OpTest& test_named(const std::vector<OpTest>& tests, std::string_view name) {
    const auto found = std::find_if(tests.begin(), tests.end(), [&](const OpTest& test) { return test.name == name; });
    check(found != tests.end(), "the op has no test '" + std::string(name) + "'");
    return *found;
}

const OpTest& typical_test(const std::vector<OpTest>& tests) {
    const auto found = std::find_if(tests.begin(), tests.end(), [](const OpTest& test) { return test.is_typical; });
    check(found != tests.end(), "the op has no typical test");
    return *found;
}

}  // namespace autotune
