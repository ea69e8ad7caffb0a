#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace autotune::gpu {

// Kernels that are instances of templates have mangled names in a cubin. The names by which they are loaded stand behind the
// cubin's own bytes, so that caches and messages carry both as one. The driver reads an image by the sizes in its header and
// never sees them.

// The image with these names behind it: each the name by which a kernel is loaded, and its name in the image.
std::vector<std::byte> with_kernel_names(std::vector<std::byte> image,
                                         const std::vector<std::pair<std::string, std::string>>& names);
// The names behind an image, by the name by which a kernel is loaded; none if there are none.
std::map<std::string, std::string> kernel_names_of(std::span<const std::byte> image);

}  // namespace autotune::gpu
