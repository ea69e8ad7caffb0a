#pragma once

#include <autotune/autotune.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "src/core/problem/dtype.h"
#include "src/gpu/driver/driver.h"

namespace autotune::runtime::test {

inline autotune_add_problem add(std::int64_t length, autotune_dtype type = AUTOTUNE_F32) {
    autotune_add_problem problem = {};
    problem.struct_size = sizeof(problem);
    problem.length = length;
    problem.type = type;
    return problem;
}

// The three arrays of a problem in device memory, each `offset` elements after an aligned address: small numbers, and at the
// start infinities, NaN and values that need rounding. Expected sums are computed on the host and rounded once.
class AddData {
  public:
    AddData(std::shared_ptr<const gpu::Driver> driver, const autotune_add_problem& problem, std::size_t offset = 0)
        : type_(problem.type == AUTOTUNE_F32    ? DType::f32
                : problem.type == AUTOTUNE_BF16 ? DType::bf16
                                                : DType::f16),
          offset_(offset),
          count_(static_cast<std::size_t>(problem.length)) {
        for (std::size_t array = 0; array < 3; ++array) {
            for (std::size_t i = 0; i < count_; ++i) values_[array].push_back(value(array, i));
            device_[array] = gpu::Buffer(driver, (count_ + offset_) * size() + kGuardBytes);
            upload(array);
        }
    }

    void* a() const { return address(0); }
    void* b() const { return address(1); }
    void* c() const { return address(2); }

    // How many elements of array `at` (c, or an input that was added to in place) are not a + b, and how many bytes after it
    // changed.
    int wrong(std::size_t at = 2) const {
        std::vector<std::byte> got((count_ + offset_) * size() + kGuardBytes);
        device_[at].download(got);
        int count = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            std::uint64_t bits = 0;
            std::memcpy(&bits, got.data() + (offset_ + i) * size(), size());
            const double sum = round_to(type_, values_[0][i] + values_[1][i]);
            const double out = decode(type_, bits);
            count += out == sum || (out != out && sum != sum) ? 0 : 1;
        }
        for (std::size_t i = 0; i < offset_ * size(); ++i) count += got[i] == kGuard ? 0 : 1;
        for (std::size_t i = got.size() - kGuardBytes; i < got.size(); ++i) count += got[i] == kGuard ? 0 : 1;
        return count;
    }

  private:
    static constexpr std::size_t kGuardBytes = 64;
    static constexpr std::byte kGuard{0xA5};

    std::size_t size() const { return size_bytes(type_); }
    void* address(std::size_t array) const { return reinterpret_cast<void*>(device_[array].address() + offset_ * size()); }
    double value(std::size_t array, std::size_t i) const {
        constexpr double kInfinity = std::numeric_limits<double>::infinity();
        constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
        constexpr double kSpecial[][2] = {{kInfinity, 1}, {kInfinity, -kInfinity}, {kNan, 1}, {-kInfinity, 2}, {1, kNan}};
        if (array == 2) return 7;
        if (i % 97 < 5 && count_ > 97) return kSpecial[i % 97][array];
        return round_to(type_, (static_cast<double>(i % 1000) - 500) * (array == 0 ? 0.37 : 1.0 / 64));
    }
    void upload(std::size_t array) {
        std::vector<std::byte> bytes((count_ + offset_) * size() + kGuardBytes, kGuard);
        for (std::size_t i = 0; i < count_; ++i) {
            const std::uint64_t bits = encode(type_, values_[array][i]);
            std::memcpy(bytes.data() + (offset_ + i) * size(), &bits, size());
        }
        device_[array].upload(bytes);
    }

    DType type_;
    std::size_t offset_;
    std::size_t count_;
    std::vector<double> values_[3];
    gpu::Buffer device_[3];
};

}  // namespace autotune::runtime::test
