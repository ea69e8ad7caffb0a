#pragma once

namespace autotune::test {

// Built with AddressSanitizer: times mean nothing, and an enumeration takes ten times as long.
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace autotune::test
