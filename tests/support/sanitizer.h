#pragma once

namespace autotune::test {

// Built with a sanitizer: times are meaningless, and an enumeration takes ten times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace autotune::test
