#include "db/store/matching.h"

#include <algorithm>
#include <cmath>

#include "src/core/problem/device_key.h"

namespace autotune::db {

bool same_names(const std::vector<Extent>& a, const std::vector<Extent>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Extent& x, const Extent& y) { return x.name == y.name; });
}

double log_distance(const std::vector<Extent>& a, const std::vector<Extent>& b) {
    const auto logarithm = [](const Extent& extent) {
        return std::log(static_cast<double>(std::max<std::int64_t>(extent.value, 1)));
    };
    double distance = 0;
    for (std::size_t at = 0; at < std::min(a.size(), b.size()); ++at) distance += std::abs(logarithm(a[at]) - logarithm(b[at]));
    return distance;
}

bool matches(const Winner& winner, const Filter& filter) {
    if (!filter.op.empty() && winner.op != filter.op) return false;
    if (!filter.class_key.empty() && winner.class_key != filter.class_key) return false;
    if (!filter.extents.empty() && winner.extents != filter.extents) return false;
    return filter.device_key.empty() || winner.device.key() == todays_device_key(filter.device_key);
}

}  // namespace autotune::db
