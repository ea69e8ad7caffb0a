#pragma once

#include <new>
#include <utility>

namespace autotune {

// A static value that is never destroyed. exit() destroys statics while other threads still run: a thread that plans, compiles or
// launches at that moment would use a destroyed object. A test checks that the library's code registers no destructor
// (tests/runtime/static_destructors_test.cmake).
template <typename T>
class Immortal {
  public:
    template <typename... Arguments>
    explicit Immortal(Arguments&&... arguments) : value_(*new (place_) T(std::forward<Arguments>(arguments)...)) {}
    Immortal(const Immortal&) = delete;
    Immortal& operator=(const Immortal&) = delete;

    const T& operator*() const noexcept { return value_; }
    const T* operator->() const noexcept { return &value_; }

  private:
    alignas(T) unsigned char place_[sizeof(T)];
    T& value_;
};

}  // namespace autotune
