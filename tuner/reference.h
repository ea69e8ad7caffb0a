#pragma once

namespace autotune::tuner {

// How much of a problem's right answer candidates are compared with: nothing, so that only awkward neighbours prove them; the
// op's excerpts and, where it is one, the whole as a product of integers; every element.
enum class Reference { none, sampled, full };

}  // namespace autotune::tuner
